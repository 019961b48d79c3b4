"""Workers of a distributed store that are threads of this process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from mxforge.frontend.kvstore.distributed import DistributedKVStore
from mxforge.runtime.communicator import ThreadGroup, communicating


def workers(work: Callable[[DistributedKVStore], Any], count: int = 3, timeout: float = 10.0) -> list[Any]:
    """What each worker returns or raises."""
    group = ThreadGroup(count, timeout)

    def run(rank: int) -> Any:
        member = group.member(rank)
        with communicating(member):
            return work(DistributedKVStore("dist_sync", member))

    return in_threads(run, count)


def in_threads(work: Callable[[int], Any], count: int) -> list[Any]:
    """What calls with the numbers of threads return or raise there."""
    results: list[Any] = [None] * count

    def run(rank: int) -> None:
        try:
            results[rank] = work(rank)
        except Exception as error:
            results[rank] = error

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results
