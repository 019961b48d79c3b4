"""Prepared memory: values that programs compute from parameters alone, such as packed weights.

Programs that prepare it with the same launches share it, for instance programs of one computation for different shapes.
A run takes a block out of the pool or creates one, so two runs never use the same block at once. Owners of equal graphs
share a program, and each keeps its own block, up to `BUDGET` bytes in all pools of the process.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import NamedTuple
from weakref import WeakSet, ref

from ..ir.locks import ForkSafeLock
from .idle import Idle, add_allocation, clock, is_live, returned_to_the_system
from .memory_limit import physical_memory
from .storage import Storage

BUDGET = physical_memory() // 4
"""The most bytes of blocks that no run uses in all pools; a new block displaces the least recently used ones."""

_uses = itertools.count()


class Version(NamedTuple):
    """A version of parameters with their owner, so that owners of equal graphs do not overwrite each other's blocks."""

    owner: int
    number: int


class Prepared:
    """One block: `version` is the version of the parameters from which its content was computed."""

    __slots__ = ("last_use", "owner", "storage", "version")

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self.version: Hashable = object()
        self.owner: int | None = None
        self.last_use = 0

    def set_version(self, version: Hashable) -> None:
        """Set the version of the parameters from which the content was computed."""
        self.version = version
        self.owner = version.owner if isinstance(version, Version) else None


class PreparedPool:
    """The blocks that no run uses. `zeroed` allocates a buffer of zeros. `holder` is the program that accounts for the
    blocks; None for a shared pool."""

    def __init__(self, nbytes: int, zeroed: Callable[[int], Storage], holder: Idle | None = None) -> None:
        self.nbytes = nbytes
        self._zeroed = zeroed
        self.last_run = clock.now
        self._holder = None if holder is None else ref(holder)  # the holder refers to its pool
        self._idle: dict[int | None, list[Prepared]] = {}  # by owner; None: not prepared yet
        with _lock:
            _pools.add(self)

    def take(self, version: Hashable) -> Prepared:
        """A block for a run with this version of parameters; if possible, one that its owner prepared or a new one."""
        self.last_run = clock.now
        owner = version.owner if isinstance(version, Version) else None
        try:
            return self._idle[owner].pop()
        except (KeyError, IndexError):
            return self._take_any()

    def put(self, block: Prepared) -> None:
        """Return a block to the pool."""
        block.last_use = next(_uses)
        self._idle.setdefault(block.owner, []).append(block)

    def idle_blocks(self) -> list[tuple[Prepared, list[Prepared]]]:
        """Each idle block, and the list that holds it."""
        return [(block, blocks) for blocks in tuple(self._idle.values()) for block in tuple(blocks)]

    def idle_bytes(self) -> int:
        """See `Idle`."""
        return len(self.idle_blocks()) * self.nbytes

    def owners(self) -> set[int]:
        """See `Idle`."""
        return {block.owner for block, _ in self.idle_blocks() if block.owner is not None}

    def release(self) -> None:
        """See `Idle`."""
        self._idle.clear()

    def _take_any(self) -> Prepared:
        """A block of no owner or of one that no longer lives, or a new block."""
        for owner, blocks in tuple(self._idle.items()):
            if owner is not None and is_live(owner):
                continue
            with suppress(IndexError):
                return blocks.pop()
            if owner is not None:
                self._idle.pop(owner, None)
        _make_room(self.nbytes)
        holder = None if self._holder is None else self._holder()
        add_allocation(self if holder is None else holder, self.nbytes)
        return Prepared(self._zeroed(self.nbytes))


_pools: WeakSet[PreparedPool] = WeakSet()
_lock = ForkSafeLock()


def _make_room(nbytes: int) -> None:
    """Free the least recently used idle blocks of all pools until `nbytes` more fit the budget."""
    with _lock:
        idle = sorted((pair for pool in _pools for pair in pool.idle_blocks()), key=_last_use)
        excess = sum(block.storage.nbytes for block, _ in idle) + nbytes - BUDGET
        if excess <= 0:
            return
        with returned_to_the_system():
            while excess > 0 and idle:
                excess -= _remove(*idle.pop(0))


def _last_use(idle: tuple[Prepared, list[Prepared]]) -> int:
    return idle[0].last_use


def _remove(block: Prepared, blocks: list[Prepared]) -> int:
    """Remove a block from the list that holds it; returns the bytes that become free."""
    try:
        blocks.remove(block)
    except ValueError:  # another thread took it
        return 0
    return block.storage.nbytes
