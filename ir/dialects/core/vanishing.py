"""Which values of a graph are zero because others are, and whether a node has gradients that no cotangent causes."""

from __future__ import annotations

from collections.abc import Collection

from ...graph import Graph, Value
from .primitive import Primitive


def zero_values(graph: Graph, zeros: Collection[Value] = ()) -> set[Value]:
    """The values of a graph that are zero if `zeros` are, whatever the other inputs are: 0 times infinity counts as 0,
    as in MXNet, which computes no gradient from a zero cotangent."""
    zero = set(zeros)
    for node in graph.nodes:
        if isinstance(node.op, Primitive) and node.op.vanishes(node, [v in zero for v in node.inputs]):
            zero.update(node.outputs)
    return zero


def contains_own_cotangents(graph: Graph) -> bool:
    """True if a node of a graph has gradients that no cotangent causes."""
    return any(isinstance(node.op, Primitive) and node.op.has_own_cotangents(node) for node in graph.nodes)
