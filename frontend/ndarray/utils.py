"""Functions that create arrays of any storage type, and the functions for files. MXNet defines them in this module."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...runtime.storage import wrap_numpy, writable_view
from ..base import c_array, c_handle_array, c_str, c_str_array, check_call, py_str, string_types
from ..context import usable
from ..dtypes import dtype_of
from . import creation, sparse
from .files import load, load_frombuffer, save
from .ndarray import NDArray

if TYPE_CHECKING:
    from ..context import Context

__all__ = [
    "NDArray",
    "array",
    "c_array",
    "c_handle_array",
    "c_str",
    "c_str_array",
    "check_call",
    "empty",
    "load",
    "load_frombuffer",
    "py_str",
    "save",
    "string_types",
    "zeros",
]


def empty(shape: Any, ctx: Context | None = None, dtype: Any = None, stype: str | None = None) -> NDArray:
    """An array with uninitialized elements; a sparse array stores no elements.

    Args:
        shape: Shape of the array, or the extent of its one axis.
        ctx: The device; the current context by default.
        dtype: The dtype; float32 by default.
        stype: The storage type: "default" (dense), "csr" or "row_sparse".
    """
    if stype in (None, "default"):
        return creation.empty(shape, ctx, dtype)
    return sparse.empty(stype, shape, ctx, dtype)


def zeros(
    shape: Any, ctx: Context | None = None, dtype: Any = None, stype: str | None = None, **kwargs: Any
) -> NDArray:
    """An array of zeros.

    Args:
        shape: Shape of the array, or the extent of its one axis.
        ctx: The device; the current context by default.
        dtype: The dtype; float32 by default.
        stype: The storage type: "default" (dense), "csr" or "row_sparse".
        out: An array that receives the zeros.
    Example:
        >>> nd.zeros((2, 2)).asnumpy()
        array([[0., 0.],
               [0., 0.]], dtype=float32)
    """
    if stype in (None, "default"):
        return creation.zeros(shape, ctx, dtype, **kwargs)
    return sparse.zeros(stype, shape, ctx, dtype, **kwargs)


def array(source_array: Any, ctx: Context | None = None, dtype: Any = None) -> NDArray:
    """An array with the elements of an array-like value.

    Args:
        source_array: A number, nested lists, a NumPy array, an NDArray or a csr matrix of SciPy.
        ctx: The device; the current context by default.
        dtype: The dtype; by default that of an NDArray, otherwise float32.
    Example:
        >>> nd.array([[1, 2], [3, 4]]).asnumpy()
        array([[1., 2.],
               [3., 4.]], dtype=float32)
    """
    if getattr(source_array, "_is_sparse", False) or sparse.is_scipy_csr(source_array):
        return sparse.array(source_array, ctx, dtype)
    return creation.array(source_array, ctx, dtype)


def from_numpy(ndarray: np.ndarray, zero_copy: bool = True, array_cls: type[NDArray] = NDArray) -> NDArray:
    """An array from a NumPy array, with the same dtype.

    Args:
        ndarray: The NumPy array, C-contiguous for `zero_copy`.
        zero_copy: True to share the memory of `ndarray`, which becomes read-only; False to copy. Read-only memory (a
            file mapped for reading, bytes) is always copied: writing to it would crash the process.
        array_cls: NDArray; TypeError for other classes.
    Returns:
        The array. ValueError for an unsupported dtype, and for `zero_copy` of an array that is not C-contiguous.
    """
    if array_cls is not NDArray:
        raise TypeError(f"from_numpy makes arrays of the class NDArray, not {array_cls}")
    if not zero_copy:
        return array(ndarray, dtype=ndarray.dtype)
    if not ndarray.flags.c_contiguous:
        raise ValueError("Only c-contiguous arrays are supported for zero-copy")
    try:
        dtype = dtype_of(ndarray.dtype)
    except TypeError:
        raise ValueError(f"{ndarray.dtype} is not supported.") from None
    shared = writable_view(ndarray)
    if shared is None:
        return array(ndarray, dtype=ndarray.dtype)
    storage = wrap_numpy(shared)
    ndarray.flags.writeable = False
    result: NDArray = object.__new__(array_cls)
    result._storage, result._address, result._shape = storage, storage.address, ndarray.shape
    result._dtype, result._context = dtype, usable(None)
    return result
