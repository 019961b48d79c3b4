"""Bounds the memory that idle programs keep: the least recently run programs release it first.

A program keeps its arena and its prepared memory for the next run. Each signature has its own program, so without a
bound a process that uses many shapes would hold many arenas and use one. A program that released its memory allocates,
zeroes and prepares it again on its next run. Preparing is slow, so for each live owner of parameters (a block, an
executor) the program that ran last keeps its memory: a process can serve any number of models.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Protocol
from weakref import WeakKeyDictionary, WeakSet, WeakValueDictionary

from ..ir.locks import ForkSafeLock

LIMIT = 32 << 20
"""The most bytes that all idle programs together keep."""

ALWAYS_KEPT = 16
"""This many of the most recently run programs keep their memory whatever its size, so that a few programs that
alternate are not prepared each time."""


class CacheOfBlocks(Protocol):
    """The blocks that an allocator keeps for later requests."""

    def cached_bytes(self) -> int:
        """The bytes of these blocks."""
        ...

    def release_cached(self, limit: int) -> None:
        """Return blocks to the system until at most `limit` bytes are kept."""
        ...


caches_of_blocks: list[CacheOfBlocks] = []
"""Those of all allocators of the process."""


class Idle(Protocol):
    """A program whose memory this module bounds."""

    last_run: int
    """`clock.now` at its last run."""

    def idle_bytes(self) -> int:
        """The bytes that `release` would free."""
        ...

    def owners(self) -> set[int]:
        """The numbers of the owners of the parameters from which this memory was prepared."""
        ...

    def release(self) -> None:
        """Free the memory that no run is using."""
        ...


class _Clock:
    """Counts allocations of programs' memory; each program stores the count when it runs."""

    __slots__ = ("now", "unmeasured")

    def __init__(self) -> None:
        self.now = 0
        self.unmeasured = 0  # bytes allocated since the memory of all programs was last summed


clock = _Clock()
_holders: WeakSet[Idle] = WeakSet()
_keepers: WeakKeyDictionary[object, WeakSet[object]] = WeakKeyDictionary()
_owners: WeakValueDictionary[int, object] = WeakValueDictionary()
_lock = ForkSafeLock()


def add_owner(number: int, owner: object) -> None:
    """Register an owner of parameters for as long as it lives."""
    _owners[number] = owner


def is_live(owner: int) -> bool:
    """True if the owner of parameters with this number lives."""
    return owner in _owners


def keep_memory(program: object, user: object) -> None:
    """Exempt the program from releasing its memory as long as `user` lives."""
    with _lock:
        _keepers.setdefault(program, WeakSet()).add(user)


def add_allocation(program: Idle, nbytes: int) -> None:
    """Register that the program allocated `nbytes`. Idle programs release memory if the limit is exceeded."""
    if not nbytes:
        return
    with _lock:
        _holders.add(program)
        clock.now += 1
        clock.unmeasured += nbytes
        if clock.unmeasured > LIMIT // 8:
            clock.unmeasured = 0
            _release_excess()


def _release_excess() -> None:
    holders = sorted(_holders, key=lambda program: program.last_run, reverse=True)
    excess = sum(program.idle_bytes() for program in holders) - LIMIT
    with returned_to_the_system():
        for program in reversed(_releasable(holders)):
            if excess <= 0:
                break
            excess -= program.idle_bytes()
            program.release()


def release_all() -> None:
    """Release the memory of all programs that do not run, except those exempt for a user."""
    with _lock:
        for program in [holder for holder in _holders if not _keepers.get(holder)]:
            program.release()


@contextmanager
def returned_to_the_system() -> Generator[None]:
    """Let no allocator keep what the body frees: shapes differ, so other programs could not use these blocks."""
    before = [(cache, cache.cached_bytes()) for cache in caches_of_blocks]
    yield
    for cache, nbytes in before:
        cache.release_cached(nbytes)


def _releasable(newest_first: list[Idle]) -> list[Idle]:
    """The programs that are neither among the most recently run, nor the last of an owner, nor exempt for a user."""
    seen: set[int] = set()
    programs: list[Idle] = []
    for number, program in enumerate(newest_first):
        owners = set(filter(is_live, program.owners())) - seen
        seen |= owners
        if number >= ALWAYS_KEPT and not owners and not _keepers.get(program):
            programs.append(program)
    return programs
