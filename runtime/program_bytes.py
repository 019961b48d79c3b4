"""Bounds the memory of the programs of shapes: beyond a limit, caches drop those of shapes that were not used lately.

Caches of signatures, of fast paths and of tapes hold these programs, and bound their number. Programs differ in size
from some kilobytes to some megabytes, so this module bounds the sum of their bytes, with one account for the process.
"""

from __future__ import annotations

import weakref
from typing import Any

from ..ir.caches import age_caches
from ..ir.locks import ForkSafeLock
from .loaded_program import LoadedProgram

LIMIT = 128 << 20
"""Beyond so many bytes of programs, caches age with every quarter of it that is loaded. Programs in use stay."""


class _Account:
    """The bytes of programs in memory, and those loaded since caches aged."""

    def __init__(self) -> None:
        self.held = self.loaded = 0
        self.freed: list[int] = []  # by finalizers, which run at any time
        self._lock = ForkSafeLock()

    def add(self, nbytes: int) -> bool:
        """Count a program. True if caches are to age."""
        with self._lock:
            while self.freed:
                self.held -= self.freed.pop()
            self.held += nbytes
            self.loaded += nbytes
            ages = self.held > LIMIT and self.loaded > LIMIT // 4
            self.loaded = 0 if ages else self.loaded
        return ages


account = _Account()


def count_program(loaded: LoadedProgram[Any]) -> None:
    """Count the bytes of a program as long as it lives, without its code, which programs for several shapes share."""
    nbytes = loaded.own_bytes - 2 * sum(map(len, loaded.program.code))
    weakref.finalize(loaded, account.freed.append, nbytes).atexit = False
    if account.add(nbytes):
        age_caches()
