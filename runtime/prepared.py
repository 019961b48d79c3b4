"""Memory that holds what programs compute from parameters alone, such as packed weights.

Programs with the same launches over it share it: those of one computation for different shapes. Whoever runs a program
takes a block out of the pool or makes one, so no two runs use a block at once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import NamedTuple

from .idle import Idle, clock, hold
from .storage import Storage, allocate_zeroed

_OWNERS = 8  # blocks that are kept for different owners of parameters


class Version(NamedTuple):
    """A version of parameters that says whose they are, so that owners of equal graphs do not prepare in turn."""

    owner: int
    number: int


class Prepared:
    """One block: `version` is that of the parameters that its content was computed from."""

    __slots__ = ("owner", "storage", "version")

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self.version: Hashable = object()
        self.owner: int | None = None

    def hold_for(self, version: Hashable) -> None:
        """Note that the content was computed from parameters of this version."""
        self.version = version
        self.owner = version.owner if isinstance(version, Version) else None


class PreparedPool:
    """The blocks that no run is using. `holder` is the program that accounts for them; None for a shared pool."""

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
        """A block that was prepared for the same owner of parameters, or for none."""
        self.last_run = clock.now
        try:
            block = self._idle.pop()
        except IndexError:
            return self._new()
        owner = version.owner if isinstance(version, Version) else None
        return block if block.owner in (owner, None) else self._exchange(block, owner)

    def put(self, block: Prepared) -> None:
        """Give a block back."""
        self._idle.append(block)

    def idle_bytes(self) -> int:
        """See `Idle`."""
        return len(self._idle) * self.nbytes

    def owners(self) -> set[int]:
        """See `Idle`."""
        return {block.owner for block in tuple(self._idle) if block.owner is not None}

    def give_back(self) -> None:
        """See `Idle`."""
        self._idle.clear()

    def _exchange(self, block: Prepared, owner: int | None) -> Prepared:
        """A block of this owner instead of another's: owners of equal graphs share a program, and each keeps what was
        prepared from its parameters."""
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
        hold(self if self._holder is None else self._holder, self.nbytes)
        return Prepared(self._zeroed(self.nbytes))
