"""Rewrites core nodes into simpler ones with the same value: removes identities, merges reshapes, folds constants."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from ..ir.dialects.core import (
    Broadcast,
    Cast,
    Concat,
    Constant,
    Conv,
    ConvWeightGradient,
    CoreBuilder,
    Dot,
    Pad,
    Pointwise,
    Primitive,
    Reduce,
    Reshape,
    Reverse,
    Scatter,
    Slice,
    Transpose,
    storage,
)
from ..ir.graph import Graph, GraphBuilder, Node, Value
from ..ir.lazy_dataclass import dataclass
from ..ir.rewrite import Replacement, rebuild
from ..ir.scalar import ScalarOp
from ..ir.symbolic import is_symbolic
from ..ir.types import DType
from .manager import Context, Pass

_FOLD_LIMIT = 1 << 16  # elements: storing a larger constant costs more than computing it


@dataclass(frozen=True)
class Simplify(Pass):
    """Apply the rules of this file once to every node, in order.

    Needs: core. Keeps: values exactly, except the sign of zero (x + 0). Folds only constants up to `_FOLD_LIMIT`.
    """

    name = "simplify"

    def run(self, graph: Graph, context: Context) -> Graph:
        return rebuild(graph, _simplify, CoreBuilder(graph.name))


Rewrite = Callable[[CoreBuilder, Node, tuple[Value, ...]], Value | None]


def _simplify(b: GraphBuilder, node: Node, operands: tuple[Value, ...]) -> Replacement:
    assert isinstance(b, CoreBuilder)
    if (empty := _without_elements(b, node, operands)) is not None:
        return empty
    rule = _RULES.get(type(node.op))
    simpler = rule(b, node, operands) if rule else None
    return simpler if simpler is not None else _fold_constant(b, node, operands)


def _without_elements(b: CoreBuilder, node: Node, operands: tuple[Value, ...]) -> Value | None:
    """Replace an empty result, or a contraction of empty operands, by a constant: it needs no kernel."""
    if len(node.outputs) != 1 or not operands or isinstance(node.op, Broadcast):
        return None
    result = node.outputs[0].type
    nothing = isinstance(node.op, Dot | Conv | ConvWeightGradient) and any(v.type.size == 0 for v in operands)
    return b.full(result.shape, 0, result.dtype) if nothing or result.size == 0 else None


def _identity(b: CoreBuilder, node: Node, operands: tuple[Value, ...]) -> Value | None:
    return operands[0] if operands[0].type == node.outputs[0].type else None


def _pad(b: CoreBuilder, node: Node, operands: tuple[Value, ...]) -> Value | None:
    """Equal types are not sufficient: one edge can crop as many elements as the other adds."""
    assert isinstance(node.op, Pad)
    return None if any(node.op.low + node.op.high + node.op.interior) else operands[0]


def _reshape(b: CoreBuilder, node: Node, operands: tuple[Value, ...]) -> Value | None:
    x = operands[0]
    if x.type.shape == node.outputs[0].type.shape:
        return x
    if x.node is not None and isinstance(x.node.op, Reshape):
        return b.reshape(x.node.inputs[0], node.outputs[0].type.shape)
    return None


def _transpose(b: CoreBuilder, node: Node, operands: tuple[Value, ...]) -> Value | None:
    assert isinstance(node.op, Transpose)
    x, permutation = operands[0], node.op.permutation
    if permutation == tuple(range(len(permutation))):
        return x
    if x.node is not None and isinstance(x.node.op, Transpose):
        return b.transpose(x.node.inputs[0], tuple(x.node.op.permutation[p] for p in permutation))
    moved = [p for p in permutation if x.type.shape[p] != 1]
    return b.reshape(x, node.outputs[0].type.shape) if moved == sorted(moved) else None


def _reverse(b: CoreBuilder, node: Node, operands: tuple[Value, ...]) -> Value | None:
    assert isinstance(node.op, Reverse)
    x, axes = operands[0], tuple(a for a in node.op.axes if operands[0].type.shape[a] != 1)
    return b.reverse(x, axes) if axes != node.op.axes else None


def _broadcast(b: CoreBuilder, node: Node, operands: tuple[Value, ...]) -> Value | None:
    assert isinstance(node.op, Broadcast)
    x, axes = operands[0], node.op.axes
    if axes == tuple(range(len(axes))) and x.type.shape == node.op.shape:
        return x
    if x.node is not None and isinstance(x.node.op, Broadcast):
        return b.broadcast(x.node.inputs[0], node.op.shape, tuple(axes[a] for a in x.node.op.axes))
    return None


def _reduce(b: CoreBuilder, node: Node, operands: tuple[Value, ...]) -> Value | None:
    """A reduction of axes of one element: each of its results is an element."""
    assert isinstance(node.op, Reduce)
    x = operands[0]
    extents = [x.type.shape[axis] for axis in node.op.axes]
    if x.type.layout is not None or any(is_symbolic(n) or n != 1 for n in extents):
        return None
    return b.reshape(x, node.outputs[0].type.shape)


def _slice(b: CoreBuilder, node: Node, operands: tuple[Value, ...]) -> Value | None:
    """A slice of a concatenation that reads one operand alone: that operand's slice."""
    assert isinstance(node.op, Slice)
    x, op = operands[0], node.op
    if x.type == node.outputs[0].type:
        return x
    if x.node is None or not isinstance(x.node.op, Concat):
        return None
    axis = x.node.op.axis
    bounds, end = (op.start[axis], op.stop[axis]), 0
    extents = [piece.type.shape[axis] for piece in x.node.inputs]
    if any(map(is_symbolic, (*bounds, *extents))):
        return None
    for piece, extent in zip(x.node.inputs, extents, strict=True):
        begin, end = end, end + extent
        if begin <= bounds[0] and bounds[1] <= end:
            start = (*op.start[:axis], bounds[0] - begin, *op.start[axis + 1 :])
            stop = (*op.stop[:axis], bounds[1] - begin, *op.stop[axis + 1 :])
            part = b.slice(piece, start, stop, op.step)
            return piece if part.type == piece.type else part
    return None


