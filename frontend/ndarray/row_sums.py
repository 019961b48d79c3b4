"""Sums of rows by their numbers, as row-sparse arrays: gradients of tables whose rows were looked up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...ir.types import DType
from ..context import Context
from .array_classes import array_class, empty_array

if TYPE_CHECKING:
    from .ndarray import NDArray

_NARROW = (DType.F16, DType.BF16)


def row_sum(numbers: NDArray, rows: NDArray, shape: tuple[int, ...]) -> Any:
    """The row-sparse array of this shape that stores, for each of the (n,) numbers, the sum of its (n, *row) rows."""
    narrow = rows._dtype in _NARROW
    stored, sums = summed(numbers._memory(), (rows.astype(np.float32) if narrow else rows)._memory())
    data = _array(sums, DType.F32 if narrow else rows._dtype, rows._context)
    parts = data.astype(rows.dtype) if narrow else data, _array(stored, DType.I64, rows._context)
    return array_class("row_sparse")._of_parts(parts, shape, rows._context)  # type: ignore[attr-defined]


def summed(numbers: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The different numbers in ascending order, and the sum of the rows of each."""
    order = np.argsort(numbers, kind="stable")
    ascending = numbers[order]
    starts = np.flatnonzero(np.diff(ascending, prepend=ascending[:1] - 1))
    counts = np.diff(starts, append=len(numbers))
    sums = rows[order[starts]]
    several = counts > 1  # a sum takes much longer than a copy
    if several.any():
        firsts = np.cumsum(counts[several]) - counts[several]
        sums[several] = np.add.reduceat(rows[order[np.repeat(several, counts)]], firsts, axis=0)
    return ascending[starts], sums


def _array(content: np.ndarray, dtype: DType, context: Context) -> NDArray:
    result = empty_array(content.shape, dtype, context)
    result._write(content)
    return result
