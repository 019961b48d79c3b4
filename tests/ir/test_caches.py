"""Caches: two generations, limits on entries and bytes, clearing and counting all of them."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from mxforge.ir.caches import Cache, cache_counts, clear_caches


def fill(cache: Cache[int, str], keys: range) -> None:
    for key in keys:
        cache.add(key, str(key))


def test_an_entry_that_is_used_in_each_generation_stays() -> None:
    cache: Cache[int, str] = Cache("test", 8)
    cache.add(-1, "kept")
    for key in range(40):
        cache.add(key, str(key))
        if key % 3 == 0:
            assert cache.find(-1) == "kept"
    assert len(cache) <= 8 and cache.find(39) == "39" and cache.find(0) is None


def test_unused_entries_are_dropped_oldest_first() -> None:
    cache: Cache[int, str] = Cache("test", 4)
    fill(cache, range(5))
    assert [cache.find(key) for key in (0, 1)] == [None, None]
    assert cache.find(4) == "4" and cache.find(3) == "3"


def test_the_dictionary_of_fast_paths_stays_the_same() -> None:
    cache: Cache[int, str] = Cache("test", 4)
    recent = cache.recent
    fill(cache, range(9))
    assert cache.recent is recent and recent[8] == "8"
    cache.clear()
    assert recent == {} and len(cache) == 0


def test_bytes_are_bounded_and_the_newest_entry_stays() -> None:
    cache: Cache[int, str] = Cache("test", 100, len, 10)
    for key in range(6):
        cache.add(key, "xxx")
    assert len(cache) == 4  # two generations, each closed at half of the bytes
    cache.add(6, "x" * 1000)
    cache.add(7, "x")
    assert cache.find(7) == "x"


def test_of_two_equal_entries_the_first_is_kept() -> None:
    cache: Cache[int, str] = Cache("test")
    assert cache.add(1, "a") == "a" and cache.add(1, "b") == "a" and cache.get(1, lambda: "c") == "a"


def test_one_thread_creates_an_entry() -> None:
    cache: Cache[int, object] = Cache("test")
    made: list[object] = []
    start = threading.Barrier(6)

    def make() -> object:
        made.append(object())
        return made[-1]

    def work() -> None:
        start.wait()
        cache.get(1, make)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1


def test_an_exception_propagates_and_nothing_is_stored() -> None:
    cache: Cache[int, str] = Cache("test")
    with pytest.raises(ZeroDivisionError):
        cache.get(1, lambda: str(1 // 0))
    assert cache.get(1, lambda: "made") == "made"


@pytest.fixture
def other() -> Iterator[Cache[int, str]]:
    cache: Cache[int, str] = Cache("a cache of this test")
    fill(cache, range(3))
    yield cache


def test_all_caches_are_counted_and_cleared(other: Cache[int, str]) -> None:
    same_name: Cache[int, str] = Cache("a cache of this test")
    same_name.add(1, "x")
    assert cache_counts()["a cache of this test"] == 4
    clear_caches()
    assert cache_counts()["a cache of this test"] == 0 and len(other) == 0
