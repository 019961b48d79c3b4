"""Storage: alignment, disjoint blocks, reuse, views that keep their memory alive, bounds, and threads."""

from __future__ import annotations

import gc
import itertools
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from mxforge.runtime import storage as module
from mxforge.runtime.host.machine import physical_memory
from mxforge.runtime.storage import (
    allocate,
    allocate_zeroed,
    as_numpy,
    release_cached,
    set_cache_limit,
    size_of_block,
    statistics,
    wrap_numpy,
    writable_view,
)

SIZES = (0, 1, 63, 64, 65, 400, 1024, 1025, 4096, 32768, 32769, 100_000, 1 << 20, (2 << 20) + 1, 5_000_001)


@pytest.fixture
def default_limit() -> Iterator[None]:
    before = module._system.limit
    yield
    set_cache_limit(before)


@pytest.mark.parametrize("nbytes", SIZES)
def test_blocks_are_aligned_and_writable_to_the_end(nbytes: int) -> None:
    block = allocate(nbytes)
    assert block.nbytes == nbytes
    assert block.address % 64 == 0
    view = as_numpy(block, np.uint8, (nbytes,))
    view[:] = 255
    assert int(view.sum(dtype=np.int64)) == 255 * nbytes


@pytest.mark.parametrize("nbytes", SIZES)
def test_zeroed_blocks(nbytes: int) -> None:
    as_numpy(allocate(nbytes), np.uint8, (nbytes,))[:] = 255
    assert not as_numpy(allocate_zeroed(nbytes), np.uint8, (nbytes,)).any()


def test_large_blocks_are_aligned_to_huge_pages() -> None:
    assert allocate(3 << 20).address % (2 << 20) == 0


def test_live_blocks_do_not_overlap() -> None:
    blocks = [allocate(n) for n in itertools.chain(SIZES * 3, range(0, 60_000, 501))]
    spans = sorted((b.address, b.address + size_of_block(b.nbytes)) for b in blocks)
    assert all(left[1] <= right[0] for left, right in itertools.pairwise(spans))


def test_size_classes_waste_at_most_a_quarter() -> None:
    for n in [*range(5000), *(1 << k for k in range(10, 41)), *((1 << k) + 1 for k in range(10, 41))]:
        size = size_of_block(n)
        assert n <= size <= max(64, n + 64 if n <= 1024 else n * 5 // 4 + 1)
        assert size % 64 == 0
        assert size_of_block(size) == size


@pytest.mark.parametrize("nbytes", [400, 50_000, 4 << 20])
def test_a_freed_block_is_reused_by_the_next_request_of_its_class(nbytes: int) -> None:
    first = allocate(nbytes)
    address = first.address
    del first
    assert allocate(nbytes - 8).address == address


def test_negative_size_is_refused() -> None:
    with pytest.raises(ValueError, match="-1 bytes"):
        allocate(-1)


def test_impossible_size_is_a_memory_error_after_trimming(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_physical", 1 << 51)
    allocate(8 << 20)
    with pytest.raises(MemoryError, match="cannot allocate 1,125,899,906,842,624 bytes"):
        allocate(1 << 50)
    assert module._system.cached_large() == 0


def test_more_than_the_machines_memory_is_refused_at_once() -> None:
    allocate(8 << 20)
    for nbytes in (1 << 50, 1 << 64):
        with pytest.raises(MemoryError, match=f"cannot allocate .* bytes: the machine has {physical_memory():,} bytes"):
            allocate(nbytes)
    assert module._system.cached_large() >= 8 << 20


def test_view_keeps_its_storage_alive() -> None:
    block = allocate(400)
    address = block.address
    view = as_numpy(block, np.float32, (10, 10))
    view[:] = 7
    del block
    gc.collect()
    others = [allocate(400) for _ in range(200)]
    assert address not in {other.address for other in others}
    assert (view == 7).all()
    part = view[3:5]
    del view
    assert address not in {allocate(400).address for _ in range(10)}
    del part
    assert allocate(400).address == address


def test_views_see_the_same_bytes() -> None:
    block = allocate(64)
    as_numpy(block, np.int32, (16,))[:] = range(16)
    assert as_numpy(block, np.int32, (2, 2), offset=8).tolist() == [[2, 3], [4, 5]]
    assert as_numpy(block, np.int64, (), offset=0) == 1 << 32


@pytest.mark.parametrize(("shape", "offset"), [((101,), 0), ((100,), 4), ((1 << 40,), 0)])
def test_view_beyond_the_storage_is_refused(shape: tuple[int, ...], offset: int) -> None:
    with pytest.raises((ValueError, TypeError)):
        as_numpy(allocate(400), np.float32, shape, offset)


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


def test_statistics_follow_blocks() -> None:
    release_cached()
    before = statistics()
    block = allocate(10 << 20)
    held = statistics()
    assert held.in_use - before.in_use == 10 << 20
    assert held.peak >= held.in_use + held.cached
    del block
    freed = statistics()
    assert (freed.in_use, freed.cached - before.cached) == (before.in_use, 10 << 20)
    release_cached()
    assert statistics().cached == before.cached


@pytest.mark.usefixtures("default_limit")
def test_idle_bytes_are_bounded() -> None:
    set_cache_limit(8 << 20)
    blocks = [allocate(1 << 20) for _ in range(40)]
    blocks.clear()
    assert module._system.cached_large() <= (8 << 20) + (1 << 20)


def churn(nbytes: int, total: int) -> None:
    """Allocate and free blocks of one size, `total` bytes in all."""
    for _ in range(total // nbytes):
        allocate(nbytes)


def test_blocks_of_sizes_that_are_no_longer_used_are_unmapped() -> None:
    release_cached()
    held = [allocate(3 << 20) for _ in range(20)]
    held.clear()
    assert module._system.cached_large() >= 60 << 20
    turnover = module._TURNOVER * max(module._system.reserved, module._FEW_BYTES)
    churn(1 << 20, 2 * turnover + (2 << 20))
    assert module._system.cached_large() <= 2 << 20


def test_blocks_that_are_used_now_and_then_stay_mapped() -> None:
    release_cached()
    turnover = module._TURNOVER * max(module._system.reserved + (60 << 20), module._FEW_BYTES)
    addresses: set[int] = set()
    for _ in range(8):
        held = [allocate(3 << 20) for _ in range(20)]
        addresses.update(int(block.address) for block in held)
        held.clear()
        churn(1 << 20, turnover // 3)
    assert len(addresses) == 20


def test_threads_never_share_a_block() -> None:
    """Each thread marks its blocks and must find its own mark when it frees them."""
    wrong: list[int] = []

    def work(mark: int) -> None:
        held = []
        for step in range(2000):
            block = allocate((step * 37) % 3000 + 8)
            view = as_numpy(block, np.int64, (1,))
            view[0] = mark
            held.append(view)
            if len(held) == 20:
                wrong.extend(int(v[0]) for v in held if v[0] != mark)
                held.clear()

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
