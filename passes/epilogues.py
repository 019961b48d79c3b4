"""Fuses a matrix product with a function that reads it several times: z * sigmoid(z), z * (1 + erf(z))."""

from __future__ import annotations

from ..ir.dialects.core import Cast, Dot, Pointwise
from ..ir.graph import Node
from .elementwise_groups import count_results, is_elementwise
from .groups import GroupGraph


def join_epilogues(groups: GroupGraph) -> None:
    """Merge the group of each product with the elementwise group that alone reads it, if that has one result."""
    for node in groups.flow.producers:
        if isinstance(node.op, Dot):
            _join(groups, node)


def _join(groups: GroupGraph, node: Node) -> None:
    before = groups.of[node]
    last = before.last
    readers = {groups.of[n] for n in groups.flow.readers[last]}
    if len(readers) != 1 or last in groups.flow.leaving or count_results(groups, before.nodes) != 1:
        return
    (own,) = readers
    if not is_elementwise(own, last.outputs[0].type.shape) or count_results(groups, own.nodes) != 1:
        return
    if all(isinstance(n.op, Pointwise | Cast) for n in own.nodes) and not groups.closes_cycle(before, own):
        groups.merge(before, own)
