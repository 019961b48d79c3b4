"""Fuses a matrix product with functions of equal pieces of its columns: the gates of a recurrent cell.

    z = dot(h, weights) + x                         (rows, parts * n)
    i, f, g, o = pieces of z along the columns      (rows, n) each
    cell = sigmoid(f) * cell + sigmoid(i) * tanh(g)
    state = sigmoid(o) * tanh(cell)

All of it becomes one region. Its kernel computes the same columns of every piece side by side, and never stores z.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.dialects.core import Dot, Slice
from ..ir.graph import Node
from ..ir.target import Capabilities
from ..ir.types import DType
from .elementwise_groups import absorb_readers, count_results, is_elementwise
from .groups import MAX_RESULTS, GroupGraph


def join_parts(groups: GroupGraph, target: Capabilities) -> None:
    """Merge the group of a product with the group that reads its pieces, which `join_elementwise` has made, if the
    target computes the parts side by side. Of several products it is the last, which depends on the state: the products
    of the inputs are computed before."""
    for node in reversed(groups.flow.producers):
        if isinstance(node.op, Dot):
            _join(groups, node, node.op, target)


def _join(groups: GroupGraph, node: Node, op: Dot, target: Capabilities) -> None:
    before = groups.of[node]
    pieces = _pieces(groups, before.last)
    readers = {groups.of[n] for n in pieces}
    if len(readers) != 1 or not _has_columns(node, op):
        return
    (own,) = readers
    space = pieces[0].outputs[0].type.shape
    if not is_elementwise(own, space):
        return
    rows = node.outputs[0].type.size // node.outputs[0].type.shape[-1]
    parts = len({p.op for p in pieces})
    if not target.fuses_column_pieces(parts, rows) or groups.closes_cycle(before, own):
        return
    if count_results(groups, before.nodes) == 1 and count_results(groups, own.nodes) <= MAX_RESULTS:
        absorb_readers(groups, groups.merge(before, own), space)


def _pieces(groups: GroupGraph, last: Node) -> Sequence[Node]:
    """The readers of a node if all of them read pieces of its columns of one width, which do not overlap; else none."""
    readers = groups.flow.readers[last]
    if last in groups.flow.leaving or not all(isinstance(n.op, Slice) and n.inputs[0].node is last for n in readers):
        return ()
    whole = last.outputs[0].type.shape
    shapes = {n.outputs[0].type.shape for n in readers}
    slices = [n.op for n in readers if isinstance(n.op, Slice)]
    starts = {s.start[-1] for s in slices}
    if len(shapes) != 1 or len(starts) < 2:
        return ()
    (shape,) = shapes
    width = shape[-1]
    is_divided = all(s.start[-1] % width == 0 and s.step[-1] == 1 for s in slices)
    return readers if shape[:-1] == whole[:-1] and width > 1 and is_divided else ()


def _has_columns(node: Node, op: Dot) -> bool:
    """True for a product without batches in float32 or float64, whose last axis alone is that of the right operand."""
    right = node.inputs[1].type
    free = right.rank - len(op.rhs_contract) - len(op.rhs_batch)
    return not op.lhs_batch and free == 1 and node.outputs[0].type.dtype in (DType.F32, DType.F64)
