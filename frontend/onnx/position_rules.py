"""Translation of primitives that order, read or write elements at positions."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir.dialects.core.indexing import Gather, Scatter
from ...ir.dialects.core.ordering import ArgSort, Sort
from ...ir.graph import Node
from ...ir.symbolic import is_symbolic
from ...ir.types import DType
from .writer import Writer, unsupported


def sort(w: Writer, node: Node, op: Sort) -> list[str]:
    count = w.ints([node.inputs[0].type.shape[op.axis]])
    keys = w.input(node.inputs[0])
    sorted_keys, indices = w.ops("TopK", [keys, count], 2, axis=op.axis, largest=int(op.descending), sorted=1)
    others = [w.op("GatherElements", w.input(v), indices, axis=op.axis) for v in node.inputs[1:]]
    return [sorted_keys, *others]


def argsort(w: Writer, node: Node, op: ArgSort) -> str:
    count = w.ints([node.outputs[0].type.shape[op.axis]])
    keys = w.input(node.inputs[0])
    if node.inputs[0].type.dtype is DType.BOOL:  # which TopK does not take
        keys = w.cast(keys, DType.I32)
    _, order = w.ops("TopK", [keys, count], 2, axis=op.axis, largest=int(op.descending), sorted=1)
    return w.cast(order, DType.I32)


def _clamped(w: Writer, node: Node, axes: Any) -> str:
    """The indices as I64, clamped to the operand's extents."""
    extents = [node.inputs[0].type.shape[axis] for axis in axes]
    indices = w.cast(w.input(node.inputs[1]), DType.I64)
    upper = w.ints([n - 1 if is_symbolic(n) else max(n - 1, 0) for n in extents])
    return w.op("Min", w.op("Max", indices, w.constant(0, np.int64)), upper)


def gather(w: Writer, node: Node, op: Gather) -> str:
    rank = node.inputs[0].type.rank
    rest = [i for i in range(rank) if i >= op.batch and i not in op.axes]
    x = w.transpose(w.input(node.inputs[0]), [*range(op.batch), *op.axes, *rest])
    return w.op("GatherND", x, _clamped(w, node, op.axes), batch_dims=op.batch)


_SCATTERS = {"set": "none", "add": "add", "mul": "mul", "max": "max", "min": "min"}


def scatter(w: Writer, node: Node, op: Scatter) -> str:
    """ScatterND with the indexed axes first. They are padded by one element, which receives updates out of bounds."""
    if op.batch:
        return _scatter_rows(w, node, op)
    type = node.inputs[0].type
    rest = [i for i in range(type.rank) if i not in op.axes]
    order = [*op.axes, *rest]
    extents = [type.shape[i] for i in op.axes]
    shape = [type.shape[i] for i in order]
    x = w.transpose(w.input(node.inputs[0]), order)
    edges = [0] * type.rank + [1] * len(op.axes) + [0] * len(rest)
    x = w.op("Pad", x, w.ints(edges), w.scalar(0, type.dtype))
    indices = _inside(w, node, extents)
    result = w.op("ScatterND", x, indices, w.input(node.inputs[2]), reduction=_SCATTERS[op.op])
    inverse = [order.index(i) for i in range(type.rank)]
    return w.transpose(w.slice(result, [0] * type.rank, shape), inverse)


def _scatter_rows(w: Writer, node: Node, op: Scatter) -> str:
    """ScatterElements along the last axis, padded as in `_scatter`."""
    type, indices = node.inputs[0].type, node.inputs[1].type
    if op.axes != (type.rank - 1,) or indices.rank != op.batch + 2 or op.batch != type.rank - 1:
        raise unsupported(node, "its indices have batch axes")
    last = type.shape[-1]
    x = w.op("Pad", w.input(node.inputs[0]), w.ints([0] * (2 * type.rank - 1) + [1]), w.scalar(0, type.dtype))
    places = w.reshape(_inside(w, node, [last]), indices.shape[:-1])
    updates = w.input(node.inputs[2])
    result = w.op("ScatterElements", x, places, updates, axis=op.batch, reduction=_SCATTERS[op.op])
    return w.slice(result, [0] * type.rank, type.shape)


def _inside(w: Writer, node: Node, extents: list[int]) -> str:
    """The indices as I64; the extent replaces those out of bounds."""
    indices = w.cast(w.input(node.inputs[1]), DType.I64)
    upper = w.ints(extents)
    negative = w.op("Less", indices, w.constant(0, np.int64))
    return w.op("Min", w.op("Where", negative, upper, indices), upper)
