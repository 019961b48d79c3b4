"""Rules of reductions and of what is made of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod

from ....ir.dialects.core.builder import Axes, CoreBuilder
from ....ir.graph import Value
from ....ir.scalar import ReduceOp
from ....ir.types import DType
from .node import RULES, OnnxNode, rule

_Reduction = Callable[[CoreBuilder, Value, Axes, bool], Value]


def _extremum(op: ReduceOp) -> _Reduction:
    def reduce(b: CoreBuilder, x: Value, axes: Axes, keep: bool) -> Value:
        if x.type.dtype is DType.BOOL:
            return b.reduce(ReduceOp.OR if op is ReduceOp.MAX else ReduceOp.AND, x, axes, keep)
        return b.reduce(op, x, axes, keep)

    return reduce


def _log_sum_exp(b: CoreBuilder, x: Value, axes: Axes, keep: bool) -> Value:
    """Relative to the maximum, unless it is infinite."""
    if not x.type.size or not x.type.dtype.is_float:
        wide = x if x.type.dtype.is_float else b.cast(x, DType.F64)
        return b.cast(b.log(b.sum(b.exp(wide), axes, keep)), x.type.dtype)
    highest = b.stop_gradient(b.max(x, axes, True))
    highest = b.select(b.is_finite(highest), highest, 0)
    total = b.log(b.sum(b.exp(b.sub(x, b.broadcast_to(highest, x.type.shape))), axes, True))
    result = b.add(total, highest)
    return result if keep else b.squeeze(result, axes if axes is not None else range(x.type.rank))


def _mean(b: CoreBuilder, x: Value, axes: Axes, keep: bool) -> Value:
    return b.mean(x, axes, keep)


def _root(b: CoreBuilder, x: Value) -> Value:
    return b.sqrt(x) if x.type.dtype.is_float else b.cast(b.sqrt(b.cast(x, DType.F64)), x.type.dtype)


def _log(b: CoreBuilder, x: Value) -> Value:
    return b.log(x) if x.type.dtype.is_float else b.cast(b.log(b.cast(x, DType.F64)), x.type.dtype)


REDUCTIONS: dict[str, _Reduction] = {
    "ReduceSum": lambda b, x, axes, keep: b.sum(x, axes, keep),
    "ReduceMean": _mean,
    "ReduceProd": lambda b, x, axes, keep: b.prod(x, axes, keep),
    "ReduceMax": _extremum(ReduceOp.MAX),
    "ReduceMin": _extremum(ReduceOp.MIN),
    "ReduceL1": lambda b, x, axes, keep: b.sum(b.abs(x), axes, keep),
    "ReduceL2": lambda b, x, axes, keep: _root(b, b.sum(b.square(x), axes, keep)),
    "ReduceSumSquare": lambda b, x, axes, keep: b.sum(b.square(x), axes, keep),
    "ReduceLogSum": lambda b, x, axes, keep: _log(b, b.sum(x, axes, keep)),
    "ReduceLogSumExp": _log_sum_exp,
}


def _reduce(reduction: _Reduction, n: OnnxNode) -> Value:
    axes = n.ints(1, "axes") or None
    if axes is None and n.attr("noop_with_empty_axes", 0):
        axes = ()  # the operation applies to single elements
    return reduction(n.b, n[0], axes, bool(n.attr("keepdims", 1)))


RULES.update({_name: partial(_reduce, _reduction) for _name, _reduction in REDUCTIONS.items()})


@rule("GlobalAveragePool", "GlobalMaxPool")
def global_pool(n: OnnxNode) -> Value:
    x = n[0]
    reduce = n.b.mean if n.op_type == "GlobalAveragePool" else n.b.max
    return reduce(x, tuple(range(2, x.type.rank)), True)


@rule("GlobalLpPool")
def global_lp_pool(n: OnnxNode) -> Value:
    x, p, b = n[0], n.attr("p", 2), n.b
    total = b.sum(b.pow(b.abs(x), p), tuple(range(2, x.type.rank)), True)
    return b.pow(total, 1 / p)


@rule("Softmax", "LogSoftmax", "Hardmax")
def softmax(n: OnnxNode) -> Value:
    """Before version 13 over all axes from `axis` on, as one."""
    x, b = n[0], n.b
    shape, axis = x.type.shape, n.axis(-1 if n.opset >= 13 else 1, x.type.rank)
    if n.opset < 13:
        x, axis = b.reshape(x, (prod(shape[:axis]), prod(shape[axis:]))), 1
    if n.op_type == "Hardmax":
        wide = x.type.shape
        first = b.broadcast_to(b.expand_dims(b.arg_reduce("max", x, axis), axis), wide)
        return b.reshape(b.cast(b.eq(first, b.iota(wide, DType.I64, axis)), x.type.dtype), shape)
    if not x.type.size:
        return b.reshape(x, shape)
    result = log_softmax(b, x, axis) if n.op_type == "LogSoftmax" else softmax_of(b, x, axis)
    return b.reshape(result, shape)


def softmax_of(b: CoreBuilder, x: Value, axis: int) -> Value:
    """exp(x) / sum(exp(x)) along an axis."""
    shape = x.type.shape
    powers = b.exp(b.sub(x, b.broadcast_to(b.stop_gradient(b.max(x, axis, True)), shape)))
    return b.div(powers, b.broadcast_to(b.sum(powers, axis, True), shape))


def log_softmax(b: CoreBuilder, x: Value, axis: int) -> Value:
    """The logarithm of the softmax along an axis."""
    shape = x.type.shape
    moved = b.sub(x, b.broadcast_to(b.stop_gradient(b.max(x, axis, True)), shape))
    return b.sub(moved, b.broadcast_to(b.log(b.sum(b.exp(moved), axis, True)), shape))
