"""Buckets of arrays that are exchanged at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from .. import ndarray as nd
from ..ndarray import NDArray

Array = np.ndarray[Any, Any]
Key = int | str

_BUCKET = 4 << 20
"""Bytes of small arrays that are exchanged at once."""


def buckets_of(arrays: Mapping[Key, NDArray]) -> Iterator[list[Key]]:
    """The keys in groups of arrays of one dtype that are exchanged at once, of at most `_BUCKET` bytes or one array."""
    for dtype in dict.fromkeys(array.dtype for array in arrays.values()):
        names: list[Key] = []
        nbytes = 0
        for k, array in arrays.items():
            if array.dtype != dtype:
                continue
            size = array.size * np.dtype(dtype).itemsize
            if names and nbytes + size > _BUCKET:
                yield names
                names, nbytes = [], 0
            names.append(k)
            nbytes += size
        if names:
            yield names


def joined(arrays: Sequence[NDArray]) -> Array:
    """The elements of arrays one after another."""
    parts = [array.asnumpy().reshape(-1) for array in arrays]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def divided(values: Array, arrays: Sequence[NDArray]) -> list[NDArray]:
    """Joined values as arrays like those that were joined."""
    parts: list[NDArray] = []
    begin = 0
    for array in arrays:
        part = values[begin : begin + array.size].reshape(array.shape)
        own = nd.from_numpy(part) if array.context.device_type == "cpu" and part.dtype == array.dtype else None
        parts.append(nd.array(part, ctx=array.context, dtype=array.dtype) if own is None else own)
        begin += array.size
    return parts
