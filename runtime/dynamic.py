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
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

from ..ir.computation import Computation
from ..ir.graph import Graph, RandomKey
from ..ir.locks import ForkSafeLock
from ..ir.once import once
from ..ir.places import Column
from ..ir.program import Program
from ..ir.types import DType, Shape, TensorType
from ..passes.manager import Options
from .device import Device, Numbers, OpenProgram, Runnable
from .loaded_program import LoadedProgram
from .shared_programs import SharedPrograms
from .watch import watched

if TYPE_CHECKING:
    from ..codegen.dynamic_program import DynamicProgram

_REMEMBERED = 32
_REMEMBERED_BYTES = 128 << 20
"""The most dynamic programs of one computation, and of bytes of them; the oldest is dropped first, the newest stays."""

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

    def numbers(self, shapes: Sequence[Shape]) -> Numbers | None: ...

    @property
    def own_bytes(self) -> int: ...


D = TypeVar("D", bound=Evaluated[Any])
O = TypeVar("O")  # noqa: E741


class Compiler(Protocol[D]):
    """Compiles one computation for some types of its inputs."""

    def stored(self, number: int) -> D | None:
        """The dynamic program that an earlier process stored under this number."""
        ...

    def compile(self, source: Graph | Computation) -> D: ...

    def store(self, number: int, program: D, loaded: Sequence[LoadedProgram[Any]]) -> None:
        """Store a dynamic program. `loaded` are its programs for some types."""
        ...


class _Known(Generic[D, O]):
    """A dynamic program, and with numbers as operands of a run; None if it cannot be run so."""

    def __init__(self, dynamic: D, make: Callable[[D], O | None]) -> None:
        self.dynamic, self._make = dynamic, make

    @once
    def opened(self) -> O | None:
        return self._make(self.dynamic)


class Dynamics(ABC, Generic[D, E, L, O]):
    """Finds, for any extents of the inputs that are not parameters, what one computation runs for them."""

    def __init__(self, compiler: Compiler[D], device: Device) -> None:
        self._compiler, self._device = compiler, device
        self._lock = ForkSafeLock()
        self._known: tuple[_Known[D, O], ...] = ()
        self._count = 0  # of all dynamic programs, dropped ones included
        self._load = SharedPrograms(device).load

    @abstractmethod
    def _use(self, dynamic: D, evaluated: E) -> L:
        """What callers get for what a dynamic program returns."""

    @abstractmethod
    def _opened(self, dynamic: D) -> O | None:
        """A dynamic program with numbers as operands of a run; None if it cannot be run so."""

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

    def open(self, shapes: Sequence[Shape]) -> tuple[O, Numbers] | None:
        """What runs for inputs of these shapes, which may not return, and the numbers for them. None for shapes that no
        dynamic program of this process accepts, or for which a program must be loaded."""
        for known in self._known:
            numbers = known.dynamic.numbers(shapes)
            if numbers is not None:
                return None if known.opened is None else (known.opened, numbers)
        return None

    def _evaluated(self, types: Sequence[TensorType]) -> L | None:
        for known in self._known:
            evaluated = known.dynamic.at(types)
            if evaluated is not None:
                return self._use(known.dynamic, evaluated)
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
        newest_first = [_Known(dynamic, self._opened), *reversed(self._known)]
        sums = accumulate(known.dynamic.own_bytes for known in newest_first)
        kept = max(1, sum(total <= _REMEMBERED_BYTES for total in sums))
        self._known = tuple(reversed(newest_first[: min(kept, _REMEMBERED)]))
        self._count += 1


class OpenCall(NamedTuple):
    """A program for shapes that may not return. `shapes` returns the shapes of its outputs, which have these dtypes; a
    run replaces the inputs `state` and takes the random key `random`."""

    program: OpenProgram
    dtypes: tuple[DType, ...]
    shapes: Callable[[Numbers], tuple[Shape, ...]]
    state: tuple[int, ...]
    random: RandomKey | None

    @classmethod
    def of(cls, device: Device, columns: Program, built: Callable[[Numbers], Program]) -> OpenCall | None:
        """None for a program that must be loaded."""
        program = device.open(columns, built)
        if program is None or (columns.random is not None and isinstance(columns.random.draws, Column)):
            return None
        dtypes = tuple([t.dtype for t in columns.outputs])
        return cls(program, dtypes, _shapes([t.shape for t in columns.outputs]), columns.state, columns.random)


def _shapes(shapes: Sequence[Shape]) -> Callable[[Numbers], tuple[Shape, ...]]:
    """A function of numbers that returns shapes with columns."""
    texts = [[f"n[{int(n)}], " if isinstance(n, Column) else f"{n}, " for n in shape] for shape in shapes]
    listed = "".join([f"({''.join(text)}), " for text in texts])
    return eval(f"lambda n: ({listed})")  # it has only numbers


class DynamicPrograms(Dynamics["DynamicProgram", Program, LoadedProgram[Any], OpenCall]):
    """Creates the executables of one computation."""

    def __init__(self, compiler: Compiler[DynamicProgram], device: Device, options: Options) -> None:
        super().__init__(compiler, device)
        self._options = options

    def executable(self, types: Sequence[TensorType], source: Source) -> Runnable:
        """The executable for inputs of these types; for `source` see `find`."""
        return watched(self._device, lambda: graph_of(source()), self._options, self.find(types, source))

    def _use(self, dynamic: DynamicProgram, evaluated: Program) -> LoadedProgram[Any]:
        return self._load(evaluated)

    def _opened(self, dynamic: DynamicProgram) -> OpenCall | None:
        return OpenCall.of(self._device, dynamic.with_columns(), dynamic.built)

    def _programs(self, used: LoadedProgram[Any]) -> Sequence[LoadedProgram[Any]]:
        return (used,)
