"""Functions of `mx.np` that are NumPy's own, as in MXNet: arrays become NumPy's, and results arrays of `mx.np`.

They have no gradient: a call on arrays of a recorded graph raises an error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from math import prod
from typing import Any

import numpy as onp

from ...runtime.modes import modes
from ..base import MXNetError
from ..ndarray.ndarray import NDArray
from ..ndarray.tape import is_recorded
from .creation import array

FALLBACK = frozenset(
    """
    allclose alltrue apply_along_axis apply_over_axes argpartition argwhere array_equal array_equiv choose compress
    corrcoef correlate count_nonzero cov digitize divmod extract flatnonzero float_power frexp genfromtxt heaviside
    histogram2d histogram_bin_edges histogramdd i0 in1d interp intersect1d isclose isin ix_ lexsort min_scalar_type
    modf msort nanargmax nanargmin nancumprod nancumsum nanmax nanmedian nanmin nanpercentile nanprod nanquantile
    nanstd nansum nanvar
    ndim packbits partition piecewise poly polyadd polydiv polyfit polyint polymul polysub positive promote_types
    ptp real result_type rollaxis roots searchsorted select setdiff1d setxor1d shape signbit size spacing
    take_along_axis trapz tril_indices_from trim_zeros triu_indices_from union1d unpackbits unwrap vander
    """.split()
)
"""The names of these functions."""

_NAMES_IN_NUMPY_2 = {"alltrue": "all", "trapz": "trapezoid"}


def _msort(a: Any) -> Any:
    return onp.sort(a, axis=0)


def _in1d(ar1: Any, ar2: Any, assume_unique: bool = False, invert: bool = False) -> Any:
    return onp.isin(onp.ravel(ar1), ar2, assume_unique, invert)


def _result_type(*arrays_and_dtypes: Any) -> Any:
    return onp.result_type(*[x.dtype if isinstance(x, NDArray) else x for x in arrays_and_dtypes])


def _size(a: Any, axis: int | None = None) -> int:
    shape = onp.shape(a) if not isinstance(a, NDArray) else a.shape
    return prod(shape) if axis is None else shape[axis]


def _of_shape(name: str) -> Any:
    def function(a: Any) -> Any:
        shape = a.shape if isinstance(a, NDArray) else onp.shape(a)
        return len(shape) if name == "ndim" else shape

    return wraps(getattr(onp, name))(function)


def _lstsq(a: Any, b: Any, rcond: Any = "warn") -> Any:
    """The least-squares solution of a x = b. The rcond "warn" is -1: singular values are not cut off."""
    cutoff: Any = -1 if isinstance(rcond, str) and rcond == "warn" else rcond
    return onp.linalg.lstsq(a, b, cutoff)


_OF_TYPES = {
    "ndim": _of_shape("ndim"),
    "result_type": _result_type,
    "shape": _of_shape("shape"),
    "size": _size,
}
"""Functions that read no elements."""

_OWN = _OF_TYPES | {"in1d": _in1d, "lstsq": _lstsq, "msort": _msort}
"""Functions that NumPy 2 lacks, or whose defaults it changed."""


LINALG = "cond lstsq matrix_power matrix_rank multi_dot qr".split()
"""The names of such functions of `np.linalg`."""


def from_numpy(name: str, module: Any = onp) -> Callable[..., Any]:
    """The function of NumPy of this name, on arrays of `mx.np`."""
    own = _OWN.get(name) or getattr(module, _NAMES_IN_NUMPY_2.get(name, name))

    @wraps(own)
    def function(*args: Any, **kwargs: Any) -> Any:
        if name in _OF_TYPES:
            return own(*args, **kwargs)
        arrays = list(_arrays((args, kwargs)))
        if modes.tracer is not None:
            raise MXNetError(f"np.{name} is NumPy's own: the forward of a hybridized block cannot contain it")
        if is_recorded(arrays):
            raise MXNetError(f"np.{name} has no gradient: call it outside of a record section, or on x.detach()")
        return converted(own, args, kwargs)

    function.__name__ = function.__qualname__ = name
    function.__module__ = "mxforge.numpy"
    return function


def converted(function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """A function of NumPy on copies of arrays, with its result as arrays of `mx.np`."""
    context = next((a._context for a in _arrays((args, kwargs))), None)
    out = kwargs.get("out")
    result = function(*map(plain, args), **{key: plain(value) for key, value in kwargs.items() if key != "out"})
    if out is not None:
        out[...] = result
        return out
    return _converted(result, context)


def _arrays(value: Any) -> Any:
    """The arrays among nested arguments."""
    if isinstance(value, NDArray):
        yield value
    elif isinstance(value, list | tuple | dict):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _arrays(item)


def plain(value: Any) -> Any:
    """An argument for NumPy."""
    if isinstance(value, NDArray):
        return value.asnumpy()
    return type(value)(map(plain, value)) if type(value) in (list, tuple) else value


def _converted(value: Any, context: Any) -> Any:
    """A result of NumPy with its arrays as those of `mx.np`. NumPy's numbers stay numbers."""
    if isinstance(value, onp.ndarray):
        return array(value, ctx=context) if value.dtype.kind in "biuf" else value
    if isinstance(value, list | tuple):
        items = [_converted(item, context) for item in value]
        return items if isinstance(value, list) else tuple(items)
    return value
