"""Reads and writes of parts of arrays on devices other than the host, without a copy of the whole array on the host."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from ...runtime.storage import copy_between
from ..base import numeric_types
from ..dtypes import to_memory

if TYPE_CHECKING:
    from .ndarray import NDArray

Shape = tuple[int, ...]


def contiguous_part(array: NDArray, key: tuple[Any, ...]) -> tuple[Shape, int] | None:
    """The shape and the first byte of the elements that a key of integers, slices, None and one `...` selects; None if
    they are not contiguous. IndexError as NumPy raises it."""
    if not array.size:
        return None
    element = np.empty(1, array._dtype.memory)
    strides = [prod(array._shape[i + 1 :]) * element.itemsize for i in range(len(array._shape))]
    whole = np.lib.stride_tricks.as_strided(element, array._shape, strides)  # whose elements are not read
    selected = whole[key]
    if not selected.flags.c_contiguous or not selected.size:
        return None
    begins = [a.__array_interface__["data"][0] for a in (whole, selected)]
    return selected.shape, begins[1] - begins[0]


def copied(target: NDArray, shape: Shape, offset: int, source: NDArray) -> bool:
    """Copy an array to a part of another on the devices; False if the elements must be converted or broadcast, or if
    the arrays share memory."""
    if source._is_sparse or source._dtype is not target._dtype or source._shape != shape:
        return False
    if source._storage is target._storage:
        return False
    device, address = target._storage.device, target._address + offset
    copy_between(device, address, source._storage.device, source._address, source._nbytes())
    return True


def filled(target: NDArray, shape: Shape, offset: int, value: Any) -> bool:
    """Fill a part of an array on the device if the value is a number; False if it is none."""
    if not isinstance(value, numeric_types):
        return False
    element = np.zeros(1, target._dtype.memory)
    element[0] = to_memory(value, target._dtype)
    target._storage.device.fill(target._address + offset, element.tobytes(), prod(shape))
    return True
