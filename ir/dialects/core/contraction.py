"""Primitives that sum products: general matrix products and convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from ...graph import Node, Value
from ...lazy_dataclass import dataclass
from ...types import DType, Shape, TensorType
from .conv_weight_gradient import ConvWeightGradient
from .primitive import (
    Array,
    Arrays,
    Gradients,
    Primitive,
    Types,
    accumulator,
    check_axes,
    check_lengths,
    check_positive,
    operands,
    storage,
)
from .window import Padding, pad_edges, taps, window_extent

if TYPE_CHECKING:
    from .builder import CoreBuilder


def _sum_type(lhs: DType, rhs: DType, accumulator: DType | None) -> DType:
    """The dtype of sums of products; TypeError unless the operands agree in it, or `accumulator` can hold both.

    float32 and float64 hold floats of at most as many bits; I32 and I64 hold narrower integers of either sign.
    """
    if accumulator is None:
        if lhs is not rhs:
            raise TypeError(f"operands differ in dtype: {lhs.value}, {rhs.value}")
        return lhs
    if not all(_holds(accumulator, dtype) for dtype in (lhs, rhs)):
        raise TypeError(f"sums of {accumulator.value} cannot hold products of {lhs.value} and {rhs.value}")
    return accumulator


def _holds(accumulator: DType, dtype: DType) -> bool:
    if dtype.is_float:
        return accumulator in (DType.F32, DType.F64) and accumulator.bits >= dtype.bits
    wider = accumulator.bits > dtype.bits or accumulator is dtype
    return dtype.is_integer and accumulator in (DType.I32, DType.I64) and wider


def _widened(arrays: Arrays, sums: DType | None) -> tuple[Array, Array, np.dtype[Any]]:
    """Both operands in the interpreter's accumulation dtype, and the dtype of the result."""
    x, y = arrays
    result = x.dtype if sums is None else storage(sums)
    wide = accumulator(result)
    return x.astype(wide), y.astype(wide), result


@dataclass(frozen=True)
class Dot(Primitive):
    """Sum of products over the contracted axes. The result's axes: batch, free axes of lhs, free axes of rhs.

    Without an `accumulator`, operands and result have one dtype; 16-bit floats are summed in float32 and rounded once.
    With one, sums and result have its dtype, and operands can differ: i8 or u8 by i8 in i32, bf16 in f32.
    """

    name = "core.dot"
    lhs_batch: tuple[int, ...]
    rhs_batch: tuple[int, ...]
    lhs_contract: tuple[int, ...]
    rhs_contract: tuple[int, ...]
    accumulator: DType | None = None

    def infer(self, *types: TensorType) -> Types:
        x, y = operands(types, 2)
        dtype = _sum_type(x.dtype, y.dtype, self.accumulator)
        check_axes(self.lhs_batch + self.lhs_contract, x.rank, "lhs axes")
        check_axes(self.rhs_batch + self.rhs_contract, y.rank, "rhs axes")
        for what, left, right in (
            ("batch", self.lhs_batch, self.rhs_batch),
            ("contracted", self.lhs_contract, self.rhs_contract),
        ):
            if [x.shape[a] for a in left] != [y.shape[a] for a in right]:
                raise ValueError(f"{what} axes {left} of {x.shape} and {right} of {y.shape} differ")
        batch = tuple(x.shape[a] for a in self.lhs_batch)
        free = tuple(x.shape[a] for a in self.lhs_free(x.rank)) + tuple(y.shape[a] for a in self.rhs_free(y.rank))
        return (TensorType(batch + free, dtype),)

    def lhs_free(self, rank: int) -> tuple[int, ...]:
        return tuple(k for k in range(rank) if k not in self.lhs_batch and k not in self.lhs_contract)

    def rhs_free(self, rank: int) -> tuple[int, ...]:
        return tuple(k for k in range(rank) if k not in self.rhs_batch and k not in self.rhs_contract)

    def evaluate(self, *arrays: Array) -> Arrays:
        x, y, dtype = _widened(arrays, self.accumulator)
        batch = [x.shape[a] for a in self.lhs_batch]
        inner = prod(x.shape[a] for a in self.lhs_contract)
        rows, columns = self.lhs_free(x.ndim), self.rhs_free(y.ndim)
        m, n = [x.shape[a] for a in rows], [y.shape[a] for a in columns]
        left = x.transpose(*self.lhs_batch, *rows, *self.lhs_contract).reshape(*batch, prod(m), inner)
        right = y.transpose(*self.rhs_batch, *self.rhs_contract, *columns).reshape(*batch, inner, prod(n))
        return (np.matmul(left, right).reshape((*batch, *m, *n)).astype(dtype),)

    def vanishes(self, node: Node, zero: Sequence[bool]) -> bool:
        return any(zero)

    def vjp(self, b: CoreBuilder, node: Node, cotangents: Sequence[Value]) -> Gradients:
        g = cotangents[0]
        x, y = (b.cast(v, g.type.dtype) for v in node.inputs)
        count = len(self.lhs_batch)
        batch = tuple(range(count))
        rows, columns = self.lhs_free(x.type.rank), self.rhs_free(y.type.rank)
        first = tuple(range(count, count + len(rows)))
        second = tuple(range(count + len(rows), g.type.rank))
        dx = b.dot(g, y, batch, self.rhs_batch, second, columns)
        dy = b.dot(g, x, batch, self.lhs_batch, first, rows)
        # the other operand's remaining axes are its contracted axes, in ascending order
        dx = _restore(b, dx, self.lhs_batch + rows + _partners(self.rhs_contract, self.lhs_contract))
        dy = _restore(b, dy, self.rhs_batch + columns + _partners(self.lhs_contract, self.rhs_contract))
        return [b.cast(d, v.type.dtype) for d, v in zip((dx, dy), node.inputs, strict=True)]


