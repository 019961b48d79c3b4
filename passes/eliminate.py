"""Removes unused nodes and repeated computations."""

from __future__ import annotations

from dataclasses import replace

from ..ir.graph import Graph, GraphBuilder, Node, Value
from ..ir.lazy_dataclass import dataclass
from ..ir.rewrite import Replacement, keep, rebuild
from ..ir.symbolic import without_guards
from .manager import Context, Pass


@dataclass(frozen=True)
class EliminateDeadCode(Pass):
    """Drop nodes without used results. Needs: nothing. Keeps: inputs, outputs, order."""

    name = "eliminate-dead-code"

    def run(self, graph: Graph, context: Context) -> Graph:
        live = set(graph.outputs)
        kept: list[Node] = []
        for node in reversed(graph.nodes):
            if live.isdisjoint(node.outputs):
                continue
            kept.append(node)
            live.update(node.inputs)
        if len(kept) == len(graph.nodes):
            return graph
        return replace(graph, nodes=tuple(reversed(kept)))


@dataclass(frozen=True)
class EliminateCommonSubexpressions(Pass):
    """Replace nodes with equal ops and the same operands by the first of them. Needs: ops compared by value. Keeps:
    inputs, outputs, nodes with effects.
    """

    name = "eliminate-common-subexpressions"

    def run(self, graph: Graph, context: Context) -> Graph:
        seen: dict[object, Node] = {}

        def rule(b: GraphBuilder, node: Node, operands: tuple[Value, ...]) -> Replacement:
            key = (node.op, operands)
            with without_guards():
                first = seen.get(key)
            if first is not None and not node.op.effects():
                return first.outputs
            if operands == node.inputs:
                kept, results = node, None
            else:
                kept = keep(b, node, operands)
                results = kept.outputs
            with without_guards():
                seen[key] = kept
            return results

        return rebuild(graph, rule)
