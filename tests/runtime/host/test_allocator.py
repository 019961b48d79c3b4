"""The allocator: alignment, disjoint blocks, reuse, bounds, and threads."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator

import numpy as np
import pytest
from mxforge.runtime import memory_limit
from mxforge.runtime.host import allocator as module
from mxforge.runtime.host.allocator import allocate, allocate_zeroed, release_cached, set_cache_limit, statistics
from mxforge.runtime.memory_limit import physical_memory
from mxforge.runtime.storage import as_numpy, size_of_block

pytestmark = pytest.mark.any_processor

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
    monkeypatch.setattr(memory_limit, "_physical", 1 << 51)
    allocate(8 << 20)
    with pytest.raises(MemoryError, match="cannot allocate 1,125,899,906,842,624 bytes"):
        allocate(1 << 50)
    assert module._system.cached_bytes() == 0


def test_more_than_the_machines_memory_is_refused_at_once() -> None:
    allocate(8 << 20)
    for nbytes in (1 << 50, 1 << 64):
        with pytest.raises(MemoryError, match=f"cannot allocate .* bytes: the machine has {physical_memory():,} bytes"):
            allocate(nbytes)
    assert module._system.cached_bytes() >= 8 << 20


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
    assert module._system.cached_bytes() <= (8 << 20) + (1 << 20)


def churn(nbytes: int, total: int) -> None:
    """Allocate and free blocks of one size, `total` bytes in all."""
    for _ in range(total // nbytes):
        allocate(nbytes)


def test_blocks_of_sizes_that_are_no_longer_used_are_unmapped() -> None:
    release_cached()
    held = [allocate(3 << 20) for _ in range(20)]
    held.clear()
    assert module._system.cached_bytes() >= 60 << 20
    turnover = module._TURNOVER * max(module._system.reserved, module._FEW_BYTES)
    churn(1 << 20, 2 * turnover + (2 << 20))
    assert module._system.cached_bytes() <= 2 << 20


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
