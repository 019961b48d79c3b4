"""The stored elements of a csr matrix by columns, for products with its transpose."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .creation import array as dense_array

if TYPE_CHECKING:
    from .ndarray import NDArray
    from .sparse_arrays import CSRNDArray

_BITS = 32  # of a position among the stored elements, in a key with a column


class Columns(NamedTuple):
    """The elements in the order of columns, then of rows: column stored[c] has the elements data[i] in rows[i] for i
    from pointers[c] to pointers[c + 1]. Other columns have no element."""

    data: NDArray
    rows: NDArray
    pointers: NDArray
    stored: NDArray


def columns_of(x: CSRNDArray) -> Columns:
    """The columns of a matrix. They are kept until the matrix changes."""
    parts = x._parts
    kept = getattr(x, "_columns", None)
    if kept is None or kept[0] is not parts:
        x._columns = kept = parts, _sorted(x)
    return kept[1]


def _sorted(x: CSRNDArray) -> Columns:
    data, columns, _ = (p.asnumpy() for p in x._parts)
    order = _order(columns)
    ascending = columns[order]
    starts = np.flatnonzero(np.diff(ascending, prepend=-1))
    pointers = np.append(starts, len(columns))
    content = data[order], x._rows()[order], pointers, ascending[starts]
    dtypes = x.dtype, *[np.int64] * 3
    return Columns(*(dense_array(part, x._context, dtype) for part, dtype in zip(content, dtypes, strict=True)))


def _order(columns: np.ndarray) -> np.ndarray:
    """The positions of the elements by columns. Keys that contain the position sort faster than positions by keys."""
    count = len(columns)
    if not count or count >> _BITS or columns.max() >> (63 - _BITS):
        return np.argsort(columns, kind="stable")
    keys = (columns << _BITS) | np.arange(count)
    keys.sort()
    return keys & ((1 << _BITS) - 1)