def _dot(b: CoreBuilder, node: Node, operands: tuple[Value, ...]) -> Value | None:
    """A product of one number and a matrix: the number times sums of the matrix. The first step of an unrolled cell
    multiplies a state of zeros by weights, whose sums depend on parameters alone; no kernel reads such operands."""
    assert isinstance(node.op, Dot)
    op, out = node.op, node.outputs[0].type
    if op.lhs_batch or op.accumulator not in (None, out.dtype) or out.dtype not in (DType.F32, DType.F64):
        return None
    left = operands[0].type.rank - len(op.lhs_contract)
    sides = ((op.lhs_contract, range(left)), (op.rhs_contract, range(left, out.rank)))
    for matrix, number, (contracted, axes) in zip(operands, operands[::-1], sides, strict=True):
        factor = splat(number)
        if factor is not None:
            sums = b.sum(b.cast(matrix, out.dtype), contracted)
            return b.mul(b.broadcast(sums, out.shape, tuple(axes)), factor)
    return None


def splat(value: Value) -> float | int | bool | None:
    """The number that every element of `value` equals, if the graph shows it."""
    while value.node is not None and isinstance(value.node.op, Broadcast | Reshape):
        value = value.node.inputs[0]
    if value.node is None or not isinstance(value.node.op, Constant):
        return None
    array = value.node.op.value
    return array.item() if array.size == 1 else None


def _pointwise(b: CoreBuilder, node: Node, operands: tuple[Value, ...]) -> Value | None:
    assert isinstance(node.op, Pointwise)
    neutral = _NEUTRAL.get(node.op.op)
    if neutral is None:
        return None
    left, right = operands
    if splat(right) == neutral:
        return left
    commutes = node.op.op in (ScalarOp.ADD, ScalarOp.MUL)
    if commutes and splat(left) == neutral:
        return right
    if node.op.op is not ScalarOp.ADD:
        return None
    return _sum_of_pieces(b, left, right) or _added_rows(b, left, right)


def _added_rows(b: CoreBuilder, left: Value, right: Value) -> Value | None:
    """x + updates that are added to zeros -> the updates added to x. A sum of such updates alone stays: it can become a
    gradient of rows."""
    for x, other in ((left, right), (right, left)):
        rows = _rows(other)
        if rows and not _rows(x):
            for node in rows:
                x = b.add_node(node.op, x, *node.inputs[1:])
            return x
    return None


def _rows(value: Value, depth: int = 8) -> list[Node]:
    """The nodes that add updates to zeros, whose sum is `value`; none if it is no such sum, or a long one."""
    node = value.node
    if node is None or depth == 0:
        return []
    if isinstance(node.op, Scatter) and node.op.op == "add" and splat(node.inputs[0]) == 0:
        return [node]
    if not isinstance(node.op, Pointwise) or node.op.op is not ScalarOp.ADD:
        return []
    left, right = node.inputs
    second = _rows(right, depth - 1)
    first = _rows(left, depth - 1) if second else []
    return [*first, *second] if first else []


