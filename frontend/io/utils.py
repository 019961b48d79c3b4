"""The helpers of MXNet's iterators, which iterators of other people's packages import."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ndarray import NDArray
from .sources import Named, named_sources, take_examples


def _init_data(data: Any, allow_empty: bool, default_name: str) -> Named:
    """Arrays with names, sorted by name; see `NDArrayIter` for what they are made of."""
    return named_sources(data, default_name, allow_empty)


def _has_instance(data: Named, dtype: Any) -> bool:
    """True if an array is of this class, or of one of a tuple of classes."""
    return any(isinstance(array, dtype) for _, array in data)


def _getdata_by_idx(data: Named, idx: Any) -> Named:
    """New arrays of the examples at these positions of the first axis; data sets of HDF5 files stay as they are."""
    positions = np.asarray(idx)
    return [(name, take_examples(a, positions, 0) if isinstance(a, NDArray) else a) for name, a in data]


def _slice_along_batch_axis(data: NDArray, s: slice, batch_axis: int) -> NDArray:
    """The examples of a slice, copied."""
    return data.slice_axis(axis=batch_axis, begin=s.start, end=s.stop)  # type: ignore[attr-defined]
