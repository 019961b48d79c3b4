"""What programs in memory share, on the host and on other devices: their instances, and what may be overwritten.

An instance is the memory of its own that one run at a time uses. Whoever runs a program takes an idle instance or makes
one, so threads never share an instance and need no lock, and a program may run inside of itself. What is prepared from
parameters is taken out of a pool in the same way (`prepared.py`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Generic, TypeVar

from ..ir.program import Place, Program, Space
from .idle import clock, hold
from .prepared import PreparedPool
from .storage import Storage

_I = TypeVar("_I")


class LoadedProgram(ABC, Generic[_I]):
    """A program in memory. `runtime/idle.py` bounds what the idle instances of all of them hold."""

    def __init__(self, program: Program, prepared: PreparedPool | None, zeroed: Callable[[int], Storage]) -> None:
        """`prepared` is the memory that programs with the same `prepare` launches and constants share; `zeroed`
        allocates a buffer of zeros."""
        self.program = program
        self.inputs = program.inputs
        self.outputs = program.outputs
        self.state = program.state
        self.random = program.random
        self.own_bytes = _own_bytes(program)
        self.last_run = clock.now
        self._order: tuple[dict[int, int], dict[int, int]] | None = None
        self._idle: list[_I] = []
        self._shares = prepared is not None
        self._prepared = prepared or PreparedPool(program.prepared_bytes, self, zeroed)

    @abstractmethod
    def _make_instance(self) -> _I:
        """A new instance, its arena zeroed."""

    def may_overwrite(self, output: int, operand: int) -> bool:
        """See `Runnable`: launches read the input element by element, none after the launch that first writes the
        output."""
        program = self.program
        touched = {(p.space, p.index) for copy in program.copies for p in (copy.target, copy.source)}
        copied = (Space.OUTPUT, output) in touched or (Space.INPUT, operand) in touched
        if program.prepare or copied or operand not in program.elementwise:
            return False
        if self._order is None:
            self._order = self._first_and_last()
        written, read = self._order
        return read.get(operand, -1) <= written.get(output, len(program.launches))

    def _first_and_last(self) -> tuple[dict[int, int], dict[int, int]]:
        """The first launch that takes each output, and the last that takes each input."""
        written: dict[int, int] = {}
        read: dict[int, int] = {}
        for number, launch in enumerate(self.program.launches):
            for place in launch.arguments:
                if isinstance(place, Place) and place.space is Space.OUTPUT:
                    written.setdefault(place.index, number)
                elif isinstance(place, Place) and place.space is Space.INPUT:
                    read[place.index] = number
        return written, read

    # -- instances

    def idle_bytes(self) -> int:
        """See `Idle`."""
        own = 0 if self._shares else self._prepared.idle_bytes()
        return len(self._idle) * self.program.arena_bytes + own

    def owners(self) -> set[int]:
        """See `Idle`."""
        return set() if self._shares else self._prepared.owners()

    def give_back(self) -> None:
        """See `Idle`."""
        self._idle.clear()
        if not self._shares:
            self._prepared.give_back()

    def _take(self) -> _I:
        self.last_run = clock.now
        try:
            return self._idle.pop()
        except IndexError:
            return self._new_instance()

    def _new_instance(self) -> _I:
        hold(self, self.program.arena_bytes)
        return self._make_instance()


def _own_bytes(program: Program) -> int:
    """An estimate: a Python object or two for each number, and code as bytes and as pages."""
    launches = len(program.launches) + len(program.prepare)
    return 16_384 + 1024 * launches + 2 * sum(map(len, program.code)) + len(program.constants)
