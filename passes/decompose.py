"""Lowers every mx operator of a graph to core."""

from __future__ import annotations

from dataclasses import dataclass

from ..ir.dialects.mx.builder import MxBuilder
from ..ir.dialects.mx.operator import Operator
from ..ir.graph import Graph, GraphBuilder, GraphError, Node, Value
from ..ir.rewrite import Replacement, rebuild
from .manager import Context, Pass


@dataclass(frozen=True)
class Decompose(Pass):
    """Replace each mx node by the core nodes of its declaration; new nodes without a name get its name and location.

    With `own_gradients`, which differentiation requires, operators whose gradient is not their derivative become calls
    that carry it. Needs: nothing. Keeps: the graph's inputs and their order. If operators draw random numbers, one
    input for the key is appended, and `Graph.random` refers to it.
    """

    own_gradients: bool = False
    name = "decompose"

    def run(self, graph: Graph, context: Context) -> Graph:
        builder = MxBuilder(graph.name, training=context.options.training, own_gradients=self.own_gradients)
        return rebuild(graph, _decompose, builder)


def _decompose(b: GraphBuilder, node: Node, operands: tuple[Value, ...]) -> Replacement:
    if not isinstance(node.op, Operator):
        return None
    assert isinstance(b, MxBuilder)
    first = len(b.nodes)
    b.begin_operator()
    try:
        results = node.op.to_core(b, *operands)
    except (TypeError, ValueError, GraphError) as error:
        raise GraphError(f"{node.describe()}: {error}") from error
    for made in b.nodes[first:]:
        made.name = made.name or node.name
    return results[: len(node.outputs)]
