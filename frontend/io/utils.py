"""The helpers of MXNet's iterators, which third-party iterators import."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ndarray import NDArray
from .sources import Named, named_sources, take_examples


def _init_data(data: Any, allow_empty: bool, default_name: str) -> Named:
    """Named arrays, sorted by name. `data` is as in `NDArrayIter`."""
    return named_sources(data, default_name, allow_empty)


def _has_instance(data: Named, dtype: Any) -> bool:
    """True if an array is an instance of this class, or of one of a tuple of classes."""
    return any(isinstance(array, dtype) for _, array in data)


def _getdata_by_idx(data: Named, idx: Any) -> Named:
    """New arrays with the samples at these positions of axis 0. HDF5 datasets are returned unchanged."""
    positions = np.asarray(idx)
    return [(name, take_examples(a, positions, 0) if isinstance(a, NDArray) else a) for name, a in data]


def _slice_along_batch_axis(data: NDArray, s: slice, batch_axis: int) -> NDArray:
    """A copy of a slice along the batch axis."""
    return data.slice_axis(axis=batch_axis, begin=s.start, end=s.stop)  # type: ignore[attr-defined]
