"""Tensors in memory: what is stored is read back, in every layout and dtype."""

from __future__ import annotations

import numpy as np
import pytest
from mxforge.ir.types import DType, Layout, TensorType
from mxforge.runtime.tensor_memory import read_tensor, stored

LAYOUTS = [None, Layout(4, ((0, 0), (0, 0))), Layout(4, ((1, 2), (0, 3))), Layout(1, ((1, 1), (1, 1)))]


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("dtype", [DType.F32, DType.BF16, DType.I8, DType.F64])
def test_what_is_stored_is_read(layout: Layout | None, dtype: DType) -> None:
    type = TensorType((2, 6, 3, 5), dtype, layout)
    values = np.arange(180).reshape(type.shape).astype(np.float32 if dtype is DType.BF16 else dtype.numpy)
    values = np.minimum(values, 100)  # bfloat16 and int8 have these numbers
    memory = stored(values, type)
    assert memory.nbytes == type.nbytes
    found, is_zero_outside = read_tensor(memory.ctypes.data, type)
    assert np.array_equal(found, values) and is_zero_outside


def test_writes_outside_the_elements_are_seen() -> None:
    type = TensorType((1, 3, 2, 2), DType.F32, Layout(4, ((1, 0), (0, 0))))
    memory = stored(np.ones(type.shape, np.float32), type)
    for index in ((0, 0, 0, 0, 0), (0, 0, 1, 0, 3)):  # in the halo, and in the channel beyond the last one
        memory[index] = 5
        found, is_zero_outside = read_tensor(memory.ctypes.data, type)
        assert (found == 1).all() and not is_zero_outside
        memory[index] = 0


def test_strides_are_followed() -> None:
    whole = np.arange(24, dtype=np.float32).reshape(4, 6)
    piece = TensorType((4, 2), DType.F32)
    found, _ = read_tensor(whole[:, 3:].ctypes.data, piece, (6, 1))
    assert np.array_equal(found, whole[:, 3:5])


def test_an_empty_tensor_has_no_memory() -> None:
    assert read_tensor(0, TensorType((0, 3), DType.F32))[0].shape == (0, 3)
