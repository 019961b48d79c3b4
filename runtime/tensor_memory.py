"""Tensors as they are stored in memory: in a layout, with strides, or as bits of bfloat16."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ..ir.types import DType, TensorType

Array = np.ndarray[Any, Any]


def read_tensor(address: int, type: TensorType, strides: Sequence[int] | None = None) -> tuple[Array, bool]:
    """(the elements of the tensor at this address, whether all that surrounds them is zero). `strides` count elements
    along the physical dimensions; None: contiguous. Elements of BF16 are float32.

    A halo and the channels beyond the last one surround the elements of a tensor in a layout.
    """
    layout = type.layout
    shape = type.shape if layout is None else layout.physical_shape(type.shape)
    memory = memory_at(address, shape, type.dtype, strides)
    if layout is None:
        return elements(memory, type.dtype), True
    blocks = np.moveaxis(memory, -1, 2)  # (N, blocks, block, *spatial with halo)
    channels = blocks.reshape(shape[0], shape[1] * layout.block, *blocks.shape[3:])
    cut = tuple(slice(low, low + n) for n, (low, _) in zip(type.shape[2:], layout.halo, strict=True))
    own = (slice(None), slice(type.shape[1]), *cut)
    outside = channels.copy()
    outside[own] = 0
    return elements(channels[own], type.dtype), not outside.any()


def stored(values: Array, type: TensorType) -> Array:
    """The memory of a tensor in its layout, with zeros around the elements; the inverse of `read_tensor`."""
    memory = as_memory(np.asarray(values, np.float32 if type.dtype is DType.BF16 else type.dtype.numpy), type.dtype)
    layout = type.layout
    if layout is None:
        return np.ascontiguousarray(memory)
    n, blocks, *spatial, block = layout.physical_shape(type.shape)
    channels = np.zeros((n, blocks * block, *spatial), memory.dtype)
    cut = tuple(slice(low, low + n) for n, (low, _) in zip(type.shape[2:], layout.halo, strict=True))
    channels[(slice(None), slice(type.shape[1]), *cut)] = memory
    return np.ascontiguousarray(np.moveaxis(channels.reshape(n, blocks, block, *spatial), 2, -1))


def memory_at(address: int, shape: Sequence[int], dtype: DType, strides: Sequence[int] | None = None) -> Array:
    """The memory itself, as an array of `DType.memory`. `strides` count elements; None: contiguous."""
    element = dtype.memory
    if not prod(shape):
        return np.empty(shape, element)
    steps = None if strides is None else tuple(s * element.itemsize for s in strides)
    last = prod(shape) - 1 if strides is None else sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
    buffer: Any = (ctypes.c_char * ((last + 1) * element.itemsize)).from_address(address)
    return np.ndarray(tuple(shape), element, buffer, strides=steps)


def elements(memory: Array, dtype: DType) -> Array:
    """A copy of the elements in memory, which is contiguous; BF16 as float32."""
    if dtype is DType.BF16:
        return (memory.astype(np.uint32) << 16).view(np.float32)
    return np.array(memory, order="C")


def as_memory(values: Array, dtype: DType) -> Array:
    """Elements in the format of memory: float32 is rounded to BF16, to nearest even."""
    if dtype is not DType.BF16:
        return values
    words = np.ascontiguousarray(values, np.float32).view(np.uint32)
    rounded = np.where(np.isnan(values), words | 0x400000, words + 0x7FFF + ((words >> 16) & 1))
    return (rounded >> 16).astype(np.uint16)
