"""The functions of `sym` that are not operators of MXNet but choose one: zeros, maximum, arange, split_v2, ..."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Number
from typing import Any

import numpy as np

from .operators import internal
from .symbol import Symbol


def _choosing(elementwise: str, scalar: str, reflected: str, plain: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """A binary function on symbols and numbers in any combination."""

    def function(left: Any, right: Any) -> Any:
        match left, right:
            case Symbol(), Symbol():
                return internal(elementwise, left, right)
            case Symbol(), Number():
                return internal(scalar, left, scalar=right)
            case Number(), Symbol():
                return internal(reflected, right, scalar=left)
            case Number(), Number():
                return plain(left, right)
        raise TypeError(f"types ({type(left)}, {type(right)}) not supported")

    return function


_power = _choosing("_Power", "_PowerScalar", "_RPowerScalar", lambda a, b: a**b)


def power(base: Any, exp: Any) -> Any:
    """`base` to the power of `exp`, element by element."""
    return _power(base, exp)


pow = power
maximum = _choosing("_Maximum", "_MaximumScalar", "_MaximumScalar", max)
minimum = _choosing("_Minimum", "_MinimumScalar", "_MinimumScalar", min)
hypot = _choosing("_Hypot", "_HypotScalar", "_HypotScalar", np.hypot)


def eye(N: int, M: int = 0, k: int = 0, dtype: Any = None, **kwargs: Any) -> Symbol:
    """A matrix with ones on its k-th diagonal and zeros elsewhere; see `nd.eye`."""
    return internal("_eye", N=N, M=M, k=k, dtype=dtype or np.float32, **kwargs)


def zeros(shape: Any, dtype: Any = None, **kwargs: Any) -> Symbol:
    """Zeros. An extent 0 in the shape is unknown and is inferred from the use."""
    return internal("_zeros", shape=shape, dtype=dtype or np.float32, **kwargs)


def ones(shape: Any, dtype: Any = None, **kwargs: Any) -> Symbol:
    """Ones. An extent 0 in the shape is unknown and is inferred from the use."""
    return internal("_ones", shape=shape, dtype=dtype or np.float32, **kwargs)


def full(shape: Any, val: float, dtype: Any = None, **kwargs: Any) -> Symbol:
    """A symbol whose elements are all `val`."""
    return internal("_full", shape=shape, dtype=dtype or np.float32, value=float(val), **kwargs)


def arange(
    start: float,
    stop: float | None = None,
    step: float = 1.0,
    repeat: int = 1,
    infer_range: bool = False,
    name: str | None = None,
    dtype: Any = None,
) -> Symbol:
    """The numbers start, start + step, ... below stop, each `repeat` times; see `nd.arange`."""
    options = {"start": start, "stop": stop, "step": step, "repeat": repeat, "infer_range": infer_range}
    return internal("_arange", **options, name=name, dtype=dtype or np.float32)


def linspace(
    start: float, stop: float, num: int, endpoint: bool = True, name: str | None = None, dtype: Any = None
) -> Symbol:
    """`num` evenly spaced numbers; see `nd.linspace`."""
    options = {"start": start, "stop": stop, "num": num, "endpoint": endpoint}
    return internal("_linspace", **options, name=name, dtype=dtype or np.float32)


def histogram(a: Symbol, bins: Any = 10, range: tuple[float, float] | None = None, **kwargs: Any) -> Symbol:
    """Counts the elements of `a` in `bins` equal intervals of `range`, or between the edges in the symbol `bins`."""
    if isinstance(bins, Symbol):
        return internal("_histogram", data=a, bins=bins, **kwargs)
    if not isinstance(bins, int):
        raise ValueError("bins argument should be either an integer or an NDArray")
    if range is None:
        raise ValueError("null range is not supported in symbol mode")
    return internal("_histogram", data=a, bin_cnt=bins, range=range, **kwargs)


def split_v2(
    ary: Symbol, indices_or_sections: int | tuple[int, ...], axis: int = 0, squeeze_axis: bool = False
) -> Symbol:
    """Splits `ary` along an axis into equal parts, or at positions; see `nd.split_v2`."""
    if not isinstance(indices_or_sections, int | tuple):
        raise ValueError("indices_or_sections must either int or tuple of ints")
    sections = indices_or_sections if isinstance(indices_or_sections, int) else 0
    indices = [] if sections else [0, *indices_or_sections]  # type: ignore[misc]
    return internal("_split_v2", ary, indices=indices, axis=axis, squeeze_axis=squeeze_axis, sections=sections)


def _split_v2_method(self: Symbol, *args: Any, **kwargs: Any) -> Symbol:
    return split_v2(self, *args, **kwargs)


Symbol.split_v2 = _split_v2_method  # type: ignore[attr-defined]
