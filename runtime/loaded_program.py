"""The base class of programs in memory, on the host and on other devices.

An *instance* is the private memory of one run at a time. A run takes an idle instance or creates one. So threads never
share an instance, a program needs no lock, and a Python function that a program calls can run the same program.
Prepared memory is taken out of a pool in the same way (`prepared.py`). The class also decides which operands a result
can overwrite.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Generic, TypeVar

from ..ir.program import Program, Space, places_of
from .calls_by_run import bound_by_run, direct_by_run
from .device import Address, BoundCall, DirectCall
from .idle import add_allocation, clock
from .prepared import PreparedPool
from .storage import Storage

_I = TypeVar("_I")


class LoadedProgram(ABC, Generic[_I]):
    """A program in memory. `runtime/idle.py` bounds the memory of the idle instances of all programs. Its kernels take
    operands at multiples of `alignment` bytes."""

    alignment = 1

    def __init__(self, program: Program, prepared: PreparedPool | None, zeroed: Callable[[int], Storage]) -> None:
        """`prepared` is the pool that programs with the same `prepare` launches and constants share, None for a private
        pool; `zeroed` allocates a buffer of zeros."""
        self.program = program
        self.inputs = program.inputs
        self.outputs = program.results
        self.state = program.state
        self.random = program.random
        self.own_bytes = _own_bytes(program)
        self.instance_bytes = program.arena_bytes
        self.last_run = clock.now
        self._order: tuple[dict[int, int], dict[int, int]] | None = None
        self._idle: list[_I] = []
        self._shares = prepared is not None
        self._prepared = prepared or PreparedPool(program.prepared_bytes, zeroed, self)

    @property
    def holders(self) -> Sequence[object]:
        """See `Runnable`."""
        return (self, self._prepared) if self._shares else (self,)

    @abstractmethod
    def _make_instance(self) -> _I:
        """Create an instance with a zeroed arena."""

    @abstractmethod
    def symbols(self) -> list[tuple[bytes, tuple[str, ...]]]:
        """The objects of the program and the symbols that each defines."""

    def may_overwrite(self, output: int, operand: int) -> bool:
        """See `Runnable`. True if launches read the input element by element, and none after the launch that first
        writes the output."""
        program = self.program
        touched = {(p.space, p.index) for copy in program.copies for p in places_of(copy)}
        copied = (Space.OUTPUT, output) in touched or (Space.INPUT, operand) in touched
        if program.prepare or copied or operand not in program.elementwise:
            return False
        if self._order is None:
            self._order = self._first_and_last()
        written, read = self._order
        return read.get(operand, -1) <= written.get(output, len(program.steps))

    def _first_and_last(self) -> tuple[dict[int, int], dict[int, int]]:
        """The first step that takes each output, and the last that takes each input."""
        written: dict[int, int] = {}
        read: dict[int, int] = {}
        for number, step in enumerate(self.program.steps):
            for place in places_of(step):
                if place.space is Space.OUTPUT:
                    written.setdefault(place.index, number)
                elif place.space is Space.INPUT:
                    read[place.index] = number
        return written, read

    # -- fast paths of `run`

    @abstractmethod
    def run(self, inputs: Sequence[Address], outputs: Sequence[Address], parameters_version: Hashable = 0) -> None:
        """See `Runnable`."""

    def direct_call(self) -> DirectCall:
        """See `Runnable`."""
        return direct_by_run(self)

    def bound_call(self, fixed: Mapping[int, Address]) -> BoundCall:
        """See `Runnable`."""
        return bound_by_run(self, fixed)

    # -- instances

    def idle_bytes(self) -> int:
        """See `Idle`."""
        own = 0 if self._shares else self._prepared.idle_bytes()
        return len(self._idle) * self.instance_bytes + own

    def owners(self) -> set[int]:
        """See `Idle`."""
        return set() if self._shares else self._prepared.owners()

    def release(self) -> None:
        """See `Idle`."""
        self._idle.clear()
        if not self._shares:
            self._prepared.release()

    def _take(self) -> _I:
        self.last_run = clock.now
        try:
            return self._idle.pop()
        except IndexError:
            return self._new_instance()

    def _new_instance(self) -> _I:
        add_allocation(self, self.instance_bytes)
        return self._make_instance()


def _own_bytes(program: Program) -> int:
    """An estimate: one or two Python objects for each number of a launch, and the code both as bytes and as pages."""
    steps = len(program.steps) + len(program.prepare)
    return 16_384 + 1024 * steps + 2 * sum(map(len, program.code)) + len(program.constants)
