"""Classifies core nodes by the kernel that they become or join."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from ..ir.dialects.core import (
    Broadcast,
    Cast,
    Concat,
    Constant,
    Conv,
    ConvWeightGradient,
    Dot,
    Gather,
    Iota,
    Pad,
    Pointwise,
    RandomBits,
    Reduce,
    ReduceWindow,
    Relayout,
    Reshape,
    Reverse,
    SelectAndScatter,
    Size,
    Slice,
    Transpose,
)
from ..ir.graph import Node, Value


class Kind(Enum):
    """The kind of kernel that a node starts, or how it joins one."""

    POINTWISE = "pointwise"
    ROW = "row"  # reductions and the pointwise work around them
    WINDOW = "window"
    CONTRACT = "contract"
    ATTENTION = "attention"  # a softmax between two products, see `fuse_attention.py`
    MOVE = "move"  # an index map: transpose, slice, reverse, pad, gather, relayout
    JOIN = "join"  # concatenation: one store for each operand
    VIRTUAL = "virtual"  # read through an index map by each reader: broadcast, constant, iota, unit reshape
    OPAQUE = "opaque"  # stays a separate node

    __hash__ = object.__hash__


_KINDS: dict[type, Kind] = {
    Pointwise: Kind.POINTWISE,
    Cast: Kind.POINTWISE,
    RandomBits: Kind.POINTWISE,
    Reduce: Kind.ROW,
    ReduceWindow: Kind.WINDOW,
    Conv: Kind.CONTRACT,
    ConvWeightGradient: Kind.CONTRACT,
    Dot: Kind.CONTRACT,
    Transpose: Kind.MOVE,
    Slice: Kind.MOVE,
    Reverse: Kind.MOVE,
    Pad: Kind.MOVE,
    Gather: Kind.MOVE,
    Relayout: Kind.MOVE,
    Concat: Kind.JOIN,
    Broadcast: Kind.VIRTUAL,
    Iota: Kind.VIRTUAL,
    Size: Kind.VIRTUAL,
}
READS_MEMORY = (Conv, ConvWeightGradient, ReduceWindow, SelectAndScatter)
"""They read elements repeatedly, and past the border: see `windowed_operands`."""

INDEX_MAPS = (Transpose, Slice, Reverse, Relayout)  # moves through which readers can recompute an expression


def windowed_operands(node: Node) -> Sequence[Value]:
    """The operands over which windows slide, and cotangents: these must be in memory. Weights can be read through index
    maps."""
    if isinstance(node.op, Conv):
        return node.inputs[:1]
    return node.inputs if isinstance(node.op, ConvWeightGradient | ReduceWindow) else ()


def kind_of(node: Node) -> Kind:
    """The kind of `node` by itself."""
    if isinstance(node.op, Constant):
        return Kind.VIRTUAL if node.op.value.size == 1 else Kind.OPAQUE
    if isinstance(node.op, Reshape):
        return Kind.VIRTUAL if is_unit_reshape(node) else Kind.OPAQUE
    return _KINDS.get(type(node.op), Kind.OPAQUE)


def is_unit_reshape(node: Node) -> bool:
    """True if a reshape only adds or drops axes of extent 1, so it is an index map."""
    before, after = node.inputs[0].type, node.outputs[0].type
    return before.layout is None and [n for n in before.shape if n != 1] == [n for n in after.shape if n != 1]
