"""The programs of one computation for any shapes: compiled once, evaluated for each signature.

The first signature compiles a dynamic program (`codegen/dynamic.py`). Later signatures evaluate it, which takes a
fraction of a millisecond for a small network and a few milliseconds for a large one. A signature that does not satisfy
its guards compiles another dynamic program. All of them share machine code and prepared memory. The program of a
signature does not depend on earlier signatures: a dynamic program that accepts a signature equals the one that would be
compiled for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol
from weakref import WeakValueDictionary

from ..ir.graph import Graph
from ..ir.locks import ForkSafeLock
from ..ir.program import Launch, Program
from ..ir.types import TensorType
from .executable import Executable
from .prepared import PreparedPool

if TYPE_CHECKING:
    from ..codegen.dynamic import DynamicProgram

_REMEMBERED = 32  # dynamic programs of one computation; the oldest is dropped first


Load = Callable[[Program], Executable]


class Compiler(Protocol):
    """Compiles a computation for some types of its inputs."""

    def stored(self, graph: Graph, load: Load) -> Executable | None:
        """The program for exactly the types of `graph`, if an earlier process stored it."""
        ...

    def compile(self, graph: Graph) -> DynamicProgram: ...

    def store(self, graph: Graph, program: Program) -> None: ...


class DynamicPrograms:
    """Creates the executables of one computation for any extents of the inputs that are not parameters."""

    def __init__(self, compiler: Compiler) -> None:
        self._compiler = compiler
        self._lock = ForkSafeLock()
        self._programs: tuple[DynamicProgram, ...] = ()
        self._prepared: WeakValueDictionary[tuple[tuple[Launch, ...], bytes], PreparedPool] = WeakValueDictionary()

    def executable(self, types: Sequence[TensorType], graph: Callable[[], Graph]) -> Executable:
        """The executable for inputs of these types. `graph` returns the computation on them, if it must be compiled."""
        program = self._known(types)
        return self._made(types, graph()) if program is None else self._loaded(program)

    def _known(self, types: Sequence[TensorType]) -> Program | None:
        for dynamic in self._programs:
            program = dynamic.at(types)
            if program is not None:
                return program
        return None

    def _made(self, types: Sequence[TensorType], graph: Graph) -> Executable:
        stored = self._compiler.stored(graph, self._loaded)
        if stored is not None:
            return stored
        made = self._compiler.compile(graph)
        program = made.at(types)
        assert program is not None, "the extents of a compilation satisfy its guards"
        with self._lock:
            self._programs = (*self._programs[-_REMEMBERED + 1 :], made)
        self._compiler.store(graph, program)
        return self._loaded(program)

    def _loaded(self, program: Program) -> Executable:
        """A program in memory. Programs with the same preparation and constants share their prepared memory."""
        key = program.prepare, program.constants
        with self._lock:
            pool = self._prepared.get(key)
            if pool is None:
                pool = self._prepared[key] = PreparedPool(program.prepared_bytes)
        return Executable(program, pool)
