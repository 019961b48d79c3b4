"""The programs of one computation for any shapes: compiled once, evaluated for each signature.

The first signature compiles a *dynamic program* (`codegen/dynamic.py`): a function from extents to a program, or to the
forward and the backward program of a derivative. Later signatures evaluate it, which takes a fraction of a millisecond
for a small network and a few milliseconds for a large one. A signature that does not satisfy its guards compiles
another dynamic program. All of them share machine code and prepared memory.

The program of a signature does not depend on earlier signatures: a dynamic program that accepts a signature equals the
one that would be compiled for it. Dynamic programs are stored on disk, numbered in the order of their compilation.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from ..ir.computation import Computation
from ..ir.graph import Graph
from ..ir.locks import ForkSafeLock
from ..ir.program import Program
from ..ir.types import TensorType
from ..passes.manager import Options
from .device import Device, Runnable
from .loaded_program import LoadedProgram
from .shared_programs import SharedPrograms
from .watch import watched

if TYPE_CHECKING:
    from ..codegen.dynamic_program import DynamicProgram

_REMEMBERED = 32  # dynamic programs of one computation; the oldest is dropped first

E = TypeVar("E")
E_co = TypeVar("E_co", covariant=True)
L = TypeVar("L")


Source = Callable[[], "Graph | Computation"]
"""Returns a computation, which is made when it is needed."""


def graph_of(source: Graph | Computation) -> Graph:
    """The graph of a computation for the types of its inputs."""
    return source if isinstance(source, Graph) else source.graph


class Evaluated(Protocol[E_co]):
    """What depends on the types of inputs; see `codegen/dynamic_program.py`."""

    def at(self, types: Sequence[TensorType]) -> E_co | None: ...


D = TypeVar("D", bound=Evaluated[Any])


class Compiler(Protocol[D]):
    """Compiles one computation for some types of its inputs."""

    def stored(self, number: int) -> D | None:
        """The dynamic program that an earlier process stored under this number."""
        ...

    def compile(self, source: Graph | Computation) -> D: ...

    def store(self, number: int, program: D, loaded: Sequence[LoadedProgram[Any]]) -> None:
        """Store a dynamic program. `loaded` are its programs for some types."""
        ...


class Dynamics(ABC, Generic[D, E, L]):
    """Finds, for any extents of the inputs that are not parameters, what one computation runs for them."""

    def __init__(self, compiler: Compiler[D], device: Device) -> None:
        self._compiler, self._device = compiler, device
        self._lock = ForkSafeLock()
        self._known: tuple[D, ...] = ()
        self._count = 0  # of all dynamic programs, dropped ones included
        self._load = SharedPrograms(device).load

    @abstractmethod
    def _use(self, dynamic: D, evaluated: E) -> L:
        """What callers get for what a dynamic program returns."""

    @abstractmethod
    def _programs(self, used: L) -> Sequence[LoadedProgram[Any]]:
        """The programs of what callers get."""

    def find(self, types: Sequence[TensorType], source: Source) -> L:
        """What runs for inputs of these types. `source` returns the computation on them, if it must be compiled."""
        used = self._evaluated(types)
        if used is None:
            with self._lock:
                used = self._evaluated(types) or self._stored(types) or self._compiled(types, source())
        return used

    def _evaluated(self, types: Sequence[TensorType]) -> L | None:
        for dynamic in self._known:
            evaluated = dynamic.at(types)
            if evaluated is not None:
                return self._use(dynamic, evaluated)
        return None

    def _stored(self, types: Sequence[TensorType]) -> L | None:
        """What a dynamic program that is only on disk returns."""
        while (dynamic := self._compiler.stored(self._count)) is not None:
            self._add(dynamic)
            evaluated = dynamic.at(types)
            if evaluated is not None:
                return self._use(dynamic, evaluated)
        return None

    def _compiled(self, types: Sequence[TensorType], source: Graph | Computation) -> L:
        dynamic = self._compiler.compile(source)
        evaluated = dynamic.at(types)
        assert evaluated is not None, "the extents of a compilation satisfy its guards"
        used = self._use(dynamic, evaluated)
        self._compiler.store(self._count, dynamic, self._programs(used))
        self._add(dynamic)
        return used

    def _add(self, dynamic: D) -> None:
        self._known = (*self._known[-_REMEMBERED + 1 :], dynamic)
        self._count += 1


class DynamicPrograms(Dynamics["DynamicProgram", Program, LoadedProgram[Any]]):
    """Creates the executables of one computation."""

    def __init__(self, compiler: Compiler[DynamicProgram], device: Device, options: Options) -> None:
        super().__init__(compiler, device)
        self._options = options

    def executable(self, types: Sequence[TensorType], source: Source) -> Runnable:
        """The executable for inputs of these types; for `source` see `find`."""
        return watched(self._device, lambda: graph_of(source()), self._options, self.find(types, source))

    def _use(self, dynamic: DynamicProgram, evaluated: Program) -> LoadedProgram[Any]:
        return self._load(evaluated)

    def _programs(self, used: LoadedProgram[Any]) -> Sequence[LoadedProgram[Any]]:
        return (used,)
