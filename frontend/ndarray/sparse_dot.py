"""Matrix products with one operand in csr."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base import MXNetError
from .casting import cast_storage, densified, row_sparse_of
from .creation import array as dense_array
from .ndarray import NDArray
from .sparse_arrays import CSRNDArray, RowSparseNDArray

_CHUNK = 1 << 22  # the largest number of products in memory


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
    rows, values = _stored_rows(x, densified(y).asnumpy(), operator.transpose_a)
    shape = (outer, y._shape[1])
    result = row_sparse_of(values, rows, shape, x._context, x.dtype)
    stype = operator.forward_stype or ("row_sparse" if operator.transpose_a else "default")
    return _as(result, stype)


def _from_right(operator: Any, x: NDArray, y: CSRNDArray) -> NDArray:
    """x . y, or x . y^T, as the transpose of a product with the csr matrix on the left."""
    inner, outer = y._shape[::-1] if operator.transpose_b else y._shape
    _check(operator, x, y, inner == x._shape[1])
    rows, values = _stored_rows(y, x.asnumpy().T, not operator.transpose_b)
    product = np.zeros((outer, x._shape[0]), values.dtype)
    product[rows] = values
    dense = dense_array(product.T, x._context, x.dtype)
    return _as(dense, operator.forward_stype or "csr")


def _as(array: NDArray, stype: str) -> NDArray:
    if isinstance(array, RowSparseNDArray) and stype == "csr":
        array = densified(array)
    return array if array.stype == stype else cast_storage(array, stype)


def _check(operator: Any, x: NDArray, y: NDArray, fits: bool) -> None:
    if not fits or x.dtype != y.dtype:
        flags = f"transpose_a={operator.transpose_a}, transpose_b={operator.transpose_b}"
        kinds = " and ".join(f"{a.stype} {np.dtype(a.dtype).name}{list(a._shape)}" for a in (x, y))
        raise MXNetError(f"dot: {kinds} do not fit ({flags})")


def _stored_rows(x: CSRNDArray, dense: np.ndarray, transposed: bool) -> tuple[np.ndarray, np.ndarray]:
    """The row numbers and values of the rows of x . dense, or x^T . dense, for which x stores elements."""
    data, columns, _ = (p.asnumpy() for p in x._parts)
    rows = x._rows()
    if transposed:
        order = np.argsort(columns, kind="stable")
        data, rows, columns = data[order], columns[order], rows[order]
    starts = np.flatnonzero(np.diff(rows, prepend=-1))
    exact = np.float32 if data.dtype == np.float16 else data.dtype
    sums = np.empty((len(starts), dense.shape[1]), exact)
    for first, last in _chunks(starts, len(data), dense.shape[1]):
        span = slice(starts[first], starts[last] if last < len(starts) else len(data))
        products = data[span, None].astype(exact) * dense[columns[span]]
        sums[first:last] = np.add.reduceat(products, starts[first:last] - starts[first], axis=0)
    return rows[starts], sums.astype(data.dtype, copy=False)


def _chunks(starts: np.ndarray, count: int, width: int) -> list[tuple[int, int]]:
    """Ranges of rows with at most `_CHUNK` products, or with one row."""
    ends = np.append(starts[1:], count)
    ranges: list[tuple[int, int]] = []
    first = 0
    while first < len(starts):
        last = int(np.searchsorted(ends, starts[first] + max(_CHUNK // max(width, 1), 1), "right"))
        ranges.append((first, max(last, first + 1)))
        first = ranges[-1][1]
    return ranges
