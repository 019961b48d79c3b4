"""Lowers every mx operator of a graph to core."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.dialects.core.gradient import active_values, extend_active
from ..ir.dialects.mx.builder import MxBuilder
from ..ir.dialects.mx.operator import Operator
from ..ir.graph import Graph, GraphBuilder, GraphError, Node, Value
from ..ir.lazy_dataclass import dataclass
from ..ir.rewrite import Replacement, rebuild
from .manager import Context, Pass


@dataclass(frozen=True)
class Decompose(Pass):
    """Replace each mx node by the core nodes of its declaration; new nodes without a name get its name and location.

    With `own_gradients`, which differentiation requires, operators whose gradient is not their derivative become calls
    that carry it, and operators whose cotangents reach the inputs `wrt` (all operators if it is None) update their
    moving statistics. Needs: nothing. Keeps: the graph's inputs and their order. If operators draw random numbers, one
    input for the key is appended, and `Graph.random` refers to it.
    """

    own_gradients: bool = False
    wrt: tuple[int, ...] | None = None
    name = "decompose"

    def run(self, graph: Graph, context: Context) -> Graph:
        options = context.options
        builder = MxBuilder(
            graph.name, training=options.training, own_gradients=self.own_gradients, verifies=options.verifies
        )
        rule = _decompose if self.wrt is None else _Marking(graph, self.wrt)
        return rebuild(graph, rule, builder)


class _Marking:
    """`_decompose` for a graph that is differentiated: marks the operators that are part of the gradient."""

    def __init__(self, graph: Graph, wrt: Sequence[int]) -> None:
        self.active = active_values((), (graph.inputs[i] for i in wrt))
        self.nodes = 0
        """How many of the builder's nodes `active` was made of."""

    def __call__(self, b: GraphBuilder, node: Node, operands: tuple[Value, ...]) -> Replacement:
        assert isinstance(b, MxBuilder)
        extend_active(self.active, b.nodes[self.nodes :])
        self.nodes = len(b.nodes)
        b.in_gradient = not self.active.isdisjoint(operands)
        return _decompose(b, node, operands)


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
    for added in b.nodes[first:]:
        added.name = added.name or node.name
    return results[: len(node.outputs)]
