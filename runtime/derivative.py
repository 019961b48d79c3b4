"""Derivatives of functions: a graph of constant types as a forward and a backward program.

    Differentiable    a graph that can be run and differentiated on one device
    Derivative        its forward program, which also returns residuals, and its backward, which is differentiable again

`passes/training.py` makes the graphs; a tape (`frontend/ndarray/tape.py`) or an executor runs them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from ..ir.dialects.core.split import Split
from ..ir.graph import Graph
from ..passes.manager import Context, Options
from ..passes.training import gradient_of, lowered_for_gradients, training_graphs, with_stored_inputs
from .compile import executable_for
from .device import Device
from .function import Specialization
from .residuals import ResidualPool


class Differentiable:
    """A graph of mx or core with constant types, on a device. It is compiled when it is first run.

    Parameters of the graph keep their packed forms from run to run. `origin` is what the frontend made the graph of,
    and the number of its operands, which are the first inputs.
    """

    def __init__(
        self, graph: Graph, options: Options, device: Device, origin: tuple[object, int] | None = None
    ) -> None:
        self.graph, self.options, self.device, self.origin = graph, options, device, origin
        self._derivatives: dict[tuple[int, ...], Derivative] = {}
        self._gradients: dict[tuple[int, ...], Differentiable] = {}

    @cached_property
    def specialization(self) -> Specialization:
        """The compiled graph."""
        executable = executable_for(self.graph, self.options, self.device)
        return Specialization(executable, self.graph.name, self.graph.names(), self.device)

    def _context(self) -> Context:
        return Context(self.device.target, self.options)

    def derivative(self, wrt: Sequence[int]) -> Derivative:
        """The gradient by the inputs at the positions `wrt`, which are floats. GraphError names a node without one."""
        key = tuple(wrt)
        found = self._derivatives.get(key)
        if found is None:
            split = training_graphs(self.graph, key, self._context())
            found = self._derivatives[key] = Derivative(key, split, self.options, self.device)
        return found

    def gradient(self, wrt: Sequence[int]) -> Differentiable:
        """The function (inputs, cotangents of the float outputs) -> cotangents of the inputs `wrt`.

        It computes everything from the inputs and keeps nothing of a forward run, so it can be differentiated again.
        """
        key = tuple(wrt)
        found = self._gradients.get(key)
        if found is None:
            graph = gradient_of(lowered_for_gradients(self.graph, key, self._context()), key)
            found = self._gradients[key] = Differentiable(graph, self.options, self.device)
        return found


class Derivative:
    """The gradient of a graph by the inputs `wrt`.

    `forward` returns the outputs and then what the residuals need besides them; `backward` takes the residuals and
    then a cotangent for each float output, and returns one for each of `wrt`. The compilation of `forward` determines
    the layouts of residuals, so it is before that of `backward`. `memory` holds residuals with halos.
    """

    def __init__(self, wrt: tuple[int, ...], split: Split, options: Options, device: Device) -> None:
        self.wrt, self.residuals = wrt, split.residuals
        self.forward = Differentiable(split.forward, options, device)
        self.memory = ResidualPool()
        self._backward = split.backward

    @cached_property
    def backward(self) -> Differentiable:
        """The gradient for residuals as `forward` stores them."""
        types = self.forward.specialization.types
        stored = {i: types[s.position].layout for i, s in enumerate(self.residuals) if not s.is_input}
        layouts = {i: layout for i, layout in stored.items() if layout is not None}
        graph = with_stored_inputs(self._backward, layouts) if layouts else self._backward
        return Differentiable(graph, self.forward.options, self.forward.device)

    @cached_property
    def reads_cotangent(self) -> tuple[bool, ...]:
        """For each float output, whether the gradients depend on its cotangent: a loss ignores it."""
        graph = self._backward
        read = {v for node in graph.nodes for v in node.inputs} | set(graph.outputs)
        return tuple(v in read for v in graph.inputs[len(self.residuals) :])
