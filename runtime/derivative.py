"""Derivatives of functions: a graph of constant types as a forward and a backward program.

    Differentiable    a graph that can be run and differentiated on one device
    Derivative        its forward program, which also returns residuals, and its backward, which is differentiable again

`passes/training.py` makes the graphs; a tape (`frontend/ndarray/tape.py`) or an executor runs them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..ir.collection import collection_paused
from ..ir.dialects.core.split import Source, Split
from ..ir.dialects.core.vanishing import zero_values
from ..ir.graph import Graph, Value
from ..ir.locks import ForkSafeLock
from ..ir.once import once
from ..passes.manager import Context, Options
from ..passes.training import backward_graph, derivative_options, gradient_of, lowered_for_gradients, training_graphs
from .compile import (
    StoredProgram,
    capabilities,
    executable_for,
    get_record,
    hash_of,
    load_stored,
    put_record,
    record_key,
    stored_as,
    stores_programs,
)
from .device import Device
from .function import Specialization
from .progress import progress
from .residuals import ResidualPool
from .watch import watch_split

DerivativeKey = tuple[tuple[int, ...], tuple[int, ...]]
"""What a derivative is by: positions of inputs, and the positions among these of gradients that can be row-sparse."""


class Differentiable:
    """A graph of mx or core with constant types, on a device, or a function that builds it when it is needed. It is
    compiled when it is first run.

    Parameters of the graph keep their packed forms from run to run. `origin` is what the frontend made the graph of,
    and the number of its operands, which are the first inputs.
    """

    def __init__(
        self,
        graph: Graph | Callable[[], Graph],
        options: Options,
        device: Device,
        origin: tuple[object, int] | None = None,
    ) -> None:
        self._graph, self.options, self.device, self.origin = graph, options, device, origin
        self._derivatives: dict[DerivativeKey, Derivative] = {}
        self._gradients: dict[tuple[int, ...], Differentiable] = {}
        self._lock = ForkSafeLock()

    @once
    def graph(self) -> Graph:
        """The computation."""
        return self._graph if isinstance(self._graph, Graph) else self._graph()

    @once
    def specialization(self) -> Specialization:
        """The compiled graph."""
        executable = executable_for(self.graph, self.options, self.device)
        return Specialization(executable, self.graph.name, self.graph.names(), self.device)

    def read_operands(self) -> frozenset[int]:
        """The positions of the operands that a node of the graph reads, or that are results."""
        values = {v for node in self.graph.nodes for v in node.inputs} | set(self.graph.outputs)
        return frozenset(i for i, v in enumerate(self.graph.inputs) if v in values)

    def _context(self) -> Context:
        return Context(capabilities(self.device), self.options)

    def derivative(self, wrt: Sequence[int], rows: Sequence[int] = ()) -> Derivative:
        """The gradient by the inputs at the positions `wrt`. GraphError names a node without one.
        `rows` are positions in `wrt` of gradients that are row-sparse if they are sums of rows.
        """
        key = tuple(wrt), tuple(rows)
        derivative = self._derivatives.get(key)
        if derivative is None:
            with self._lock:
                derivative = self._derivatives.get(key)
                if derivative is None:
                    derivative = self._derivatives[key] = self._derived(key)
        return derivative

    def _derived(self, key: DerivativeKey) -> Derivative:
        """The derivative, which is on disk or made here."""
        record = self._record(key)
        stored = None if record is None else _stored_derivative(record, key[0], self.device)
        if stored is not None:
            return stored
        with collection_paused(), progress(self.graph.name):
            split = training_graphs(self.graph, key[0], self._context(), key[1])
        watch_split(self.graph, *key, self.options, split)
        return _derivative(key[0], split, self.options, self.device, record)

    def _record(self, key: DerivativeKey) -> str | None:
        """The name on disk of a derivative; None if its programs are not stored."""
        graph = self.graph
        if graph.calls_python() or not stores_programs(self.device):
            return None
        return record_key(_STORED, self.options, self.device, hash_of(graph), graph.names(), key)

    def gradient(self, wrt: Sequence[int]) -> Differentiable:
        """The function (inputs, cotangents of the outputs that can have one) -> cotangents of the inputs `wrt`.

        It computes everything from the inputs and keeps nothing of a forward run, so it can be differentiated again.
        """
        key = tuple(wrt)
        with self._lock:
            gradient = self._gradients.get(key)
            if gradient is None:
                graph = gradient_of(lowered_for_gradients(self.graph, key, self._context()), key)
                gradient = self._gradients[key] = Differentiable(graph, self.options, self.device)
        return gradient


class Compiled:
    """A function that is compiled, or read from disk, when it is first run."""

    def __init__(self, make: Callable[[], Specialization], device: Device) -> None:
        self._make, self.device = make, device

    @once
    def specialization(self) -> Specialization:
        """The compiled function."""
        return self._make()


class Traits(NamedTuple):
    """What is known of gradients from the graph of their backward program.

    `reads_cotangent`, for each output that can have a cotangent: whether the gradients depend on it; a loss ignores it.
    `zero`, for each gradient: True if it is zero for any cotangents. `has_own`: True if gradients can differ from zero
    though all cotangents are zero, or if the program replaces a state.
    """

    reads_cotangent: tuple[bool, ...]
    zero: tuple[bool, ...]
    has_own: bool

    def runs(self, has_cotangent: bool) -> bool:
        """Whether a backward pass runs the backward program: its gradients can differ from zero, or it has effects."""
        return self.has_own or (has_cotangent and not all(self.zero))

    @classmethod
    def of(cls, split: Split) -> Traits:
        backward = split.backward
        cotangents = backward.inputs[len(split.residuals) :]
        gradients = backward.outputs[: len(backward.outputs) - len(backward.updates)]
        read = {v for node in backward.nodes for v in node.inputs} | set(backward.outputs)
        has_own = bool(backward.updates) or not zero_values(backward, cotangents).issuperset(gradients)
        always = set[Value]() if split.rows else zero_values(backward)
        zero = tuple(g in always for g in gradients[: len(gradients) - len(split.rows)])
        return cls(tuple(v in read for v in cotangents), zero, has_own)


class Derivative:
    """The gradient of a graph by the inputs `wrt`.

    `forward` returns the outputs and then what the residuals need besides them; `backward` takes the residuals and
    then a cotangent for each output that can have one, and returns one for each of `wrt`: two for those at the
    positions `rows`, numbers of rows and these rows, which are added up by number. `traits` are what is known of the
    gradients without computing them. `memory` holds residuals with halos. `calls_python` is True if the programs call
    functions in Python, `is_dynamic` if a dynamic program returned them.
    """

    def __init__(
        self,
        wrt: tuple[int, ...],
        residuals: tuple[Source, ...],
        rows: tuple[int, ...],
        traits: Traits,
        forward: Compiled,
        backward: Compiled,
        calls_python: bool = False,
        is_dynamic: bool = False,
    ) -> None:
        self.is_dynamic = is_dynamic
        self.wrt, self.residuals, self.rows, self.traits = wrt, residuals, rows, traits
        self.forward, self.backward, self.calls_python = forward, backward, calls_python
        self.memory = ResidualPool(forward.device.allocate_zeroed)

    def runs(self, has_cotangent: bool) -> bool:
        """See `Traits`."""
        return self.traits.runs(has_cotangent)


def _derivative(wrt: tuple[int, ...], split: Split, options: Options, device: Device, record: str | None) -> Derivative:
    """The derivative with these graphs. The forward program determines the layouts of residuals, so it is compiled
    before the backward program. What both are is then stored under `record`."""
    options, last = derivative_options(split, options)
    traits = Traits.of(split)
    first = Compiled(lambda: _specialised(split.forward, options, device), device)

    def compile_backward() -> Specialization:
        graph = backward_graph(split, first.specialization.types)
        specialization = _specialised(graph, last, device)
        programs = [stored_as(split.forward, options, device), stored_as(graph, last, device)]
        if record is not None:
            put_record(record, _to_bytes(split, traits, programs))
        return specialization

    second, calls_python = Compiled(compile_backward, device), split.forward.calls_python()
    return Derivative(wrt, split.residuals, split.rows, traits, first, second, calls_python)


def _specialised(graph: Graph, options: Options, device: Device) -> Specialization:
    return Specialization(executable_for(graph, options, device), graph.name, graph.names(), device)


# -- derivatives on disk: a warm start differentiates nothing

_STORED = "derivative 5"
"""The kind of what is stored; the number changes with the format."""


def _to_bytes(split: Split, traits: Traits, programs: Sequence[StoredProgram | None]) -> bytes:
    sources = [[s.position, s.is_input] for s in split.residuals]
    return json.dumps([sources, list(split.rows), traits, programs]).encode()


def _stored_derivative(record: str, wrt: tuple[int, ...], device: Device) -> Derivative | None:
    """The derivative whose programs are all on disk; None if they are not."""
    data = get_record(record)
    if data is None:
        return None
    sources, rows, (reads, zero, has_own), programs = json.loads(data)
    forward, backward = (_loaded(p, device) for p in programs)
    if forward is None or backward is None:
        return None
    residuals = tuple(Source(position, is_input) for position, is_input in sources)
    traits = Traits(tuple(reads), tuple(zero), has_own)
    return Derivative(wrt, residuals, tuple(rows), traits, forward, backward)


def _loaded(program: Any, device: Device) -> Compiled | None:
    if program is None:
        return None
    key, name, names = program
    stored = StoredProgram(key, name, tuple(names))
    executable = load_stored(stored, device)
    if executable is None:
        return None
    return Compiled(lambda: Specialization(executable, name, stored.names, device), device)