def _sum_of_pieces(b: CoreBuilder, left: Value, right: Value) -> Value | None:
    """The sum of values, each of which is zero outside of one piece. If the pieces neither overlap nor leave a gap, the
    sum is their concatenation, with zeros before and after it. Gradients of slices have this form.
    """
    pieces: list[_Piece] = []
    stack = [left, right]
    while stack:
        value = stack.pop()
        piece = _piece(value)
        if piece is not None:
            pieces.append(piece)
        elif value.node is not None and isinstance(value.node.op, Pointwise) and value.node.op.op is ScalarOp.ADD:
            stack += value.node.inputs
        else:
            return None
    axis = pieces[0].axis
    pieces.sort(key=lambda p: p.start)
    if any(p.axis != axis for p in pieces) or any(p.stop != q.start for p, q in pairwise(pieces)):
        return None
    parts = [v for p in pieces for v in _parts(p.value, axis)]
    low, high = [0] * left.type.rank, [0] * left.type.rank
    low[axis], high[axis] = pieces[0].start, left.type.shape[axis] - pieces[-1].stop
    return b.pad(b.concat(parts, axis), b.constant(0, left.type.dtype), low, high)


class _Piece(NamedTuple):
    """A value that is zero outside of [start, stop) along one axis, where it is `value`."""

    axis: int
    start: int
    stop: int
    value: Value


def _piece(value: Value) -> _Piece | None:
    node = value.node
    if node is None or not isinstance(node.op, Pad) or splat(node.inputs[1]) != 0 or any(node.op.interior):
        return None
    low, high = node.op.low, node.op.high
    axes = [k for k in range(len(low)) if low[k] != 0 or high[k] != 0]
    if len(axes) != 1 or low[axes[0]] < 0 or high[axes[0]] < 0:
        return None
    axis = axes[0]
    return _Piece(axis, low[axis], low[axis] + node.inputs[0].type.shape[axis], node.inputs[0])


def _parts(value: Value, axis: int) -> Sequence[Value]:
    """The operands of a concatenation along `axis`; other values are one part."""
    node = value.node
    return node.inputs if node is not None and isinstance(node.op, Concat) and node.op.axis == axis else (value,)


_NEUTRAL = {ScalarOp.ADD: 0, ScalarOp.SUB: 0, ScalarOp.MUL: 1, ScalarOp.DIV: 1, ScalarOp.POW: 1}

_RULES: dict[type, Rewrite] = {
    Reshape: _reshape,
    Transpose: _transpose,
    Reverse: _reverse,
    Reduce: _reduce,
    Broadcast: _broadcast,
    Cast: _identity,
    Slice: _slice,
    Dot: _dot,
    Pad: _pad,
    Concat: lambda b, node, operands: operands[0] if len(operands) == 1 else None,
    Pointwise: _pointwise,
}


def _fold_constant(b: CoreBuilder, node: Node, operands: tuple[Value, ...]) -> Value | None:
    """Evaluate a node whose operands are all constants. A broadcast scalar stays a broadcast: kernels read it as one
    number.
    """
    if not operands or len(node.outputs) != 1:
        return None
    if isinstance(node.op, Broadcast) or not isinstance(node.op, Primitive) or node.op.regions():
        return None
    scalars = [splat(v) for v in operands]
    if isinstance(node.op, Pointwise) and None not in scalars and node.outputs[0].type.rank:
        return _fold_splat(b, node, operands)
    if not all(v.node is not None and isinstance(v.node.op, Constant) for v in operands):
        return None
    if node.outputs[0].type.size > _FOLD_LIMIT:
        return None
    with np.errstate(all="ignore"):
        result = node.op.evaluate(*(v.node.op.value for v in operands if v.node and isinstance(v.node.op, Constant)))[0]
    return b.constant(result, node.outputs[0].type.dtype)


def _fold_splat(b: CoreBuilder, node: Node, operands: tuple[Value, ...]) -> Value:
    assert isinstance(node.op, Pointwise)
    arrays = [np.full((), splat(v), storage(v.type.dtype)) for v in operands]
    with np.errstate(all="ignore"):
        result = node.op.evaluate(*arrays)[0]
    scalar = b.constant(result, node.outputs[0].type.dtype)
    return b.broadcast(scalar, node.outputs[0].type.shape, ())
