"""Pauses Python's cyclic garbage collector.

Loading modules and compiling a graph allocate hundreds of thousands of objects that stay or that reference counts free.
The collector, which runs every few hundred allocations, finds next to nothing and takes a tenth of the time.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Generator
from contextlib import contextmanager
from threading import get_ident

_FROZEN_BY_PYTHON = 1000
"""Python 3.12 freezes a few hundred objects when it starts. A program that freezes its objects has many more."""


class _Pauses:
    """The running pauses of all threads. The collector is enabled again at the end of the last one."""

    def __init__(self) -> None:
        self.threads: dict[object, int] = {}  # of each pause
        self.was_enabled = False

    def begin(self, pause: object) -> None:
        self.threads[pause] = get_ident()
        if gc.isenabled():
            self.was_enabled = True
            gc.disable()

    def end(self, *ended: object) -> None:
        for pause in ended:
            self.threads.pop(pause, None)
        if self.was_enabled and not self.threads:
            self.was_enabled = False
            gc.enable()

    def after_fork(self) -> None:
        """The child has none of the other threads."""
        self.end(*(pause for pause, thread in list(self.threads.items()) if thread != get_ident()))


_pauses = _Pauses()
os.register_at_fork(after_in_child=_pauses.after_fork)


@contextmanager
def collection_paused(*, objects_stay: bool = False) -> Generator[None]:
    """Run the body without automatic collections, in all threads. It can be nested. A collector that the program has
    disabled stays disabled.

    With `objects_stay` the objects that the body makes are of the oldest generation, which is rarely traversed. Without
    it the first collection afterwards traverses them all, and frees unreachable ones.
    """
    pause = object()
    try:
        _pauses.begin(pause)
        yield
    finally:
        if objects_stay and len(_pauses.threads) == 1 and gc.get_freeze_count() < _FROZEN_BY_PYTHON:
            gc.freeze()  # all objects; none is traversed
            gc.unfreeze()  # into the oldest generation
        _pauses.end(pause)
