"""Merges groups of elementwise nodes of one space that read each other.

    a = x * y                        (n, m) each
    b = a + z
    c = a * w
    d = b - c

All of it becomes one region, with a result for each value that is read outside of it: a value with several readers is
not stored for them. The gradient of a recurrent cell is such a region, and so are its gates where they are saved.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.dialects.core import Broadcast, Cast, Constant, Pad, Pointwise, Reshape, Slice
from ..ir.graph import Node
from ..ir.symbolic import known_same
from ..ir.types import Shape
from .groups import MAX_RESULTS, Group, GroupGraph
from .kinds import Kind, kind_of


def join_elementwise(groups: GroupGraph) -> None:
    """Merge each elementwise group with the elementwise groups of its space that read it."""
    for node in reversed(groups.flow.producers):
        group = groups.of[node]
        space = node.outputs[0].type.shape
        if group.last is node and is_elementwise(group, space):
            absorb_readers(groups, group, space)


def absorb_readers(groups: GroupGraph, group: Group, space: Shape) -> Group:
    """Merge `group` with the elementwise groups of `space` that read its results. Returns the merged group."""
    for other in sorted(group.readers, key=lambda g: g.level):
        if other not in group.readers or not is_elementwise(other, space):
            continue
        if count_results(groups, (*group.nodes, *other.nodes)) <= MAX_RESULTS and not groups.closes_cycle(group, other):
            group = groups.merge(group, other)
    return group


def is_elementwise(group: Group, space: Shape) -> bool:
    """True if a group computes elements of row-major results of one space from elements of operands."""
    if group.kind is not Kind.POINTWISE:
        return False
    results = [v.type for n in group.nodes for v in n.outputs]
    if any(t.layout is not None or not known_same(t.shape, space) for t in results):
        return False
    return all(isinstance(n.op, Pointwise | Cast | Slice | Pad) and _reads_elements(n) for n in group.nodes)


def _reads_elements(node: Node) -> bool:
    """True if nodes without memory between a node and its operands only select elements."""
    stack = list(node.inputs)
    while stack:
        source = stack.pop().node
        if source is None or kind_of(source) is not Kind.VIRTUAL:
            continue
        if not isinstance(source.op, Broadcast | Reshape | Constant):
            return False
        stack.extend(source.inputs)
    return True


def count_results(groups: GroupGraph, nodes: Sequence[Node]) -> int:
    """The number of nodes that are read outside of `nodes`."""
    inside, flow = set(nodes), groups.flow
    return sum(n in flow.leaving or any(r not in inside for r in flow.readers[n]) for n in nodes)
