"""Rules of sequences and optional values, which are known when the graph is read: only their tensors are computed."""

from __future__ import annotations

from itertools import accumulate

import numpy as np

from ....ir.graph import Value
from .node import Known, OnnxNode, Result, TensorSequence, Unsupported, rule
from .tensors import constant

SEQUENCES = (
    *("SequenceEmpty", "SequenceConstruct", "SequenceInsert", "SequenceErase", "SequenceAt", "SequenceLength"),
    *("SplitToSequence", "ConcatFromSequence", "SequenceMap", "Optional", "OptionalGetElement", "OptionalHasElement"),
)
"""Operators whose operands or results are sequences or optional values."""


@rule("SequenceEmpty")
def empty(n: OnnxNode) -> TensorSequence:
    return TensorSequence(())


@rule("SequenceConstruct")
def construct(n: OnnxNode) -> TensorSequence:
    return TensorSequence([n.result(i) for i in range(len(n.names))])


@rule("SequenceLength")
def length(n: OnnxNode) -> Known:
    return np.array(len(n.sequence(0)), np.int64)


@rule("SequenceAt")
def at(n: OnnxNode) -> Result:
    tensors = n.sequence(0)
    return tensors[_position(n, 1, len(tensors))]


@rule("SequenceInsert")
def insert(n: OnnxNode) -> TensorSequence:
    tensors = list(n.sequence(0))
    place = _position(n, 2, len(tensors) + 1) if n.has(2) else len(tensors)
    return TensorSequence([*tensors[:place], n.result(1), *tensors[place:]])


@rule("SequenceErase")
def erase(n: OnnxNode) -> TensorSequence:
    tensors = list(n.sequence(0))
    del tensors[_position(n, 1, len(tensors)) if n.has(1) else len(tensors) - 1]
    return TensorSequence(tensors)


def _position(n: OnnxNode, operand: int, count: int) -> int:
    """A position counted from the front; those of an insertion can be one more than the length."""
    place = int(n.known(operand).ravel()[0])
    places = count - 1 if n.op_type == "SequenceInsert" else count
    if not -places <= place < count:
        raise Unsupported(f"position {place} is outside a sequence of {places} tensors")
    return place + places if place < 0 else place


@rule("SplitToSequence")
def split(n: OnnxNode) -> TensorSequence:
    x, b = n[0], n.b
    axis = n.axis(0, x.type.rank)
    extent = x.type.shape[axis]
    if not n.has(1):
        parts = [b.slice_axis(x, axis, i, i + 1) for i in range(extent)]
        return TensorSequence(parts if n.attr("keepdims", 1) else [b.squeeze(part, (axis,)) for part in parts])
    sizes = n.known(1)
    if sizes.ndim == 0:
        size = int(sizes)
        if size < 1:
            raise Unsupported(f"parts of {size} elements")
        sizes = np.diff([*range(0, extent, size), extent])
    ends = list(accumulate(int(size) for size in sizes))
    return TensorSequence([b.slice_axis(x, axis, e - int(s), e) for s, e in zip(sizes, ends, strict=True)])


@rule("ConcatFromSequence")
def concat(n: OnnxNode) -> Value:
    b = n.b
    tensors = [constant(b, t) if isinstance(t, np.ndarray) else t for t in n.sequence(0)]
    if not tensors:
        raise Unsupported("the sequence is empty")
    if n.attr("new_axis", 0):
        axis = n.axis(0, tensors[0].type.rank + 1)
        return b.concat([b.expand_dims(t, axis) for t in tensors], axis)
    return b.concat(tensors, n.axis(0, tensors[0].type.rank))


@rule("Optional", "OptionalGetElement")
def optional(n: OnnxNode) -> Result | TensorSequence:
    """The value itself: one that is missing has no name."""
    if not n.has(0):
        raise Unsupported("optional values that are missing are not supported")
    return TensorSequence(n.sequence(0)) if n.names[0] in n.reader.sequences else n.result(0)


@rule("OptionalHasElement")
def has_element(n: OnnxNode) -> Known:
    return np.array(n.has(0))
