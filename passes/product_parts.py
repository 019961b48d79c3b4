"""Fuses a matrix product with functions of equal pieces of its columns: the gates of a recurrent cell.

    z = dot(h, weights) + x                         (rows, parts * n)
    i, f, g, o = pieces of z along the columns      (rows, n) each
    cell = sigmoid(f) * cell + sigmoid(i) * tanh(g)
    state = sigmoid(o) * tanh(cell)

All of it becomes one region. Its kernel computes the same columns of every piece side by side, and never stores z.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.dialects.core import Broadcast, Cast, Constant, Dot, Pointwise, Reshape, Slice
from ..ir.graph import Node
from ..ir.target import Capabilities
from ..ir.types import DType, Shape
from .groups import MAX_RESULTS, Group, GroupGraph
from .kinds import Kind, kind_of


def join_parts(groups: GroupGraph, target: Capabilities) -> None:
    """Merge the pointwise groups that read the pieces of a product, and with them the product's group if the target
    computes its parts side by side. Of several products it is the last, which depends on the state: the products of the
    inputs are computed before."""
    for node in reversed(groups.flow.producers):
        if isinstance(node.op, Dot):
            _join(groups, node, node.op, target)


def _join(groups: GroupGraph, node: Node, op: Dot, target: Capabilities) -> None:
    before = groups.of[node]
    pieces = _pieces(groups, before.last)
    if not pieces:
        return
    own = _joined_readers(groups, pieces)
    if own is None or not _has_columns(node, op):
        return
    rows = node.outputs[0].type.size // node.outputs[0].type.shape[-1]
    parts = len({p.op for p in pieces})
    if not target.fuses_parts(parts, rows) or groups.closes_cycle(before, own):
        return
    space = pieces[0].outputs[0].type.shape
    if _results(groups, before.nodes) == 1 and _results(groups, own.nodes) <= MAX_RESULTS:
        _absorb_readers(groups, groups.merge(before, own), space)


def _pieces(groups: GroupGraph, last: Node) -> Sequence[Node]:
    """The readers of a node if all of them read pieces of its columns of one width, which do not overlap; else none."""
    found = groups.flow.readers[last]
    if last in groups.flow.leaving or not all(isinstance(n.op, Slice) and n.inputs[0].node is last for n in found):
        return ()
    whole = last.outputs[0].type.shape
    shapes = {n.outputs[0].type.shape for n in found}
    slices = [n.op for n in found if isinstance(n.op, Slice)]
    starts = {s.start[-1] for s in slices}
    if len(shapes) != 1 or len(starts) < 2:
        return ()
    (shape,) = shapes
    width = shape[-1]
    is_divided = all(s.start[-1] % width == 0 and s.step[-1] == 1 for s in slices)
    return found if shape[:-1] == whole[:-1] and width > 1 and is_divided else ()


def _joined_readers(groups: GroupGraph, pieces: Sequence[Node]) -> Group | None:
    """The group of all `pieces` and of what reads them, after merging; None if there is no such group."""
    space = pieces[0].outputs[0].type.shape
    found = sorted({groups.of[n] for n in pieces}, key=lambda g: g.level)
    if not all(_is_elementwise(g, space) for g in found):
        return None
    own = found[0]
    for other in found[1:]:
        if other not in own.readers or groups.closes_cycle(own, other):
            return None
        if _results(groups, (*own.nodes, *other.nodes)) > MAX_RESULTS:
            return None
        own = groups.merge(own, other)
    return own


def _is_elementwise(group: Group, space: Shape) -> bool:
    """True if a group computes elements of row-major results of one space from elements of operands."""
    if group.kind is not Kind.POINTWISE:
        return False
    results = [v.type for n in group.nodes for v in n.outputs]
    if any(t.shape != space or t.layout is not None for t in results):
        return False
    return all(isinstance(n.op, Pointwise | Cast | Slice) and _reads_elements(n) for n in group.nodes)


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


def _has_columns(node: Node, op: Dot) -> bool:
    """True for a product without batches in float32 or float64, whose last axis alone is that of the right operand."""
    right = node.inputs[1].type
    free = right.rank - len(op.rhs_contract) - len(op.rhs_batch)
    return not op.lhs_batch and free == 1 and node.outputs[0].type.dtype in (DType.F32, DType.F64)


def _results(groups: GroupGraph, nodes: Sequence[Node]) -> int:
    """The number of nodes that are read outside of `nodes`."""
    inside, flow = set(nodes), groups.flow
    return sum(n in flow.leaving or any(r not in inside for r in flow.readers[n]) for n in nodes)


def _absorb_readers(groups: GroupGraph, group: Group, space: Shape) -> None:
    """Merge elementwise groups that read the region's results, such as those that keep the state of ended sequences."""
    for other in sorted(group.readers, key=lambda g: g.level):
        if other not in group.readers or not _is_elementwise(other, space):
            continue
        if _results(groups, (*group.nodes, *other.nodes)) > MAX_RESULTS or groups.closes_cycle(group, other):
            continue
        group = groups.merge(group, other)
