"""Bounds the memory that idle programs keep: those that ran longest ago give theirs back first.

A program keeps its arena and what it prepared from parameters for the next run. Each shape has a program of its own, so
a process that sees many shapes would hold many arenas of which it uses one. What was given back is made again when the
program runs again: zeroed, and prepared anew. Preparing is slow, so of each living owner of parameters (a block, an
executor) the program that ran last keeps its memory: a process may serve any number of models.
"""

from __future__ import annotations

from typing import Protocol
from weakref import WeakSet, WeakValueDictionary

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

    def owners(self) -> set[int]:
        """The owners of the parameters that this memory was prepared from, by their numbers."""
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
_owners: WeakValueDictionary[int, object] = WeakValueDictionary()
_lock = ForkSafeLock()


def add_owner(number: int, owner: object) -> None:
    """Note an owner of parameters, for as long as it lives."""
    _owners[number] = owner


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
    holders = sorted(_holders, key=lambda program: program.last_run, reverse=True)
    excess = sum(program.idle_bytes() for program in holders) - LIMIT
    before = cached_bytes()
    for program in reversed(_dispensable(holders)):
        if excess <= 0:
            break
        excess -= program.idle_bytes()
        program.give_back()
    release_cached(before)  # shapes differ, so other programs could not use these blocks


def _dispensable(newest_first: list[Idle]) -> list[Idle]:
    """The programs behind those that ran last of all, and last of their owners."""
    seen: set[int] = set()
    found: list[Idle] = []
    for number, program in enumerate(newest_first):
        owners = {o for o in program.owners() if o in _owners} - seen
        seen |= owners
        if number >= ALWAYS_KEPT and not owners:
            found.append(program)
    return found
