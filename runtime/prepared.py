"""Prepared memory: values that programs compute from parameters alone, such as packed weights.

Programs that prepare it with the same launches share it, for instance programs of one computation for different shapes.
A run takes a block out of the pool or creates one, so two runs never use the same block at once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import NamedTuple

from .idle import Idle, add_allocation, clock
from .storage import Storage, allocate_zeroed

_OWNERS = 8  # blocks that a pool keeps for different owners of parameters


class Version(NamedTuple):
    """A version of parameters with their owner, so that owners of equal graphs do not overwrite each other's blocks."""

    owner: int
    number: int


class Prepared:
    """One block: `version` is the version of the parameters from which its content was computed."""

    __slots__ = ("owner", "storage", "version")

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self.version: Hashable = object()
        self.owner: int | None = None

    def set_version(self, version: Hashable) -> None:
        """Set the version of the parameters from which the content was computed."""
        self.version = version
        self.owner = version.owner if isinstance(version, Version) else None


class PreparedPool:
    """The blocks that no run uses. `holder` is the program that accounts for them; None for a shared pool."""

    def __init__(
        self, nbytes: int, holder: Idle | None = None, zeroed: Callable[[int], Storage] = allocate_zeroed
    ) -> None:
        """`zeroed` allocates a buffer of zeros."""
        self.nbytes = nbytes
        self._zeroed = zeroed
        self.last_run = clock.now
        self._holder = holder
        self._idle: list[Prepared] = []

    def take(self, version: Hashable) -> Prepared:
        """A block for a run with this version of parameters; if possible, one that its owner prepared or a new one."""
        self.last_run = clock.now
        try:
            block = self._idle.pop()
        except IndexError:
            return self._new()
        owner = version.owner if isinstance(version, Version) else None
        return block if block.owner in (owner, None) else self._exchange(block, owner)

    def put(self, block: Prepared) -> None:
        """Return a block to the pool."""
        self._idle.append(block)

    def idle_bytes(self) -> int:
        """See `Idle`."""
        return len(self._idle) * self.nbytes

    def owners(self) -> set[int]:
        """See `Idle`."""
        return {block.owner for block in tuple(self._idle) if block.owner is not None}

    def release(self) -> None:
        """See `Idle`."""
        self._idle.clear()

    def _exchange(self, block: Prepared, owner: int | None) -> Prepared:
        """A block of this owner instead of another owner's `block`: owners of equal graphs share a program, and each
        keeps its prepared values."""
        self._idle.append(block)
        for other in tuple(self._idle):
            if other.owner in (owner, None):
                with suppress(ValueError):  # another thread took it
                    self._idle.remove(other)
                    return other
        if len(self._idle) < _OWNERS:
            return self._new()
        try:
            return self._idle.pop(0)
        except IndexError:
            return self._new()

    def _new(self) -> Prepared:
        add_allocation(self if self._holder is None else self._holder, self.nbytes)
        return Prepared(self._zeroed(self.nbytes))
