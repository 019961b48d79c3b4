"""The memory of a program's temporary values: scratch memory, which programs share, and what keeps its zeros.

A run needs scratch memory (`Program.scratch_bytes`) only while it lasts, so the programs of a process take it out of
one pool: many programs need the memory of the largest one.
"""

from __future__ import annotations

from ...ir.program import Program
from ..idle import add_allocation, clock
from ..storage import Storage
from .allocator import allocate, allocate_zeroed


class Arena:
    """Memory for the arena of one program: `scratch` for its first `scratch_bytes`, and memory of its own for the rest.
    Without `scratch`, the runs of an instance provide it. Offsets in the rest count from `own_address`."""

    __slots__ = ("_own", "own_address", "scratch")

    def __init__(self, program: Program, scratch: Storage | None = None) -> None:
        self.scratch = scratch
        self._own = allocate_zeroed(program.arena_bytes - program.scratch_bytes)
        self.own_address = self._own.address - program.scratch_bytes


class ScratchPool:
    """The blocks of scratch memory that no run uses: about as many as threads run programs."""

    def __init__(self) -> None:
        self.last_run = clock.now
        self._idle: list[Storage] = []

    def take(self, nbytes: int) -> Storage:
        """A block of at least `nbytes`, of arbitrary content."""
        self.last_run = clock.now
        try:
            block = self._idle.pop()
        except IndexError:
            return self._new(nbytes)
        return block if block.nbytes >= nbytes else self._new(nbytes)

    def put(self, block: Storage) -> None:
        """Return a block to the pool."""
        self._idle.append(block)

    def idle_bytes(self) -> int:
        """See `Idle`."""
        return sum([block.nbytes for block in tuple(self._idle)])

    def owners(self) -> set[int]:
        """See `Idle`."""
        return set()

    def release(self) -> None:
        """See `Idle`."""
        self._idle.clear()

    def _new(self, nbytes: int) -> Storage:
        add_allocation(self, nbytes)
        return allocate(nbytes)


scratch_pool = ScratchPool()