def _partners(contracted: Sequence[int], partner: Sequence[int]) -> tuple[int, ...]:
    return tuple(p for _, p in sorted(zip(contracted, partner, strict=True)))


def _restore(b: CoreBuilder, value: Value, axes: Sequence[int]) -> Value:
    """Axis i of `value` becomes axis `axes[i]`."""
    return b.transpose(value, tuple(sorted(range(len(axes)), key=axes.__getitem__)))


@dataclass(frozen=True)
class Conv(Primitive):
    """x[N, C, *s], w[O, C / groups, *k] -> [N, O, *s'], a correlation as in StableHLO; padding can be negative.

    `lhs_dilation` dilates x, `rhs_dilation` the window. With `batch_groups` = B, N and O are split into B parts, part b
    of the output channels reads part b of the batch, and the result is [N / B, O, *s']. For `accumulator` see Dot.
    """

    name = "core.conv"
    strides: tuple[int, ...]
    padding: Padding
    lhs_dilation: tuple[int, ...]
    rhs_dilation: tuple[int, ...]
    groups: int = 1
    batch_groups: int = 1
    accumulator: DType | None = None

    def infer(self, *types: TensorType) -> Types:
        x, w = operands(types, 2)
        dtype = _sum_type(x.dtype, w.dtype, self.accumulator)
        self._check(x, w)
        axes = zip(
            x.shape[2:], w.shape[2:], self.strides, self.padding, self.lhs_dilation, self.rhs_dilation, strict=True
        )
        space = tuple(window_extent(_spread(n, ld), k, s, p, rd) for n, k, s, p, ld, rd in axes)
        return (TensorType((x.shape[0] // self.batch_groups, w.shape[0], *space), dtype),)

    def _check(self, x: TensorType, w: TensorType) -> None:
        if x.rank < 2 or x.rank != w.rank:
            raise ValueError(f"x {x.shape} and w {w.shape} must have the same rank, at least 2")
        check_lengths(
            x.rank - 2,
            strides=self.strides,
            padding=self.padding,
            lhs_dilation=self.lhs_dilation,
            rhs_dilation=self.rhs_dilation,
        )
        check_positive(strides=self.strides, lhs_dilation=self.lhs_dilation, rhs_dilation=self.rhs_dilation)
        check_positive(window=w.shape[2:], groups=(self.groups, self.batch_groups))
        if self.groups > 1 and self.batch_groups > 1:
            raise ValueError("groups and batch_groups cannot both exceed 1")
        if w.shape[1] * self.groups != x.shape[1]:
            raise ValueError(
                f"w {w.shape} reads {w.shape[1]} channels in {self.groups} groups, x {x.shape} has {x.shape[1]}"
            )
        if w.shape[0] % (self.groups * self.batch_groups) or x.shape[0] % self.batch_groups:
            raise ValueError(f"{self.groups * self.batch_groups} groups do not divide x {x.shape} and w {w.shape}")

    def evaluate(self, *arrays: Array) -> Arrays:
        x, w, dtype = _widened(arrays, self.accumulator)
        if self.batch_groups > 1:  # parts of the batch become channel groups
            parts = x.reshape(self.batch_groups, -1, *x.shape[1:])
            x = np.moveaxis(parts, 0, 1).reshape(parts.shape[1], -1, *x.shape[2:])
        groups = self.groups * self.batch_groups
        padded = pad_edges(_dilate(x, self.lhs_dilation), ((0, 0), (0, 0), *self.padding), 0)
        axes = zip(padded.shape[2:], w.shape[2:], self.strides, self.rhs_dilation, strict=True)
        space = tuple(window_extent(n, k, s, (0, 0), rd) for n, k, s, rd in axes)
        return (_correlate(padded, w, space, self.strides, self.rhs_dilation, groups).astype(dtype),)

    def expand(self, b: CoreBuilder, *operands: Value) -> Value | None:
        """Batch groups as channel groups: the parts of the batch are concatenated along the channels."""
        x, w = operands
        parts, (batch, channels, *space) = self.batch_groups, x.type.shape
        if parts == 1:
            return None
        split = b.reshape(x, (parts, batch // parts, channels, *space))
        moved = b.transpose(split, (1, 0, *range(2, 3 + len(space))))
        wide = b.reshape(moved, (batch // parts, parts * channels, *space))
        return b.add_node(replace(self, groups=self.groups * parts, batch_groups=1), wide, w)

    def vanishes(self, node: Node, zero: Sequence[bool]) -> bool:
        return any(zero)

    def vjp(self, b: CoreBuilder, node: Node, cotangents: Sequence[Value]) -> Gradients:
        g = cotangents[0]
        if 0 in g.type.shape:
            return [b.full_like(v, 0) for v in node.inputs]
        x, w = (b.cast(v, g.type.dtype) for v in node.inputs)
        gradients = self._data_gradient(b, x, w, g), self._weight_gradient(b, x, w, g)
        return [b.cast(d, v.type.dtype) for d, v in zip(gradients, node.inputs, strict=True)]

    def _data_gradient(self, b: CoreBuilder, x: Value, w: Value, g: Value) -> Value:
        """A convolution of the dilated cotangent with the reversed window; each group's channels are exchanged."""
        groups = self.groups * self.batch_groups
        (_, c, *window), space = w.type.shape, tuple(range(3, w.type.rank + 1))
        padding: list[tuple[int, int]] = []
        sizes = zip(x.type.shape[2:], g.type.shape[2:], window, strict=True)
        for k, (n, out, taken) in enumerate(sizes):
            span = (taken - 1) * self.rhs_dilation[k]
            low = span - self.padding[k][0]
            padding.append((low, _spread(n, self.lhs_dilation[k]) + span - _spread(out, self.strides[k]) - low))
        dx = b.conv(g, _exchange(b, w, groups), self.lhs_dilation, padding, self.strides, self.rhs_dilation, groups)
        if self.batch_groups == 1:
            return dx
        parts = b.reshape(dx, (dx.type.shape[0], groups, c, *x.type.shape[2:]))
        return b.reshape(b.transpose(parts, (1, 0, 2, *space)), x.type.shape)

    def _weight_gradient(self, b: CoreBuilder, x: Value, w: Value, g: Value) -> Value:
        """A ConvWeightGradient, unless groups of the batch or both a stride and a dilation of x prevent it."""
        if self.batch_groups == 1 and all(n == 1 for n in self.lhs_dilation):
            op = ConvWeightGradient(w.type.shape[2:], self.strides, self.padding, self.rhs_dilation, self.groups)
            return b.add_node(op, x, g)
        if self.batch_groups == 1 and all(n == 1 for n in self.strides):
            return self._transposed_gradient(b, x, w, g)
        return self._convolved_gradient(b, x, w, g)

    def _transposed_gradient(self, b: CoreBuilder, x: Value, w: Value, g: Value) -> Value:
        """The gradient for a dilated x. The convolution is the data gradient of another one, whose data has the type of
        the result and whose result has the type of x: both exchange roles."""
        padding: list[tuple[int, int]] = []
        window = w.type.shape[2:]
        for k, (n, out, taken) in enumerate(zip(x.type.shape[2:], g.type.shape[2:], window, strict=True)):
            span = (taken - 1) * self.rhs_dilation[k]
            low = span - self.padding[k][0]
            padding.append((low, _spread(n, self.lhs_dilation[k]) + span - out - low))
        op = ConvWeightGradient(window, self.lhs_dilation, tuple(padding), self.rhs_dilation, self.groups)
        return _exchange(b, b.add_node(op, g, x), self.groups)

    def _convolved_gradient(self, b: CoreBuilder, x: Value, w: Value, g: Value) -> Value:
        """A convolution of x with the cotangent; batch and channels are exchanged, groups and batch groups too."""
        exchange = (1, 0, *range(2, x.type.rank))
        padding: list[tuple[int, int]] = []
        sizes = zip(x.type.shape[2:], g.type.shape[2:], w.type.shape[2:], strict=True)
        for k, (n, out, taken) in enumerate(sizes):
            low = self.padding[k][0]
            reach = (taken - 1) * self.rhs_dilation[k] + _spread(out, self.strides[k])
            padding.append((low, reach - _spread(n, self.lhs_dilation[k]) - low))
        dw = b.conv(
            b.transpose(x, exchange),
            b.transpose(g, exchange),
            self.rhs_dilation,
            padding,
            self.lhs_dilation,
            self.strides,
            self.batch_groups,
            self.groups,
        )
        return b.transpose(dw, exchange)


def _exchange(b: CoreBuilder, w: Value, groups: int) -> Value:
    """Weights with reversed windows, whose filters and channels are exchanged in each group."""
    (o, c, *window), space = w.type.shape, tuple(range(2, w.type.rank))
    if groups == 1:
        return b.reverse(b.transpose(w, (1, 0, *space)), space)
    split = b.transpose(b.reshape(w, (groups, o // groups, c, *window)), (0, 2, 1, *(axis + 1 for axis in space)))
    return b.reverse(b.reshape(split, (groups * c, o // groups, *window)), space)


def _spread(n: int, dilation: int) -> int:
    """The extent of n elements with dilation - 1 zeros between neighbours."""
    return (n - 1) * dilation + 1 if n else 0


def _dilate(x: Array, dilation: Sequence[int]) -> Array:
    if all(d == 1 for d in dilation):
        return x
    spread = np.zeros((*x.shape[:2], *(_spread(n, d) for n, d in zip(x.shape[2:], dilation, strict=True))), x.dtype)
    spread[(..., *(slice(None, None, d) for d in dilation))] = x
    return spread


def _correlate(x: Array, w: Array, out: Shape, strides: Shape, dilation: Shape, groups: int) -> Array:
    """One matrix product per window element or per output position, whichever are fewer."""
    n, o, c = x.shape[0], w.shape[0], w.shape[1]
    weights = w.reshape(groups, o // groups, c, *w.shape[2:])
    result = np.zeros((n, groups, o // groups, *out), x.dtype)
    by_tap = prod(w.shape[2:]) <= prod(out)
    if by_tap:
        flat = result.reshape(n, groups, o // groups, prod(out))
        for tap, part in taps(out, w.shape[2:], strides, dilation):
            patch = x[(..., *part)].reshape(n, groups, c, -1)
            kernel = weights[(..., *tap)]
            flat += kernel * patch if c == 1 else np.matmul(kernel, patch)
        return result.reshape(n, o, *out)
    kernel = weights.reshape(groups, o // groups, -1)
    for position, part in taps(w.shape[2:], out, dilation, strides):
        patch = x[(..., *part)].reshape(n, groups, kernel.shape[2], 1)
        result[(..., *position)] = np.matmul(kernel, patch)[..., 0]
    return result.reshape(n, o, *out)


def products_of(node: Node) -> int:
    """The products that a convolution or a matrix product adds up; 0 for any other node."""
    size = node.outputs[0].type.size if node.outputs else 0
    if isinstance(node.op, Conv):
        return size * prod(node.inputs[1].type.shape[1:]) // prod(node.op.lhs_dilation)
    if isinstance(node.op, Dot):
        return size * prod(node.inputs[0].type.shape[axis] for axis in node.op.lhs_contract)
    return 0
