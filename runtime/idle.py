"""Bounds the memory that idle programs keep: those that ran longest ago give theirs back first.

A program keeps its arena and what it prepared from parameters for the next run. Each shape has a program of its own, so
a process that sees many shapes would hold many arenas of which it uses one. What was given back is made again when the
program runs again: zeroed, and prepared anew.
"""

from __future__ import annotations

from typing import Protocol
from weakref import WeakSet

from ..ir.locks import ForkSafeLock
from .storage import cached_bytes, release_cached

LIMIT = 32 << 20
"""Bytes that programs may keep while they do not run, together."""

ALWAYS_KEPT = 16
"""Programs that ran last and keep their memory, however much: a few that take turns are not prepared each time."""


class Idle(Protocol):
    """A program with memory of its own."""

    last_run: int
    """`clock.now` at its last run."""

    def idle_bytes(self) -> int:
        """What it would give back."""
        ...

    def give_back(self) -> None:
        """Free the memory that no run is using."""
        ...


class _Clock:
    """Counts the times that a program has got memory: programs note the count when they run."""

    __slots__ = ("now", "unmeasured")

    def __init__(self) -> None:
        self.now = 0
        self.unmeasured = 0  # bytes since the memory of all was last added up


clock = _Clock()
_holders: WeakSet[Idle] = WeakSet()
_lock = ForkSafeLock()


def hold(program: Idle, nbytes: int) -> None:
    """Note that the program has got `nbytes`; others give back what is too much."""
    if not nbytes:
        return
    with _lock:
        _holders.add(program)
        clock.now += 1
        clock.unmeasured += nbytes
        if clock.unmeasured > LIMIT // 8:
            clock.unmeasured = 0
            _bound()


def _bound() -> None:
    holders = sorted(_holders, key=lambda program: program.last_run)
    excess = sum(program.idle_bytes() for program in holders) - LIMIT
    before = cached_bytes()
    for program in holders[:-ALWAYS_KEPT]:
        if excess <= 0:
            break
        excess -= program.idle_bytes()
        program.give_back()
    release_cached(before)  # shapes differ, so other programs could not use these blocks
