"""Rows of dense and row-sparse arrays: read, and written in place.

A row-sparse array whose rows are written stores all of its rows from then on, as in MXNet, in memory of its own. So
later writes take time for the written rows alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...runtime.writes import written
from .creation import array as dense_array
from .sparse_arrays import RowSparseNDArray

if TYPE_CHECKING:
    from .ndarray import NDArray


def rows_of(array: NDArray, numbers: np.ndarray) -> NDArray:
    """The rows with these numbers, as a new array. Rows that are not stored are zero."""
    if not isinstance(array, RowSparseNDArray):
        return array._like(array._memory()[numbers])
    data, indices = array._parts
    if array._owned is data:
        return data._like(data._memory()[numbers])
    return data._like(_looked_up(data._memory(), indices._memory(), numbers))


def write_rows(array: NDArray, numbers: np.ndarray, rows: NDArray) -> None:
    """Write the rows with these numbers, which are all different."""
    target: Any = _own_rows(array) if isinstance(array, RowSparseNDArray) else array
    target._write(rows._memory(), numbers)
    written(target._storage)


def _own_rows(array: RowSparseNDArray) -> NDArray:
    """All rows of an array, in memory that no other array shares."""
    data, indices = array._parts
    if array._owned is data:
        return data
    every = np.zeros(array._shape, data._memory().dtype)
    every[indices._memory()] = data._memory()
    rows = data._like(every)
    array._parts = rows, dense_array(np.arange(array._shape[0]), array._context, np.int64)
    array._owned = rows
    return rows


def _looked_up(data: np.ndarray, stored: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    rows = np.zeros((*numbers.shape, *data.shape[1:]), data.dtype)
    if not len(stored):
        return rows
    order = np.argsort(stored, kind="stable")
    at = np.minimum(np.searchsorted(stored[order], numbers), len(stored) - 1)
    hit = stored[order][at] == numbers
    rows[hit] = data[order[at[hit]]]
    return rows
