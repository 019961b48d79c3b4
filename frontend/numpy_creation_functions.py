"""Functions of `mx.np` that create arrays, as nodes of graphs: in symbols, and in the forward of blocks while it is
traced. `F` returns the function of an operator; see `numpy_functions.py`. Eager calls are in `numpy/creation.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as onp

from .numpy_functions import Operators
from .numpy_functions import public as _public_in

_public = _public_in("creation")


def _placed(dtype: Any, ctx: Any, default: str = "float32") -> dict[str, Any]:
    return {"dtype": default if dtype is None else dtype, "ctx": "" if ctx is None else str(ctx)}


@_public
def zeros(F: Operators, shape: Any, dtype: Any = None, order: str = "C", ctx: Any = None, device: Any = None) -> Any:
    """An array of zeros, of dtype float32 by default."""
    return F("_npi_zeros")(shape=shape, **_placed(dtype, ctx or device))


@_public
def empty(F: Operators, shape: Any, dtype: Any = None, order: str = "C", ctx: Any = None, device: Any = None) -> Any:
    """An array whose elements have no meaning: zeros in a graph."""
    return zeros(F, shape, dtype, order, ctx, device)


@_public
def ones(F: Operators, shape: Any, dtype: Any = None, order: str = "C", ctx: Any = None, device: Any = None) -> Any:
    """An array of ones, of dtype float32 by default."""
    return F("_npi_ones")(shape=shape, **_placed(dtype, ctx or device))


@_public
def full(
    F: Operators,
    shape: Any,
    fill_value: Any,
    dtype: Any = None,
    order: str = "C",
    ctx: Any = None,
    out: Any = None,
    device: Any = None,
) -> Any:
    """An array filled with one number."""
    if hasattr(fill_value, "astype"):
        filled = F("_npi_broadcast_to")(fill_value, shape=shape)
        return filled if dtype is None else filled.astype(dtype)
    default = "bool" if isinstance(fill_value, bool) else "float32"
    return F("_npi_full")(shape=shape, value=float(fill_value), **_placed(dtype, ctx or device, default))


@_public
def full_like(
    F: Operators, a: Any, fill_value: Any, dtype: Any = None, order: str = "C", ctx: Any = None, out: Any = None
) -> Any:
    """An array of another one's shape, filled with one number."""
    named = {} if dtype is None else {"dtype": dtype}
    return F("_npi_full_like")(a, fill_value=float(fill_value), **named)


@_public
def zeros_like(F: Operators, a: Any, dtype: Any = None, order: str = "C", ctx: Any = None, out: Any = None) -> Any:
    """Zeros in the shape of another array."""
    return full_like(F, a, 0, dtype)


@_public
def ones_like(F: Operators, a: Any, dtype: Any = None, order: str = "C", ctx: Any = None, out: Any = None) -> Any:
    """Ones in the shape of another array."""
    return full_like(F, a, 1, dtype)


@_public
def empty_like(F: Operators, prototype: Any, dtype: Any = None, order: str = "C", subok: bool = False) -> Any:
    """An array of another one's shape whose elements have no meaning: zeros in a graph."""
    return full_like(F, prototype, 0, dtype)


@_public
def arange(
    F: Operators,
    start: Any,
    stop: Any = None,
    step: Any = 1,
    dtype: Any = None,
    ctx: Any = None,
    device: Any = None,
) -> Any:
    """Evenly spaced numbers in a half-open interval."""
    start, stop = (0, start) if stop is None else (start, stop)
    step = 1 if step is None else step
    return F("_npi_arange")(start=start, stop=stop, step=step, **_placed(dtype, ctx or device))


@_public
def linspace(
    F: Operators,
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
    ctx: Any = None,
    device: Any = None,
) -> Any:
    """`num` evenly spaced numbers; with `retstep` their distance too."""
    options = {"start": start, "stop": stop, "num": num, "endpoint": endpoint}
    result = F("_npi_linspace")(**options, **_placed(dtype, ctx or device))
    return (result, (stop - start) / (num - bool(endpoint))) if retstep else result


@_public
def logspace(
    F: Operators,
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    base: float = 10.0,
    dtype: Any = None,
    axis: int = 0,
    ctx: Any = None,
    device: Any = None,
) -> Any:
    """`num` numbers that are evenly spaced on a logarithmic scale."""
    options = {"start": start, "stop": stop, "num": num, "endpoint": endpoint, "base": base}
    return F("_npi_logspace")(**options, **_placed(dtype, ctx or device))


@_public
def eye(F: Operators, N: int, M: Any = None, k: int = 0, dtype: Any = None, ctx: Any = None, device: Any = None) -> Any:
    """A matrix with ones on its k-th diagonal."""
    return F("_npi_eye")(N=N, M=M, k=k, **_placed(dtype, ctx or device))


@_public
def identity(F: Operators, n: int, dtype: Any = None, ctx: Any = None, device: Any = None) -> Any:
    """A square matrix with ones on its diagonal."""
    return F("_npi_identity")(shape=(n, n), **_placed(dtype, ctx or device))


@_public
def indices(F: Operators, dimensions: Any, dtype: Any = onp.int32, ctx: Any = None, device: Any = None) -> Any:
    """The indices of a grid."""
    return F("_npi_indices")(dimensions=dimensions, **_placed(dtype, ctx or device, "int32"))


def _window(name: str) -> Callable[..., Any]:
    def window(F: Operators, M: int, dtype: Any = None, ctx: Any = None, device: Any = None) -> Any:
        return F(f"_npi_{name}")(M=M, **_placed(dtype, ctx or device))

    window.__name__, window.__doc__ = name, f"The {name} window of M elements."
    return _public(window)


for _name in ("hanning", "hamming", "blackman"):
    _window(_name)
