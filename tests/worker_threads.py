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
    results: list[Any] = [None] * count

    def run(rank: int) -> None:
        member = group.member(rank)
        try:
            with communicating(member):
                results[rank] = work(DistributedKVStore("dist_sync", member))
        except Exception as error:
            results[rank] = error

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results
