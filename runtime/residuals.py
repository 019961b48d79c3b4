"""Memory for residuals (values that a forward program saves for its backward program) that have halos.

Kernels read the zeros of a halo and never write them. So a block is zeroed once and holds only residuals of one type,
whose elements overwrite each other.
"""

from __future__ import annotations

from collections.abc import Callable

from ..ir.types import TensorType
from .idle import add_allocation, clock
from .storage import Storage


class ResidualStorage(Storage):
    """A block of a pool, which returns to it with the last reference."""

    __slots__ = ("_block", "_free")

    def __init__(self, block: Storage, free: list[Storage]) -> None:
        self.address, self.nbytes, self._block, self._free = block.address, block.nbytes, block, free

    def __del__(self) -> None:
        self._free.append(self._block)


class ResidualPool:
    """The blocks of one derivative, by type; `zeroed` allocates a buffer of zeros. `runtime/idle.py` bounds the blocks
    that no run holds."""

    def __init__(self, zeroed: Callable[[int], Storage]) -> None:
        self._zeroed = zeroed
        self.last_run = clock.now
        self._free: dict[TensorType, list[Storage]] = {}

    def take(self, type: TensorType) -> Storage:
        """A block for one value of a type. Its halo is zero and its elements are arbitrary."""
        self.last_run = clock.now
        free = self._free.setdefault(type, [])
        try:
            block = free.pop()
        except IndexError:
            add_allocation(self, type.nbytes)
            block = self._zeroed(type.nbytes)
        return ResidualStorage(block, free)

    def idle_bytes(self) -> int:
        """See `Idle`."""
        return sum(block.nbytes for free in self._free.values() for block in list(free))

    def owners(self) -> set[int]:
        """See `Idle`."""
        return set()

    def release(self) -> None:
        """See `Idle`."""
        for free in self._free.values():
            free.clear()
