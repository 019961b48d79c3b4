"""Matrix products with one operand in csr."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from ..base import MXNetError
from .casting import cast_storage, densified
from .eager import bound_of
from .ndarray import NDArray
from .operator_function import BoundOperator
from .sparse_arrays import CSRNDArray, RowSparseNDArray, build
from .sparse_columns import columns_of


def dot(operator: Any, arrays: list[NDArray]) -> Any:
    """A matrix product with a csr operand; None for other operands.

    csr times dense or row_sparse is dense, or row_sparse if the csr matrix is transposed; dense times csr is csr.
    `forward_stype` requests another storage type of the result.
    """
    x, y = arrays
    if x.ndim != 2 or y.ndim != 2:
        return None
    if isinstance(x, CSRNDArray) and not isinstance(y, CSRNDArray) and not operator.transpose_b:
        return _from_left(operator, x, y)
    if isinstance(y, CSRNDArray) and not x._is_sparse and not operator.transpose_a:
        return _from_right(operator, x, y)
    return None


def _from_left(operator: Any, x: CSRNDArray, y: NDArray) -> NDArray:
    """x . y, or x^T . y."""
    inner, outer = x._shape if operator.transpose_a else x._shape[::-1]
    _check(operator, x, y, inner == y._shape[0])
    dense, shape = _rows(y), (outer, y._shape[1])
    stype = operator.forward_stype or ("row_sparse" if operator.transpose_a else "default")
    if not operator.transpose_a:
        data, indices, pointers = x._parts
        return _as(_product(data, indices, pointers, dense), stype)
    columns = columns_of(x)
    values = _product(columns.data, columns.rows, columns.pointers, dense)
    parts = values, columns.stored
    return _as(build(RowSparseNDArray, parts, shape, x._context), stype)


def _from_right(operator: Any, x: NDArray, y: CSRNDArray) -> NDArray:
    """x . y, or x . y^T, as the transpose of a product with the csr matrix on the left."""
    inner = y._shape[1] if operator.transpose_b else y._shape[0]
    _check(operator, x, y, inner == x._shape[1])
    left = operator.with_values(transpose_a=not operator.transpose_b, forward_stype="default")
    product = _from_left(left, y, x.T)
    return _as(product.T, operator.forward_stype or "csr")


def _rows(array: NDArray) -> NDArray:
    """A dense array to read: the array itself, or the memory in which a row-sparse array stores all rows in order."""
    if isinstance(array, RowSparseNDArray) and array._owned is array._parts[0]:
        return array._parts[0]
    return densified(array)


@cache
def _bound() -> BoundOperator:
    from ...ir.dialects.mx.sparse_products import CsrDot

    return bound_of(CsrDot())


def _product(data: NDArray, columns: NDArray, pointers: NDArray, dense: NDArray) -> NDArray:
    """The dense product of a matrix in compressed rows and a dense one. No tape has this call: that of `dot` is on
    it."""
    arrays = [data, columns, pointers, dense.detach()]
    bound = _bound()
    return bound.specialization(arrays).call(arrays, None, data._context, bound.scalars)


def _as(array: NDArray, stype: str) -> NDArray:
    if isinstance(array, RowSparseNDArray) and stype == "csr":
        array = densified(array)
    return array if array.stype == stype else cast_storage(array, stype)


def _check(operator: Any, x: NDArray, y: NDArray, fits: bool) -> None:
    if not fits or x.dtype != y.dtype:
        flags = f"transpose_a={operator.transpose_a}, transpose_b={operator.transpose_b}"
        kinds = " and ".join(f"{a.stype} {np.dtype(a.dtype).name}{list(a._shape)}" for a in (x, y))
        raise MXNetError(f"dot: {kinds} do not fit ({flags})")
