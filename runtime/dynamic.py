"""The programs of one computation for any shapes: compiled once, evaluated for each signature.

The first signature compiles a *dynamic program* (`codegen/dynamic.py`): a function from extents to a program. Later
signatures evaluate it, which takes a fraction of a millisecond for a small network and a few milliseconds for a large
one. A signature that does not satisfy its guards compiles another dynamic program. All of them share machine code and
prepared memory.

The program of a signature does not depend on earlier signatures: a dynamic program that accepts a signature equals the
one that would be compiled for it. Dynamic programs are stored on disk, numbered in the order of their compilation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakValueDictionary

from ..ir.graph import Graph
from ..ir.locks import ForkSafeLock
from ..ir.program import Program, Step
from ..ir.types import TensorType
from .device import Device, Runnable
from .loaded_program import LoadedProgram
from .prepared import PreparedPool

if TYPE_CHECKING:
    from ..codegen.dynamic_program import DynamicProgram

_REMEMBERED = 32  # dynamic programs of one computation; the oldest is dropped first


class Compiler(Protocol):
    """Compiles one computation for some types of its inputs."""

    def stored(self, number: int) -> DynamicProgram | None:
        """The dynamic program that an earlier process stored under this number."""
        ...

    def compile(self, graph: Graph) -> DynamicProgram: ...

    def watched(self, graph: Callable[[], Graph], program: Runnable) -> Runnable:
        """The executable of a graph for callers; see `watch.py`."""
        ...

    def store(self, number: int, program: DynamicProgram, loaded: LoadedProgram[Any]) -> None:
        """Store a dynamic program. `loaded` is its program for some types."""
        ...


class DynamicPrograms:
    """Creates the executables of one computation for any extents of the inputs that are not parameters."""

    def __init__(self, compiler: Compiler, device: Device) -> None:
        self._compiler, self._device = compiler, device
        self._lock = ForkSafeLock()
        self._programs: tuple[DynamicProgram, ...] = ()
        self._count = 0  # of all dynamic programs, dropped ones included
        self._prepared: WeakValueDictionary[tuple[tuple[Step, ...], bytes], PreparedPool] = WeakValueDictionary()

    def executable(self, types: Sequence[TensorType], graph: Callable[[], Graph]) -> Runnable:
        """The executable for inputs of these types. `graph` returns the computation on them, if it must be compiled."""
        program = self._known(types)
        if program is None:
            with self._lock:
                program = self._known(types) or self._stored(types) or self._made(types, graph())
        return self._compiler.watched(graph, program)

    def _known(self, types: Sequence[TensorType]) -> LoadedProgram[Any] | None:
        for dynamic in self._programs:
            program = dynamic.at(types)
            if program is not None:
                return self._loaded(program)
        return None

    def _stored(self, types: Sequence[TensorType]) -> LoadedProgram[Any] | None:
        """The executable of a dynamic program that is only on disk."""
        while (dynamic := self._compiler.stored(self._count)) is not None:
            self._add(dynamic)
            program = dynamic.at(types)
            if program is not None:
                return self._loaded(program)
        return None

    def _made(self, types: Sequence[TensorType], graph: Graph) -> LoadedProgram[Any]:
        dynamic = self._compiler.compile(graph)
        program = dynamic.at(types)
        assert program is not None, "the extents of a compilation satisfy its guards"
        loaded = self._loaded(program)
        self._compiler.store(self._count, dynamic, loaded)
        self._add(dynamic)
        return loaded

    def _add(self, dynamic: DynamicProgram) -> None:
        self._programs = (*self._programs[-_REMEMBERED + 1 :], dynamic)
        self._count += 1

    def _loaded(self, program: Program) -> LoadedProgram[Any]:
        """A program in memory. Programs with the same preparation and constants share their prepared memory."""
        key = program.prepare, program.constants
        with self._lock:
            pool = self._prepared.get(key)
            if pool is None:
                pool = self._prepared[key] = PreparedPool(program.prepared_bytes, self._device.allocate_zeroed)
        return self._device.load(program, pool)
