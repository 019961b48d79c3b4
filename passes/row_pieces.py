"""Finds tensors of which other values are the rows: steps of a sequence, for instance."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.dialects.core import CoreBuilder, Reshape, Slice
from ..ir.graph import Value


def _piece_of(value: Value) -> tuple[Value, int, int] | None:
    """The tensor of which `value` is a piece along the leading axis, in another shape or not, and where the piece
    starts and ends."""
    node = value.node
    if node is not None and isinstance(node.op, Reshape):
        node = node.inputs[0].node
    if node is None or not isinstance(node.op, Slice) or any(s != 1 for s in node.op.step):
        return None
    whole, piece, start = node.inputs[0].type.shape, node.outputs[0].type.shape, node.op.start[0]
    return (node.inputs[0], start, start + piece[0]) if whole[1:] == piece[1:] else None


def start_of(value: Value) -> int:
    """Where `value` starts in the tensor of which it is a piece; -1 if it is none."""
    piece = _piece_of(value)
    return -1 if piece is None else piece[1]


def whole_of(values: Sequence[Value], b: CoreBuilder) -> Value:
    """The rows of all values in this order, which are matrices: the tensor that consists of these pieces in this order,
    or a concatenation."""
    pieces = [p for v in values if (p := _piece_of(v)) is not None]
    source = pieces[0][0] if len(pieces) == len(values) else None
    if source is not None and source.type.layout is None and all(p[0] is source for p in pieces):
        ends = [0, *(end for _, _, end in pieces)]
        if ends == [*(start for _, start, _ in pieces), source.type.shape[0]]:
            return b.reshape(source, (-1, values[0].type.shape[1]))
    return b.concat(values, 0)
