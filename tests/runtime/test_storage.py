"""Storage: views that share memory with it and keep it alive, memory of NumPy, and the sizes of blocks."""

from __future__ import annotations

import gc
from pathlib import Path

import numpy as np
import pytest
from mxforge.runtime.devices import HOST
from mxforge.runtime.storage import as_numpy, size_of_block, wrap_numpy, writable_view

pytestmark = pytest.mark.any_processor


def test_size_classes_waste_at_most_a_quarter() -> None:
    for n in [*range(5000), *(1 << k for k in range(10, 41)), *((1 << k) + 1 for k in range(10, 41))]:
        size = size_of_block(n)
        assert n <= size <= max(64, n + 64 if n <= 1024 else n * 5 // 4 + 1)
        assert size % 64 == 0
        assert size_of_block(size) == size


def test_view_keeps_its_storage_alive() -> None:
    block = HOST.allocate(400)
    address = block.address
    view = as_numpy(block, np.float32, (10, 10))
    view[:] = 7
    del block
    gc.collect()
    others = [HOST.allocate(400) for _ in range(200)]
    assert address not in {other.address for other in others}
    assert (view == 7).all()
    part = view[3:5]
    del view
    assert address not in {HOST.allocate(400).address for _ in range(10)}
    del part
    assert HOST.allocate(400).address == address


def test_views_see_the_same_bytes() -> None:
    block = HOST.allocate(64)
    as_numpy(block, np.int32, (16,))[:] = range(16)
    assert as_numpy(block, np.int32, (2, 2), offset=8).tolist() == [[2, 3], [4, 5]]
    assert as_numpy(block, np.int64, (), offset=0) == 1 << 32


@pytest.mark.parametrize(("shape", "offset"), [((101,), 0), ((100,), 4), ((1 << 40,), 0)])
def test_view_beyond_the_storage_is_refused(shape: tuple[int, ...], offset: int) -> None:
    with pytest.raises((ValueError, TypeError)):
        as_numpy(HOST.allocate(400), np.float32, shape, offset)


def test_wrapped_array_is_shared_and_kept_alive() -> None:
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    shared = wrap_numpy(array)
    assert (shared.address, shared.nbytes) == (array.ctypes.data, 48)
    view = as_numpy(shared, np.float32, (4,), offset=16)
    array[1, 0] = 99
    del array, shared
    assert view.tolist() == [99, 5, 6, 7]


def test_array_that_cannot_be_shared_is_refused() -> None:
    read_only = np.zeros(4)
    read_only.flags.writeable = False
    for array in (np.zeros((4, 4)).T[1:], read_only):
        with pytest.raises(ValueError, match="C-contiguous"):
            wrap_numpy(array)


def test_a_read_only_array_of_writable_memory_has_a_writable_view(tmp_path: Path) -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    array.flags.writeable = False
    for view in (array, array[1:]):
        shared = writable_view(view)
        assert shared is not None and shared.shape == view.shape and shared.ctypes.data == view.ctypes.data
        shared[0, 0] += 10
    assert array[0, 0] == 10 and array[1, 0] == 13
    (tmp_path / "mapped").write_bytes(bytes(16))
    mapped = np.memmap(tmp_path / "mapped", np.float32, "r")
    assert writable_view(np.frombuffer(b"abcd", np.uint8)) is None and writable_view(mapped) is None


def test_the_host_fills_in_elements() -> None:
    storage = HOST.allocate_zeroed(32)
    HOST.fill(storage.address + 8, np.float32(1.5).tobytes(), 3)
    assert as_numpy(storage, np.float32, (8,)).tolist() == [0, 0, 1.5, 1.5, 1.5, 0, 0, 0]
