"""The derivatives of one computation for any shapes: differentiated, split and compiled once, evaluated for each
signature; see `dynamic.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from ..codegen.target import Target
from ..ir.caches import Cache
from ..ir.code_store import CodeStore
from ..ir.computation import Computation
from ..ir.dialects.core.split import Source
from ..ir.graph import Graph
from ..ir.program import Program
from ..ir.settings import settings
from ..ir.types import Shape, TensorType
from ..passes.manager import Options
from .compile import DynamicCompiler, dynamic_target, family_of
from .derivative import Compiled, Derivative, DerivativeKey, Differentiable, Traits
from .device import Device, Numbers
from .dynamic import Dynamics, OpenCall
from .dynamic import Source as DynamicSource
from .function import Specialization
from .loaded_program import LoadedProgram

if TYPE_CHECKING:
    from ..codegen.dynamic_program import DynamicPair

_Pair = tuple[Program, Program]


class DynamicDerivative(NamedTuple):
    """A forward and a backward program for any extents that satisfy their guards, and what is the same for all: see
    `Derivative`. `layers` are the names of the nodes of each program: each begins with that of a node of the graph, by
    its number, or with none (-1)."""

    pair: DynamicPair
    wrt: tuple[int, ...]
    residuals: tuple[Source, ...]
    rows: tuple[int, ...]
    traits: Traits
    layers: tuple[tuple[tuple[int, str], ...], tuple[tuple[int, str], ...]]

    def at(self, types: Sequence[TensorType]) -> _Pair | None:
        """The programs for inputs of these types; None if they do not satisfy the guards."""
        return self.pair.at(types)

    def numbers(self, shapes: Sequence[Shape]) -> Numbers | None:
        """The numbers of the programs for inputs of these shapes; None if they do not satisfy the guards."""
        return self.pair.numbers(shapes)

    @property
    def own_bytes(self) -> int:
        """An estimate of its memory."""
        return self.pair.own_bytes


class OpenDerivative(NamedTuple):
    """A derivative for shapes that may not return. Both programs take the same numbers."""

    dynamic: DynamicDerivative
    forward: OpenCall
    backward: OpenCall


class DynamicDerivatives(Dynamics[DynamicDerivative, _Pair, "_Loaded", OpenDerivative]):
    """Creates the derivatives of one computation by the same inputs."""

    def derivative(
        self, types: Sequence[TensorType], source: DynamicSource, name: str, names: Sequence[str]
    ) -> Derivative:
        """The derivative for inputs of these types, for a graph of this name with nodes of these names; for `source`
        see `find`."""
        (dynamic, forward, backward) = self.find(types, source)
        first, last = [tuple([rest if i < 0 else names[i] + rest for i, rest in layers]) for layers in dynamic.layers]
        device = self._device
        return Derivative(
            dynamic.wrt,
            dynamic.residuals,
            dynamic.rows,
            dynamic.traits,
            Compiled(lambda: Specialization(forward, name, first, device), device),
            Compiled(lambda: Specialization(backward, f"{name}_backward", last, device), device),
            is_dynamic=True,
        )

    def _use(self, dynamic: DynamicDerivative, evaluated: _Pair) -> _Loaded:
        forward, backward = evaluated
        return _Loaded(dynamic, self._load(forward), self._load(backward))

    def _opened(self, dynamic: DynamicDerivative) -> OpenDerivative | None:
        if dynamic.rows:
            return None
        first, last = dynamic.pair.with_columns()
        forward = OpenCall.of(self._device, first, lambda numbers: dynamic.pair.built(numbers)[0])
        backward = OpenCall.of(self._device, last, lambda numbers: dynamic.pair.built(numbers)[1])
        return None if forward is None or backward is None else OpenDerivative(dynamic, forward, backward)

    def _programs(self, used: _Loaded) -> Sequence[LoadedProgram[Any]]:
        return used.forward, used.backward


class _Loaded(NamedTuple):
    dynamic: DynamicDerivative
    forward: LoadedProgram[Any]
    backward: LoadedProgram[Any]


class FamilyDifferentiable(Differentiable):
    """A signature of a family. `derivative` returns its derivative by a key, None for one that is compiled for its
    shapes, of which `graph` builds the graph."""

    def __init__(
        self,
        derivative: Callable[[DerivativeKey], Derivative | None],
        graph: Callable[[], Graph],
        options: Options,
        device: Device,
        origin: tuple[object, int],
    ) -> None:
        super().__init__(graph, options, device, origin)
        self._dynamic = derivative

    def _derived(self, key: DerivativeKey) -> Derivative:
        dynamic = self._dynamic(key)
        return super()._derived(key) if dynamic is None else dynamic


_families: Cache[tuple[object, ...], DynamicDerivatives] = Cache("dynamic derivatives", 256)


def dynamic_derivatives(
    source: Graph | Computation, key: DerivativeKey, options: Options, device: Device
) -> DynamicDerivatives:
    """The dynamic derivatives of a computation that calls no Python functions, on a device that has dynamic programs.
    Those that differ only in the extents of inputs share them; see `dynamic_programs`."""
    family = family_of(source)

    def make() -> DynamicDerivatives:
        target = dynamic_target(device)
        compiler = DynamicCompiler(partial(_compile, key), options, device, target, "derivative", family, key)
        return DynamicDerivatives(compiler, device)

    return _families.get((device.name, settings().cpu, family, key, options), make)


def _compile(
    key: DerivativeKey, source: Graph | Computation, target: Target, options: Options, kernels: CodeStore
) -> DynamicDerivative:
    from ..codegen.dynamic import compile_dynamic_derivative

    wrt, rows = key
    pair, split = compile_dynamic_derivative(source, wrt, rows, target, options, kernels)
    names = source.names() if isinstance(source, Graph) else source.names
    numbers = {name: i for i, name in enumerate(names)}
    first, last = [tuple([_named(n, numbers) for n in part.names()]) for part in (split.forward, split.backward)]
    return DynamicDerivative(pair, wrt, split.residuals, split.rows, Traits.of(split), (first, last))


def _named(name: str, numbers: Mapping[str, int]) -> tuple[int, str]:
    """A name of a node as the number of the node of the graph that it begins with, and the rest; -1 without one."""
    for end in range(len(name), 0, -1):
        number = numbers.get(name[:end])
        if number is not None:
            return number, name[end:]
    return -1, name
