"""Primitives that combine elements along axes: reductions, positions of extrema, cumulative operations."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from ...graph import Node, Value
from ...lazy_dataclass import dataclass
from ...scalar import ReduceOp, result_dtype
from ...types import DType, TensorType
from .primitive import Array, Arrays, Gradients, Primitive, Types, accumulator, check_axes, operands

if TYPE_CHECKING:
    from .builder import CoreBuilder

UFUNCS: dict[ReduceOp, np.ufunc] = {
    ReduceOp.ADD: np.add,
    ReduceOp.MUL: np.multiply,
    ReduceOp.MAX: np.maximum,
    ReduceOp.MIN: np.minimum,
    ReduceOp.AND: np.bitwise_and,
    ReduceOp.OR: np.bitwise_or,
}


@dataclass(frozen=True)
class Reduce(Primitive):
    """All elements along `axes` combined; the axes are removed. An empty reduction is the neutral element."""

    name = "core.reduce"
    op: ReduceOp
    axes: tuple[int, ...]

    def infer(self, *types: TensorType) -> Types:
        (x,) = operands(types, 1)
        check_axes(self.axes, x.rank)
        result_dtype(self.op.scalar, x.dtype, x.dtype)
        return (TensorType(tuple(n for k, n in enumerate(x.shape) if k not in self.axes), x.dtype),)

    def evaluate(self, *arrays: Array) -> Arrays:
        (x,) = arrays
        if self.op in (ReduceOp.MAX, ReduceOp.MIN):
            neutral = self.op.neutral(DType.from_numpy(x.dtype))
            result = UFUNCS[self.op].reduce(x, axis=self.axes, initial=neutral)
        else:
            result = UFUNCS[self.op].reduce(x, axis=self.axes, dtype=accumulator(x.dtype))
        return (np.asarray(result, x.dtype),)

    def vjp(self, b: CoreBuilder, node: Node, cotangents: Sequence[Value]) -> Gradients:
        x, y, g = node.inputs[0], node.outputs[0], cotangents[0]
        kept = tuple(k for k in range(x.type.rank) if k not in self.axes)
        spread = b.broadcast(g, x.type.shape, kept)
        if self.op is ReduceOp.ADD:
            return [spread]
        if self.op is ReduceOp.MUL:
            return [b.mul(spread, _products_of_others(b, x, self.axes))]
        winner = b.eq(x, b.broadcast(y, x.type.shape, kept))  # every tied element gets the full gradient, as in MXNet
        return [b.select(winner, spread, b.full_like(x, 0))]


def _products_of_others(b: CoreBuilder, x: Value, axes: Sequence[int]) -> Value:
    """For each element the product of the others along `axes`, without division: correct for zeros too."""
    kept = [k for k in range(x.type.rank) if k not in axes]
    order = (*kept, *axes)
    moved = b.transpose(x, order)
    count = prod(x.type.shape[a] for a in axes)
    rows = b.reshape(moved, (x.type.size // max(count, 1), count))
    low, high = [0, 1], [0, -1]
    one = b.constant(1, x.type.dtype)
    before = b.cumulative(ReduceOp.MUL, b.pad(rows, one, low, high), 1)
    after = b.cumulative(ReduceOp.MUL, b.pad(rows, one, high, low), 1, reverse=True)
    others = b.reshape(b.mul(before, after), moved.type.shape)
    return b.transpose(others, tuple(sorted(range(len(order)), key=order.__getitem__)))


@dataclass(frozen=True)
class ArgReduce(Primitive):
    """The I64 position of the "max" or "min" along `axis`: the first of equal elements; NaN precedes numbers."""

    name = "core.arg_reduce"
    kind: str
    axis: int

    def infer(self, *types: TensorType) -> Types:
        (x,) = operands(types, 1)
        check_axes((self.axis,), x.rank, "axis")
        if self.kind not in ("max", "min"):
            raise ValueError(f"kind must be 'max' or 'min', not {self.kind!r}")
        if not x.shape[self.axis]:
            raise ValueError(f"axis {self.axis} of {x.shape} is empty")
        return (TensorType(x.shape[: self.axis] + x.shape[self.axis + 1 :], DType.I64),)

    def evaluate(self, *arrays: Array) -> Arrays:
        find = np.argmax if self.kind == "max" else np.argmin
        return (np.asarray(find(arrays[0], self.axis), np.int64),)

    def vjp(self, b: CoreBuilder, node: Node, cotangents: Sequence[Value]) -> Gradients:
        return [None]

    def expand(self, b: CoreBuilder, *operands: Value) -> Value:
        """The smallest position where x equals its extremum or is NaN: reductions over the same rows, which fuse."""
        (x,) = operands
        shape, axis = x.type.shape, self.axis
        extreme = b.max(x, axis) if self.kind == "max" else b.min(x, axis)
        kept = tuple(k for k in range(len(shape)) if k != axis)
        is_extreme = b.eq(x, b.broadcast(extreme, shape, kept))
        if x.type.dtype.is_float:
            is_extreme = b.or_(is_extreme, b.is_nan(x))
        position = b.iota(shape, DType.I64, axis)
        return b.min(b.select(is_extreme, position, b.full(shape, shape[axis], DType.I64)), axis)


@dataclass(frozen=True)
class Cumulative(Primitive):
    """The combination of all elements up to and including each one along `axis`; `reverse` starts at the end."""

    name = "core.cumulative"
    op: ReduceOp
    axis: int
    reverse: bool = False

    def infer(self, *types: TensorType) -> Types:
        (x,) = operands(types, 1)
        check_axes((self.axis,), x.rank, "axis")
        result_dtype(self.op.scalar, x.dtype, x.dtype)
        return (TensorType(x.shape, x.dtype),)

    def evaluate(self, *arrays: Array) -> Arrays:
        (x,) = arrays
        ordered = np.flip(x, self.axis) if self.reverse else x
        result = UFUNCS[self.op].accumulate(ordered, self.axis, dtype=accumulator(x.dtype)).astype(x.dtype)
        return (np.flip(result, self.axis) if self.reverse else result,)

    def vjp(self, b: CoreBuilder, node: Node, cotangents: Sequence[Value]) -> Gradients:
        x, g = node.inputs[0], cotangents[0]
        if self.op is ReduceOp.ADD:
            return [b.cumulative(ReduceOp.ADD, g, self.axis, reverse=not self.reverse)]
        if self.reverse:
            x, g = b.reverse(x, (self.axis,)), b.reverse(g, (self.axis,))
        order = (*(k for k in range(x.type.rank) if k != self.axis), self.axis)
        rows = (x.type.size // max(x.type.shape[self.axis], 1), x.type.shape[self.axis])
        moved = b.transpose(x, order)
        rule = _cumulative_product_gradient if self.op is ReduceOp.MUL else _cumulative_extremum_gradient
        flipped = b.neg(moved) if self.op is ReduceOp.MIN else moved
        dx = b.reshape(rule(b, b.reshape(flipped, rows), b.reshape(b.transpose(g, order), rows)), moved.type.shape)
        dx = b.transpose(dx, tuple(sorted(range(len(order)), key=order.__getitem__)))
        return [b.reverse(dx, (self.axis,)) if self.reverse else dx]


def _cumulative_extremum_gradient(b: CoreBuilder, x: Value, g: Value) -> Value:
    """Along axis 1 of x[rows, n]: the cotangent of each running maximum goes to the first element that reached it."""
    rows, n = x.type.shape
    running = b.cumulative(ReduceOp.MAX, x, 1)
    before = b.pad(running, b.constant(float("-inf"), x.type.dtype), [0, 1], [0, -1])
    record = b.select(b.gt(x, before), b.iota((rows, n), DType.I64, 1), b.full((rows, n), 0, DType.I64))
    reached = b.reshape(b.cumulative(ReduceOp.MAX, record, 1), (rows, n, 1))
    return b.scatter(b.full_like(x, 0), reached, g, "add", (1,), 1)


def _cumulative_product_gradient(b: CoreBuilder, x: Value, g: Value) -> Value:
    """Along axis 1 of x[rows, n]: before[j] * r[j] with r[j] = g[j] + x[j + 1] * r[j + 1], without division."""
    from .builder import CoreBuilder

    rows, _ = x.type.shape
    one, dtype = b.constant(1, x.type.dtype), x.type.dtype
    before = b.cumulative(ReduceOp.MUL, b.pad(x, one, [0, 1], [0, -1]), 1)
    following = b.pad(x, one, [0, -1], [0, 1])
    inner = CoreBuilder("cumulative_product_gradient")
    state = TensorType((rows,), dtype)
    r, gj, xj = inner.input(state), inner.input(state), inner.input(state)
    total = inner.add(gj, inner.mul(xj, r))
    steps = [b.reverse(b.transpose(v, (1, 0)), (0,)) for v in (g, following)]
    _, totals = b.scan(inner.build([total, total]), [b.full((rows,), 0, dtype)], steps, [], x.type.shape[1])
    return b.mul(before, b.transpose(b.reverse(totals, (0,)), (1, 0)))
