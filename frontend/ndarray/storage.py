"""Decides what an operator does with sparse operands, and which storage type its result has.

MXNet's operators know sparse operands in some cases, which `storage_rules.py` lists. In all others the operands are
made dense, and so is the result. A result is converted to the storage type of `out`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..base import MXNetError
from ..context import Context
from .creation import array as dense_array
from .ndarray import NDArray
from .sparse_arrays import BaseSparseNDArray, CSRNDArray, RowSparseNDArray, build

if TYPE_CHECKING:
    from .operator_function import BoundOperator


def dispatch(bound: BoundOperator, arrays: Sequence[NDArray], out: Any, context: Context | None) -> Any:
    """Apply an operator to operands of which some may be sparse; `out` may be so too."""
    from .lazy_updates import update_rows
    from .storage_rules import RULES

    updated = update_rows(bound, arrays, out)
    if updated is not None:
        return updated
    counted = len(bound.operator.input_names(len(arrays))) == len(arrays)
    rule = RULES.get(bound.operator.mx_name()) if counted and not _fills_zeros(bound.operator, out) else None
    result = None if rule is None else rule(bound.operator, list(arrays))
    if result is None:
        result = _densely(bound, arrays, context)
    if out is None:
        return result
    results, outs = _listed(result), _listed(out)
    if len(results) != len(outs):
        raise MXNetError(f"{bound.operator.mx_name()} has {len(results)} outputs, out has {len(outs)}")
    for target, source in zip(outs, results, strict=True):
        write(target, source)
    return out


def _fills_zeros(operator: Any, out: Any) -> bool:
    """Whether an operator that leaves elements alone which are not stored computes them too, for a dense `out`."""
    return operator.name.startswith("mx._scatter_") and out is not None and not _listed(out)[0]._is_sparse


def _listed(arrays: Any) -> list[NDArray]:
    return [arrays] if isinstance(arrays, NDArray) else list(arrays)


def _densely(bound: BoundOperator, arrays: Sequence[NDArray], context: Context | None) -> Any:
    """The operator on dense copies; states that it changes are written back."""
    dense = [densified(a) for a in arrays]
    found = bound.specialization(dense)
    result = found.call(dense, None, context, bound.scalars)
    for i in found.state:
        if arrays[i] is not dense[i]:
            write(arrays[i], dense[i])
    return result


def densified(array: NDArray) -> NDArray:
    """A dense array as it is, a sparse one as a dense copy."""
    return dense_of(array) if isinstance(array, BaseSparseNDArray) else array


def dense_of(array: NDArray) -> NDArray:
    """A dense copy."""
    if isinstance(array, BaseSparseNDArray):
        return dense_array(array.asnumpy(), array.context, array.dtype)
    return array.copy()


def cast_storage(array: NDArray, stype: str) -> Any:
    """A copy in another storage type. MXNetError between csr and row_sparse, and for shapes that have no such type."""
    if stype == array.stype:
        return array.copy()
    if stype == "default":
        return dense_of(array)
    if isinstance(array, BaseSparseNDArray):
        raise MXNetError(f"cast_storage from {array.stype} to {stype} is not supported")
    values = array.asnumpy()
    if stype == "csr" and values.ndim == 2:
        return csr_of(values, array.context, array.dtype)
    if stype == "row_sparse" and values.ndim:
        rows = np.flatnonzero(values.reshape(len(values), -1).any(axis=1))
        return row_sparse_of(values[rows], rows, values.shape, array.context, array.dtype)
    raise MXNetError(f"an array of shape {values.shape} has no storage type {stype!r}")


def tostype(array: NDArray, stype: str) -> Any:
    """As `cast_storage`; ValueError for shapes that have no such type, and between csr and row_sparse."""
    pair = {array.stype, stype}
    if pair == {"csr", "row_sparse"}:
        raise ValueError(f"cast_storage from {array.stype} to {stype} is not supported")
    if stype == "csr" and array.ndim != 2:
        raise ValueError(f"To convert to a CSR, the NDArray should be 2 Dimensional. Current shape is {array.shape}")
    return cast_storage(array, stype)


def csr_of(values: np.ndarray, context: Context, dtype: Any) -> CSRNDArray:
    """A matrix of NumPy's in csr."""
    rows, columns = np.nonzero(values)
    return csr_at(values[rows, columns], rows, columns, values.shape, context, dtype)


def csr_at(
    data: np.ndarray, rows: np.ndarray, columns: np.ndarray, shape: tuple[int, ...], context: Context, dtype: Any
) -> CSRNDArray:
    """A csr matrix from stored elements in the order of their rows."""
    indptr = np.searchsorted(rows, np.arange(shape[0] + 1))
    parts = dense_array(data, context, dtype), *(dense_array(i, context, np.int64) for i in (columns, indptr))
    return build(CSRNDArray, parts, shape, context)


def row_sparse_of(
    data: np.ndarray, rows: np.ndarray, shape: tuple[int, ...], context: Context, dtype: Any
) -> RowSparseNDArray:
    """A row-sparse array from its stored rows and their numbers."""
    parts = dense_array(data, context, dtype), dense_array(rows, context, np.int64)
    return build(RowSparseNDArray, parts, shape, context)


def write(target: NDArray, source: NDArray) -> None:
    """Write an array over another of the same shape; each keeps its storage type, context and dtype."""
    if target._shape != source._shape:
        raise MXNetError(f"an array of shape {source._shape} cannot be written to one of shape {target._shape}")
    if not isinstance(target, BaseSparseNDArray):
        target[:] = densified(source)
        return
    alike = target.stype == source.stype
    made = source if alike else cast_storage(densified(source), target.stype)
    made = made.astype(target.dtype, copy=False)
    target._parts = tuple(p.as_in_context(target._context) for p in made._parts)  # type: ignore[attr-defined]
