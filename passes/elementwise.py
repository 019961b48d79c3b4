"""Finds the inputs that a graph reads elementwise: a result can overwrite such an input."""

from __future__ import annotations

from ..ir.dialects.core import Cast, Fused, Pointwise
from ..ir.graph import Graph, Node, Value


def elementwise_inputs(graph: Graph) -> frozenset[int]:
    """Positions of inputs whose element i is read only to compute element i of results.

    Conservative: excludes an input if any value computed from it is read at other positions.
    """
    moved: set[Value] = set()
    for node in reversed(graph.nodes):
        if moved.isdisjoint(node.outputs):
            kept = _elementwise_operands(node)
            moved.update(v for i, v in enumerate(node.inputs) if i not in kept)
        else:
            moved.update(node.inputs)
    return frozenset(i for i, value in enumerate(graph.inputs) if value not in moved)


def _elementwise_operands(node: Node) -> frozenset[int]:
    if isinstance(node.op, Cast | Pointwise):
        return frozenset(range(len(node.inputs)))
    return elementwise_inputs(node.op.body) if isinstance(node.op, Fused) else frozenset()
