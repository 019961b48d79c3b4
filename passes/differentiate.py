"""Adds gradients to a graph: reverse-mode differentiation of core."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..ir.dialects.core import CoreBuilder, Scan, gradient_graph
from ..ir.dialects.core.gradient import float_positions
from ..ir.graph import Graph, GraphBuilder, GraphError, Node, Value
from ..ir.rewrite import Replacement, rebuild
from .manager import Context, Pass


@dataclass(frozen=True)
class Differentiate(Pass):
    """`differentiate` as a pass. Needs: core. Keeps: the graph's inputs and outputs; adds some."""

    wrt: tuple[int, ...]
    name = "differentiate"

    def run(self, graph: Graph, context: Context) -> Graph:
        return differentiate(graph, self.wrt)


def differentiate(graph: Graph, wrt: Sequence[int]) -> Graph:
    """A graph of core that also computes the cotangents of the inputs `wrt`, which must be floats.

    Inputs: the graph's, then one cotangent for each float output in order. Outputs: the graph's, then one cotangent for
    each of `wrt` (zeros where nothing depends on it), then what updates inputs, which has no cotangent: moving
    statistics are not differentiated. GraphError names a node without a gradient, or an input that is not a float.
    """
    _check(graph, wrt)
    saving = rebuild(graph, _save_carries, CoreBuilder(graph.name))
    plain = len(graph.outputs) - len(graph.updates)
    both = gradient_graph(saving, wrt, float_positions(graph.outputs[:plain]), forward=True)
    kept, updated, gradients = (
        both.outputs[:plain],
        both.outputs[plain : len(graph.outputs)],
        both.outputs[len(graph.outputs) :],
    )
    outputs = kept + gradients + updated
    return replace(both, name=graph.name, outputs=outputs, updates=graph.updates, random=graph.random)


def vjp_graph(graph: Graph) -> Graph:
    """The gradient alone: inputs, then one cotangent for each float output -> one cotangent for each float input."""
    return gradient_graph(graph, float_positions(graph.inputs), float_positions(graph.outputs))


def _check(graph: Graph, wrt: Sequence[int]) -> None:
    for i in wrt:
        if not 0 <= i < len(graph.inputs):
            raise GraphError(f"graph '{graph.name}' has no input {i} to differentiate by")
        value = graph.inputs[i]
        if not value.type.dtype.is_float:
            name = f"'{value.name}'" if value.name else str(i)
            raise GraphError(f"input {name} of type {value.type} has no gradient: it is not a float")


def _save_carries(b: GraphBuilder, node: Node, operands: tuple[Value, ...]) -> Replacement:
    """A loop keeps its carries, so that its gradient need not run it again."""
    if not isinstance(node.op, Scan) or node.op.saved_carries() is not None:
        return None
    made = b.node(node.op.saving_carries(), *operands, name=node.name, location=node.location)
    return made.outputs[: len(node.outputs)]
