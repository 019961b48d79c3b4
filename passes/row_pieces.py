"""Finds tensors of which other values are the rows: steps of a sequence, for instance."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.dialects.core import CoreBuilder, Reshape, Slice
from ..ir.graph import Value


def _piece_of(value: Value) -> tuple[Value, int] | None:
    """The tensor of which `value` is a piece along the leading axis, in another shape or not, and where it starts."""
    node = value.node
    if node is not None and isinstance(node.op, Reshape):
        node = node.inputs[0].node
    if node is None or not isinstance(node.op, Slice) or any(s != 1 for s in node.op.step):
        return None
    whole, piece = node.inputs[0].type.shape, node.outputs[0].type.shape
    return (node.inputs[0], node.op.start[0]) if whole[1:] == piece[1:] else None


def start_of(value: Value) -> int:
    """Where `value` starts in the tensor of which it is a piece; -1 if it is none."""
    piece = _piece_of(value)
    return -1 if piece is None else piece[1]


def whole_of(values: Sequence[Value], b: CoreBuilder) -> Value:
    """The rows of all values, which are matrices: the tensor whose pieces they are, or a concatenation."""
    pieces = [_piece_of(v) for v in values]
    first = pieces[0]
    if first is not None and all(p is not None and p[0] is first[0] for p in pieces):
        source, columns = first[0], values[0].type.shape[1]
        starts = {p[1] for p in pieces if p is not None}
        total = sum(v.type.size for v in values)
        if len(starts) == len(values) and total == source.type.size and source.type.layout is None:
            return b.reshape(source, (-1, columns))
    return b.concat(values, 0)
