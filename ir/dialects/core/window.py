"""Primitives over sliding windows: pooling reductions, and the gradient of the maximum."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...graph import Node, Value
from ...lazy_dataclass import dataclass
from ...scalar import ReduceOp, result_dtype
from ...types import DType, Shape, TensorType
from .primitive import (
    Array,
    Arrays,
    Gradients,
    Primitive,
    Types,
    accumulator,
    check_lengths,
    check_positive,
    check_same_dtype,
    operands,
)
from .reduction import UFUNCS

if TYPE_CHECKING:
    from .builder import CoreBuilder

Padding = tuple[tuple[int, int], ...]


def window_extent(n: int, window: int, stride: int, padding: tuple[int, int], dilation: int) -> int:
    """The number of positions of a window on an axis of extent n."""
    return max(0, (n + sum(padding) - (window - 1) * dilation - 1) // stride + 1)


def pad_edges(x: Array, padding: Padding, value: float) -> Array:
    """x with (low, high) elements of `value` around each axis; negative edges crop."""
    crop = tuple(slice(max(-lo, 0), n - max(-hi, 0)) for n, (lo, hi) in zip(x.shape, padding, strict=True))
    grown = [(max(lo, 0), max(hi, 0)) for lo, hi in padding]
    return np.pad(x[crop], grown, constant_values=value) if any(map(any, grown)) else x[crop]


def taps(out: Shape, window: Shape, strides: Shape, dilation: Shape) -> Iterator[tuple[Shape, tuple[slice, ...]]]:
    """For each element of the window, in row-major order: its index, and the slices of the padded operand it reads."""
    for tap in np.ndindex(*window):
        starts = [t * d for t, d in zip(tap, dilation, strict=True)]
        yield (
            tap,
            tuple(
                slice(a, a + (n - 1) * s + 1, s) if n else slice(0, 0)
                for a, n, s in zip(starts, out, strides, strict=True)
            ),
        )


@dataclass(frozen=True)
class ReduceWindow(Primitive):
    """Each window combined. Parameters have one entry per axis of x; `padding` (low, high) adds neutral elements."""

    name = "core.reduce_window"
    op: ReduceOp
    window: tuple[int, ...]
    strides: tuple[int, ...]
    padding: Padding
    dilation: tuple[int, ...]

    def infer(self, *types: TensorType) -> Types:
        (x,) = operands(types, 1)
        result_dtype(self.op.scalar, x.dtype, x.dtype)
        check_lengths(x.rank, window=self.window, strides=self.strides, padding=self.padding, dilation=self.dilation)
        check_positive(window=self.window, strides=self.strides, dilation=self.dilation)
        axes = zip(x.shape, self.window, self.strides, self.padding, self.dilation, strict=True)
        return (TensorType(tuple(window_extent(*axis) for axis in axes), x.dtype),)

    def evaluate(self, *arrays: Array) -> Arrays:
        (x,) = arrays
        type = TensorType(x.shape, DType.from_numpy(x.dtype))
        (out,) = self.infer(type)
        exact = self.op in (ReduceOp.MAX, ReduceOp.MIN)
        padded = pad_edges(x, self.padding, self.op.neutral(type.dtype))
        padded = padded.astype(x.dtype if exact else accumulator(x.dtype))
        result = None
        for _, part in taps(out.shape, self.window, self.strides, self.dilation):
            result = padded[part].copy() if result is None else UFUNCS[self.op](result, padded[part], out=result)
        assert result is not None
        return (result.astype(x.dtype),)

    def vjp(self, b: CoreBuilder, node: Node, cotangents: Sequence[Value]) -> Gradients:
        x, g = node.inputs[0], cotangents[0]
        if self.op is ReduceOp.ADD:
            return [self._sum_gradient(b, x, g)]
        if self.op in (ReduceOp.MAX, ReduceOp.MIN) and all(d == 1 for d in self.dilation):
            ordered = b.neg(x) if self.op is ReduceOp.MIN else x
            return [b.select_and_scatter(ordered, g, self.window, self.strides, self.padding)]
        return [self._gradient_through_windows(b, x, g)]

    def _sum_gradient(self, b: CoreBuilder, x: Value, g: Value) -> Value:
        """Each element gets the sum of the cotangents of the windows that cover it."""
        zero = b.constant(0, g.type.dtype)
        if 0 in g.type.shape:
            return b.full_like(x, 0)
        low, high = list[int](), list[int]()
        axes = zip(x.type.shape, g.type.shape, self.window, self.strides, self.padding, self.dilation, strict=True)
        for n, out, window, stride, (lo, _), dilation in axes:
            span = (window - 1) * dilation
            low.append(span - lo)
            high.append(n - 1 + lo - (out - 1) * stride)
        ones, padding = (1,) * x.type.rank, tuple(zip(low, high, strict=True))
        if self.strides == ones and min((*low, *high)) >= 0:
            return b.reduce_window(ReduceOp.ADD, g, self.window, ones, padding, self.dilation)
        spread = b.pad(g, zero, low, high, [s - 1 for s in self.strides])
        return b.reduce_window(ReduceOp.ADD, spread, self.window, ones, ((0, 0),) * x.type.rank, self.dilation)

    def _gradient_through_windows(self, b: CoreBuilder, x: Value, g: Value) -> Value:
        """Gathers and reduces the windows, and differentiates these nodes. The first extremum gets the cotangent."""
        from .gradient import pull_back

        first = len(b.nodes)
        rank = x.type.rank
        neutral = self.op.neutral(x.type.dtype)
        rows = b.windows(x, neutral, self.window, self.strides, self.padding, self.dilation)
        gathered = b.nodes[first:]
        if self.op is ReduceOp.MUL:
            reduced = b.prod(rows, [rank])
            return pull_back(b, b.nodes[first:], {reduced: g}, [x])[0]
        winner = b.arg_reduce("max" if self.op is ReduceOp.MAX else "min", rows, rank)
        chosen = b.eq(
            b.iota(rows.type.shape, DType.I64, rank), b.broadcast(winner, rows.type.shape, tuple(range(rank)))
        )
        spread = b.broadcast(g, rows.type.shape, tuple(range(rank)))
        return pull_back(b, gathered, {rows: b.select(chosen, spread, b.full_like(rows, 0))}, [x])[0]


@dataclass(frozen=True)
class SelectAndScatter(Primitive):
    """x, cotangent of its maximum over windows -> cotangent of x: each goes to the first maximum of its window."""

    name = "core.select_and_scatter"
    window: tuple[int, ...]
    strides: tuple[int, ...]
    padding: Padding

    def _forward(self) -> ReduceWindow:
        return ReduceWindow(ReduceOp.MAX, self.window, self.strides, self.padding, (1,) * len(self.window))

    def infer(self, *types: TensorType) -> Types:
        x, cotangent = operands(types, 2)
        check_same_dtype(x, cotangent)
        (y,) = self._forward().infer(x)
        if cotangent.shape != y.shape:
            raise ValueError(f"the cotangent has shape {cotangent.shape}, the windows' maximum {y.shape}")
        return (TensorType(x.shape, x.dtype),)

    def evaluate(self, *arrays: Array) -> Arrays:
        x, g = arrays
        (y,) = self._forward().evaluate(x)
        lowest = ReduceOp.MAX.neutral(DType.from_numpy(x.dtype))
        padded, real = pad_edges(x, self.padding, lowest), pad_edges(np.ones(x.shape, np.bool_), self.padding, False)
        result = np.zeros(padded.shape, accumulator(x.dtype))
        taken = np.zeros(g.shape, np.bool_)
        for _, part in taps(g.shape, self.window, self.strides, (1,) * x.ndim):
            element = padded[part]
            hit = ((element == y) | ((element != element) & (y != y))) & real[part] & ~taken
            taken |= hit
            result[part] += np.where(hit, g, 0).astype(result.dtype)
        undone: Padding = tuple((-lo, -hi) for lo, hi in self.padding)
        return (pad_edges(result, undone, 0).astype(x.dtype),)

    def vanishes(self, node: Node, zero: Sequence[bool]) -> bool:
        return zero[1]

    def vjp(self, b: CoreBuilder, node: Node, cotangents: Sequence[Value]) -> Gradients:
        """Linear in the cotangent: each window reads its selected element."""
        x, g = node.inputs[0], cotangents[0]
        rank, ones = x.type.rank, (1,) * x.type.rank
        lowest = ReduceOp.MAX.neutral(x.type.dtype)
        winner = b.arg_reduce("max", b.windows(x, lowest, self.window, self.strides, self.padding, ones), rank)
        read = b.windows(g, 0, self.window, self.strides, self.padding, ones)
        chosen = b.gather(read, b.expand_dims(winner, rank), (rank,), rank)
        return [None, chosen]

    def expand(self, b: CoreBuilder, *operands: Value) -> Value | None:
        """16-bit floats are computed in float32, the dtype of the sums."""
        dtype = operands[0].type.dtype
        if dtype not in (DType.F16, DType.BF16):
            return None
        x, cotangent = (b.cast(v, DType.F32) for v in operands)
        return b.cast(b.select_and_scatter(x, cotangent, self.window, self.strides, self.padding), dtype)
