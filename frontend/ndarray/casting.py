"""Conversions between storage types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...ir.types import DType
from ..base import MXNetError
from ..context import Context
from .array_classes import array_class
from .creation import array as dense_array

if TYPE_CHECKING:
    from .ndarray import NDArray
    from .sparse_arrays import CSRNDArray, RowSparseNDArray


def densified(array: NDArray) -> NDArray:
    """A dense array unchanged, a sparse array as a dense copy."""
    return dense_of(array) if array._is_sparse else array


def dense_of(array: NDArray) -> NDArray:
    """A dense copy."""
    if array._is_sparse:
        return dense_array(array.asnumpy(), array.context, array.dtype)
    return array.copy()


def cast_storage(array: NDArray, stype: str) -> Any:
    """A copy in another storage type. MXNetError between csr and row_sparse, and for shapes without that storage
    type."""
    if stype == array.stype:
        return array.copy()
    if stype == "default":
        return dense_of(array)
    if array._is_sparse:
        raise MXNetError(f"cast_storage from {array.stype} to {stype} is not supported")
    values = array.asnumpy() if array._dtype is DType.BF16 else array._memory()
    if stype == "csr" and values.ndim == 2:
        return csr_of(values, array.context, array.dtype)
    if stype == "row_sparse" and values.ndim:
        rows = np.flatnonzero(values.any(axis=tuple(range(1, values.ndim))))
        return row_sparse_of(values[rows], rows, values.shape, array.context, array.dtype)
    raise MXNetError(f"an array of shape {values.shape} has no storage type {stype!r}")


def tostype(array: NDArray, stype: str) -> Any:
    """Same as `cast_storage`, but raises ValueError: between csr and row_sparse, and for csr unless rank is 2."""
    pair = {array.stype, stype}
    if pair == {"csr", "row_sparse"}:
        raise ValueError(f"cast_storage from {array.stype} to {stype} is not supported")
    if stype == "csr" and array.ndim != 2:
        raise ValueError(f"To convert to a CSR, the NDArray should be 2 Dimensional. Current shape is {array.shape}")
    return cast_storage(array, stype)


def csr_of(values: np.ndarray, context: Context, dtype: Any) -> CSRNDArray:
    """A csr matrix from a NumPy matrix."""
    rows, columns = values.shape
    places = np.flatnonzero(values != 0)  # of a mask it is several times faster than of numbers
    starts = np.arange(rows) * columns
    pointers = np.append(np.searchsorted(places, starts), len(places))
    inside = places - np.repeat(starts, np.diff(pointers))
    return _csr(values.reshape(-1)[places], inside, pointers, values.shape, context, dtype)


def csr_at(
    data: np.ndarray, rows: np.ndarray, columns: np.ndarray, shape: tuple[int, ...], context: Context, dtype: Any
) -> CSRNDArray:
    """A csr matrix from stored elements and their positions, sorted by row."""
    return _csr(data, columns, np.searchsorted(rows, np.arange(shape[0] + 1)), shape, context, dtype)


def _csr(
    data: np.ndarray, columns: np.ndarray, pointers: np.ndarray, shape: tuple[int, ...], context: Context, dtype: Any
) -> CSRNDArray:
    parts = dense_array(data, context, dtype), *(dense_array(i, context, np.int64) for i in (columns, pointers))
    return array_class("csr")._of_parts(parts, shape, context)  # type: ignore[attr-defined]


def row_sparse_of(
    data: np.ndarray, rows: np.ndarray, shape: tuple[int, ...], context: Context, dtype: Any
) -> RowSparseNDArray:
    """A row-sparse array from its stored rows and their indices."""
    parts = dense_array(data, context, dtype), dense_array(rows, context, np.int64)
    return array_class("row_sparse")._of_parts(parts, shape, context)  # type: ignore[attr-defined]


def write(target: NDArray, source: NDArray) -> None:
    """Copy `source` into `target`, an array of the same shape that keeps its storage type, context and dtype."""
    if target._shape != source._shape:
        raise MXNetError(f"an array of shape {source._shape} cannot be written to one of shape {target._shape}")
    if not target._is_sparse:
        target[:] = densified(source)
        return
    alike = target.stype == source.stype
    converted = source if alike else cast_storage(densified(source), target.stype)
    converted: Any = converted.astype(target.dtype, copy=False)
    target._parts = tuple(p.as_in_context(target._context) for p in converted._parts)  # type: ignore[attr-defined]
    converted._owned = None
