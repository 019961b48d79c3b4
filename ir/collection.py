"""Pauses Python's cyclic garbage collector.

Loading modules and compiling a graph allocate hundreds of thousands of objects that stay or that reference counts free.
The collector, which runs every few hundred allocations, finds next to nothing and takes a tenth of the time.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import get_ident

_pauses: dict[object, int] = {}  # of running pauses: the thread
_paused = False  # True if the collector was enabled before the pauses


@contextmanager
def collection_paused(*, objects_stay: bool = False) -> Iterator[None]:
    """Run the body without automatic collections, in all threads. It can be nested. A collector that the program has
    disabled stays disabled.

    With `objects_stay` the objects that the body makes are of the oldest generation, which is rarely traversed. Without
    it the first collection afterwards traverses them all, and frees unreachable ones.
    """
    global _paused
    pause = object()
    try:
        _pauses[pause] = get_ident()
        if gc.isenabled():
            _paused = True
            gc.disable()
        yield
    finally:
        if objects_stay and len(_pauses) == 1 and not gc.get_freeze_count():  # a program may have frozen its objects
            gc.freeze()  # all objects; none is traversed
            gc.unfreeze()  # into the oldest generation
        _end(pause)


def _end(*ended: object) -> None:
    global _paused
    for pause in ended:
        _pauses.pop(pause, None)
    if _paused and not _pauses:
        _paused = False
        gc.enable()


def _end_those_of_other_threads() -> None:
    _end(*(pause for pause, thread in list(_pauses.items()) if thread != get_ident()))


os.register_at_fork(after_in_child=_end_those_of_other_threads)
