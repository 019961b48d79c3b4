"""Runs a graph by interpreting core with NumPy (MXFORGE_TARGET=reference). Every other target is tested against it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import numpy as np

from ..ir.dialects.core import HostCallback, evaluate_graph
from ..ir.graph import Graph
from ..ir.target import REFERENCE
from ..ir.types import TensorType
from ..passes.manager import Context, Options, run_passes
from ..passes.pipeline import FOR_REFERENCE
from .calls_by_run import bound_by_run, direct_by_run
from .checks import verify
from .device import Address, BoundCall, DirectCall
from .tensor_memory import as_memory, elements, memory_at
from .writes import written_at


class ReferenceExecutable:
    """A graph of mx or core nodes, interpreted; implements `runtime.device.Runnable`."""

    def __init__(self, graph: Graph, options: Options | None = None) -> None:
        self._graph = run_passes(FOR_REFERENCE, graph, Context(REFERENCE, options or Options()))
        self.inputs = self._graph.input_types()
        self.state, self.random = self._graph.updates, self._graph.random
        self.outputs = self._graph.output_types()[: self._graph.num_results]
        self.own_bytes = 0

    @property
    def holders(self) -> Sequence[object]:
        return ()

    def may_overwrite(self, output: int, operand: int) -> bool:
        return True  # all inputs are copied first

    def run(self, inputs: Sequence[int], outputs: Sequence[int], parameters_version: Hashable = 0) -> None:
        """Interpret the graph on tensors at these addresses."""
        arrays = [elements(memory_at(a, t.shape, t.dtype), t.dtype) for a, t in zip(inputs, self.inputs, strict=True)]
        results = evaluate_graph(self._graph, arrays)
        end = self._graph.num_results
        start = end + len(self._graph.checks)
        replaced = [(inputs[i], self.inputs[i]) for i in self.state]
        self._write_back(inputs, arrays)
        targets = (*zip(outputs, self.outputs, strict=True), *replaced)
        for (address, type), result in zip(targets, (*results[:end], *results[start:]), strict=True):
            _write(address, type, result)
        verify(self._graph.checks, bytes(bool(flag) for flag in results[end:start]))

    def _write_back(self, inputs: Sequence[int], arrays: Sequence[np.ndarray]) -> None:
        """Write the inputs that Python functions changed."""
        for node in self._graph.nodes if self._graph.calls_python() else ():
            for i in node.op.writes if isinstance(node.op, HostCallback) else ():
                k = node.inputs[i].index
                _write(inputs[k], self.inputs[k], arrays[k])
                written_at(inputs[k])

    def direct_call(self) -> DirectCall:
        return direct_by_run(self)

    def bound_call(self, fixed: Mapping[int, Address]) -> BoundCall:
        return bound_by_run(self, fixed)


def _write(address: int, type: TensorType, array: np.ndarray) -> None:
    np.copyto(memory_at(address, type.shape, type.dtype), as_memory(array, type.dtype), casting="no")
