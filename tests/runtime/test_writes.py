"""Writes to watched memory are detected, and blocks are forgotten with their last watch."""

from __future__ import annotations

import threading

from mxforge.runtime import writes
from mxforge.runtime.devices import HOST
from mxforge.runtime.writes import Watch, WrittenTogether, clock, touch, written


def test_only_writes_to_watched_blocks_advance_the_version() -> None:
    watched, other = HOST.allocate(64), HOST.allocate(64)
    watch = Watch([watched])
    before, versions = clock.now, watch.versions()
    written(other)
    assert clock.now == before and watch.versions() == versions
    written(watched)
    assert clock.now != before and watch.versions() != versions


def test_touch_advances_the_version() -> None:
    watch = Watch([HOST.allocate(64)])
    before, versions = clock.now, watch.versions()
    touch()
    assert clock.now != before and watch.versions() == versions


def test_blocks_are_removed_with_their_last_watch() -> None:
    storage = HOST.allocate(64)
    first, second = Watch([storage]), Watch([storage])
    del first
    assert id(storage) in writes.watched
    assert second.versions() == (0,)
    del second
    assert id(storage) not in writes.watched


def test_storages_that_are_written_together() -> None:
    storages = [HOST.allocate(64) for _ in range(3)]
    register = WrittenTogether(storages)
    before = clock.now
    register()
    assert clock.now == before
    first, both = Watch(storages[:1]), Watch(storages[1:])
    for _ in range(2):
        versions = first.versions(), both.versions()
        register()
        assert all(new > old for new, old in zip((*first.versions(), *both.versions()), sum(versions, ()), strict=True))
    del both
    versions = first.versions()
    register()
    assert first.versions() != versions


def test_threads_can_watch_the_same_blocks() -> None:
    storages = [HOST.allocate(64) for _ in range(8)]

    def work() -> None:
        for _ in range(300):
            Watch(storages).versions()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not any(id(storage) in writes.watched for storage in storages)
