"""Replaces calls by their bodies."""

from __future__ import annotations

from ..ir.dialects.core import Call, CoreBuilder
from ..ir.dialects.core.primitive import Primitive
from ..ir.graph import Graph, GraphBuilder, Node, Value
from ..ir.lazy_dataclass import dataclass
from ..ir.rewrite import Replacement, rebuild
from .manager import Context, Pass


@dataclass(frozen=True)
class InlineCalls(Pass):
    """Replace each Call by the nodes of its body, also in nested graphs. The nodes get the name and line of the call.

    A gradient that a call carries is lost, so this pass runs when no differentiation remains. Without `own_gradients`,
    calls that carry a gradient stay. Needs: core. Keeps: values.
    """

    own_gradients: bool = True
    name = "inline-calls"

    def run(self, graph: Graph, context: Context) -> Graph:
        return inline_calls(graph, self.own_gradients)


def inline_calls(graph: Graph, own_gradients: bool = True) -> Graph:
    """The graph without calls; without `own_gradients`, calls that carry a gradient stay."""
    return _Inliner(own_gradients).graph(graph)


class _Inliner:
    """Rewrites each nested graph once, so nodes that share a graph share the rewritten one."""

    def __init__(self, own_gradients: bool) -> None:
        self.own_gradients = own_gradients
        self.done: dict[Graph, Graph] = {}

    def graph(self, graph: Graph) -> Graph:
        if graph not in self.done:
            nested = any(node.op.regions() for node in graph.nodes)
            self.done[graph] = rebuild(graph, self._rule, CoreBuilder(graph.name)) if nested else graph
        return self.done[graph]

    def _rule(self, b: GraphBuilder, node: Node, operands: tuple[Value, ...]) -> Replacement:
        assert isinstance(b, CoreBuilder)
        op = node.op
        if isinstance(op, Call) and (op.gradient is None or self.own_gradients):
            return b.inline(self.graph(op.body), operands)
        regions = op.regions()
        inner = [self.graph(g) for g in regions]
        if not isinstance(op, Primitive) or all(new is old for new, old in zip(inner, regions, strict=True)):
            return None
        return b.node(op.with_regions(inner), *operands, name=node.name, location=node.location).outputs
