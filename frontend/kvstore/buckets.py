"""Buckets of arrays that are exchanged at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ...ir.types import DType
from ...runtime.storage import wrap_numpy
from .. import ndarray as nd
from ..ndarray import NDArray
from ..ndarray.array_classes import array_at

Array = np.ndarray[Any, Any]
Key = int | str

_BUCKET = 4 << 20
"""Bytes of small arrays that are exchanged at once."""


_LAST = 1 << 20
"""Bytes of the bucket that is final last: no computation hides its exchange."""


def buckets_by_order(arrays: Mapping[Key, NDArray]) -> list[list[Key]]:
    """The keys of arrays that become final in this order, in groups of arrays of one dtype, in the order in which the
    groups become final."""
    position = {k: i for i, k in enumerate(arrays)}
    backwards = buckets_of(dict(reversed(list(arrays.items()))), min(_LAST, _BUCKET))
    return sorted((bucket[::-1] for bucket in backwards), key=lambda bucket: position[bucket[-1]])


def buckets_of(arrays: Mapping[Key, NDArray], first: int | None = None) -> Iterator[list[Key]]:
    """The keys in groups of arrays of one dtype that are exchanged at once, of at most `_BUCKET` bytes or one array.
    The first group of a dtype has at most `first` bytes."""
    for dtype in dict.fromkeys(array.dtype for array in arrays.values()):
        names: list[Key] = []
        nbytes, most = 0, first or _BUCKET
        for k, array in arrays.items():
            if array.dtype != dtype:
                continue
            size = array.size * np.dtype(dtype).itemsize
            if names and nbytes + size > most:
                yield names
                names, nbytes, most = [], 0, _BUCKET
            names.append(k)
            nbytes += size
        if names:
            yield names


def joined(arrays: Sequence[NDArray]) -> Array:
    """The elements of arrays one after another."""
    if arrays[0]._dtype is DType.BF16:
        return np.concatenate([array.asnumpy().reshape(-1) for array in arrays])
    return np.concatenate([array._memory().reshape(-1) for array in arrays])


def divided(values: Array, arrays: Sequence[NDArray]) -> list[NDArray]:
    """Joined values as arrays like those that were joined, on the host as parts of the memory of `values`."""
    parts: list[NDArray] = []
    begin = 0
    first = arrays[0]
    if first._address.__class__ is int and values.dtype == first.dtype:
        storage, itemsize = wrap_numpy(values), values.itemsize
        for array in arrays:
            address = storage.address + begin * itemsize
            parts.append(array_at(storage, address, array._shape, array._dtype, array._context))
            begin += array.size
        return parts
    for array in arrays:
        part = values[begin : begin + array.size].reshape(array.shape)
        parts.append(nd.array(part, ctx=array.context, dtype=array.dtype))
        begin += array.size
    return parts
