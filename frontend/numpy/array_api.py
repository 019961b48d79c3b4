"""Functions and constants of `mx.np` in MXNet 2 that MXNet 1.9.1 lacks, and that symbols do not have."""

from __future__ import annotations

from typing import Any

import numpy as onp

from ...ir.types import DType
from ..ndarray.dlpack import from_dlpack as from_capsule
from ..ndarray.ndarray import NDArray
from ..ndarray.numpy_array import ndarray
from .creation import _of, _place, array

int16, uint16, uint32, uint64 = onp.int16, onp.uint16, onp.uint32, onp.uint64
integer_dtypes = [onp.dtype(f"{kind}{bits}") for kind in ("int", "uint") for bits in (8, 16, 32, 64)]
floating_dtypes = [onp.dtype(f"float{bits}") for bits in (16, 32, 64)]
boolean_dtypes = [onp.dtype(onp.bool_)]
numeric_dtypes = [*integer_dtypes, *floating_dtypes]
iinfo = onp.iinfo


def asarray(obj: Any, dtype: Any = None, device: Any = None, copy: bool | None = None) -> ndarray:
    """An array of the elements of an array-like value: the array itself if it has this dtype and device already.

    Args:
        obj: Numbers, nested lists of numbers, a NumPy array, an array, or an object with `__dlpack__`.
        dtype: The dtype; by default that of an array, and float32 for other values.
        device: The device; by default that of an array, and the current one.
        copy: True always copies; False raises ValueError where a copy is necessary.
    """
    if isinstance(obj, ndarray) and not copy:
        same = device is None or _place(device) == obj._context
        if same and (dtype is None or onp.dtype(dtype) == onp.dtype(obj.dtype)):
            return obj
    if copy is False:
        raise ValueError("asarray: copy=False, but this value cannot be an array of this dtype without a copy")
    is_foreign = hasattr(obj, "__dlpack__") and not isinstance(obj, NDArray | onp.ndarray)
    return array(from_dlpack(obj) if is_foreign else obj, dtype, device)


def from_dlpack(x: Any) -> ndarray:
    """An array on the memory of an object with `__dlpack__`, or of a DLPack capsule."""
    return from_capsule(x.__dlpack__() if hasattr(x, "__dlpack__") else x).as_np_ndarray()


def can_cast(from_: Any, to: Any) -> bool:
    """True if each value of a dtype, or of an array's, is one of another dtype."""
    return bool(onp.can_cast(from_.dtype if isinstance(from_, NDArray) else from_, to))


def _triangle(name: str, n: int, k: int, m: int | None, place: Any) -> tuple[ndarray, ...]:
    places = getattr(onp, name)(n, k, m)
    return tuple([_of(axis.astype(onp.int64), DType.I64, _place(place)) for axis in places])


def tril_indices(n: int, k: int = 0, m: int | None = None, device: Any = None) -> tuple[ndarray, ...]:
    """The indices of the lower triangle of a matrix (n, m), up to its k-th diagonal."""
    return _triangle("tril_indices", n, k, m, device)


def triu_indices(n: int, k: int = 0, m: int | None = None, device: Any = None) -> tuple[ndarray, ...]:
    """The indices of the upper triangle of a matrix (n, m), from its k-th diagonal on."""
    return _triangle("triu_indices", n, k, m, device)


def fill_diagonal(a: Any, val: Any, wrap: bool = False) -> None:
    """Write a number, or the elements of a list or an array in turn, to the main diagonal of an array, in place."""
    if not isinstance(a, ndarray):
        raise TypeError(f"fill_diagonal: the array must be one of mx.np, not {type(a)}")
    values = val.asnumpy() if isinstance(val, NDArray) else val
    marked = onp.zeros(a.shape, onp.int64)
    try:
        onp.fill_diagonal(marked, 1, wrap)
    except ValueError as error:
        raise ValueError(f"fill_diagonal: {error}") from None
    places = onp.flatnonzero(marked)
    if places.size:
        flat = a.reshape(-1)
        flat[places] = onp.resize(onp.asarray(values), places.shape)
