"""Primitives that only move elements: broadcast, reshape, transpose, slice, concat and others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from ...graph import Attribute, Node, Value
from ...lazy_dataclass import dataclass
from ...types import Layout, Shape, TensorType
from .primitive import (
    Array,
    Arrays,
    Gradients,
    Primitive,
    Types,
    check_axes,
    check_lengths,
    check_positive,
    check_same_dtype,
    operands,
)

if TYPE_CHECKING:
    from .builder import CoreBuilder


@dataclass(frozen=True)
class Broadcast(Primitive):
    """Axis i of the operand becomes axis `axes[i]` of the result (increasing); extents of 1 are repeated."""

    name = "core.broadcast"
    shape: Shape
    axes: tuple[int, ...]

    def infer(self, *types: TensorType) -> Types:
        (x,) = operands(types, 1)
        check_lengths(x.rank, axes=self.axes)
        check_axes(self.axes, len(self.shape))
        if list(self.axes) != sorted(self.axes):
            raise ValueError(f"axes {self.axes} must increase")
        for n, axis in zip(x.shape, self.axes, strict=True):
            if n != 1 and n != self.shape[axis]:
                raise ValueError(f"{x.shape} does not broadcast to {self.shape} along axes {self.axes}")
        return (TensorType(self.shape, x.dtype),)

    def evaluate(self, *arrays: Array) -> Arrays:
        (x,) = arrays
        aligned = [1] * len(self.shape)
        for n, axis in zip(x.shape, self.axes, strict=True):
            aligned[axis] = n
        return (np.broadcast_to(x.reshape(aligned), self.shape),)

    def vjp(self, b: CoreBuilder, node: Node, cotangents: Sequence[Value]) -> Gradients:
        x = node.inputs[0].type
        kept = {axis for n, axis in zip(x.shape, self.axes, strict=True) if n == self.shape[axis]}
        total = b.sum(cotangents[0], [k for k in range(len(self.shape)) if k not in kept])
        return [b.reshape(total, x.shape)]


@dataclass(frozen=True)
class Reshape(Primitive):
    """The same elements in row-major order with another shape."""

    name = "core.reshape"
    shape: Shape

    def infer(self, *types: TensorType) -> Types:
        (x,) = operands(types, 1)
        if any(n < 0 for n in self.shape) or prod(self.shape) != x.size:
            raise ValueError(f"cannot reshape {x.shape} with {x.size} elements to {self.shape}")
        return (TensorType(self.shape, x.dtype),)

    def evaluate(self, *arrays: Array) -> Arrays:
        return (arrays[0].reshape(self.shape),)

    def vjp(self, b: CoreBuilder, node: Node, cotangents: Sequence[Value]) -> Gradients:
        return [b.reshape(cotangents[0], node.inputs[0].type.shape)]


@dataclass(frozen=True)
class Transpose(Primitive):
    """Axis i of the result is axis `permutation[i]` of the operand."""

    name = "core.transpose"
    permutation: tuple[int, ...]

    def infer(self, *types: TensorType) -> Types:
        (x,) = operands(types, 1)
        check_lengths(x.rank, permutation=self.permutation)
        check_axes(self.permutation, x.rank, "permutation")
        return (TensorType(tuple(x.shape[p] for p in self.permutation), x.dtype),)

    def evaluate(self, *arrays: Array) -> Arrays:
        return (arrays[0].transpose(self.permutation),)

    def vjp(self, b: CoreBuilder, node: Node, cotangents: Sequence[Value]) -> Gradients:
        inverse = tuple(sorted(range(len(self.permutation)), key=self.permutation.__getitem__))
        return [b.transpose(cotangents[0], inverse)]


@dataclass(frozen=True)
class Slice(Primitive):
    """Elements start, start + step, ... below stop of each axis; 0 <= start <= stop <= extent, step > 0."""

    name = "core.slice"
    start: tuple[int, ...]
    stop: tuple[int, ...]
    step: tuple[int, ...]

    def infer(self, *types: TensorType) -> Types:
        (x,) = operands(types, 1)
        check_lengths(x.rank, start=self.start, stop=self.stop, step=self.step)
        check_positive(step=self.step)
        for n, lo, hi in zip(x.shape, self.start, self.stop, strict=True):
            if not 0 <= lo <= hi <= n:
                raise ValueError(f"slice {self.start} to {self.stop} is out of range for {x.shape}")
        bounds = zip(self.start, self.stop, self.step, strict=True)
        return (TensorType(tuple(-(-(hi - lo) // step) for lo, hi, step in bounds), x.dtype),)

    def evaluate(self, *arrays: Array) -> Arrays:
        return (arrays[0][tuple(slice(*bounds) for bounds in zip(self.start, self.stop, self.step, strict=True))],)

    def vjp(self, b: CoreBuilder, node: Node, cotangents: Sequence[Value]) -> Gradients:
        g, before = cotangents[0], node.inputs[0].type.shape
        spans = [(n - 1) * step + 1 if n else 0 for n, step in zip(g.type.shape, self.step, strict=True)]
        high = [n - lo - span for n, lo, span in zip(before, self.start, spans, strict=True)]
        return [b.pad(g, b.constant(0, g.type.dtype), self.start, high, [s - 1 for s in self.step])]


@dataclass(frozen=True)
class Reverse(Primitive):
    """The elements in reverse order along `axes`."""

    name = "core.reverse"
    axes: tuple[int, ...]

    def infer(self, *types: TensorType) -> Types:
        (x,) = operands(types, 1)
        check_axes(self.axes, x.rank)
        return (TensorType(x.shape, x.dtype),)

    def evaluate(self, *arrays: Array) -> Arrays:
        return (np.flip(arrays[0], self.axes),)

    def vjp(self, b: CoreBuilder, node: Node, cotangents: Sequence[Value]) -> Gradients:
        return [b.reverse(cotangents[0], self.axes)]


@dataclass(frozen=True)
class Concat(Primitive):
    """One or more operands concatenated along `axis`."""

    name = "core.concat"
    axis: int

    def infer(self, *types: TensorType) -> Types:
        if not types:
            raise TypeError("requires at least one operand")
        first = types[0]
        check_same_dtype(*types)
        check_axes((self.axis,), first.rank, "axis")
        rest = [t.shape[: self.axis] + t.shape[self.axis + 1 :] for t in types]
        if any(t.rank != first.rank for t in types) or any(r != rest[0] for r in rest):
            raise ValueError(f"shapes {', '.join(str(t.shape) for t in types)} differ outside axis {self.axis}")
        shape = list(first.shape)
        shape[self.axis] = sum(t.shape[self.axis] for t in types)
        return (TensorType(tuple(shape), first.dtype),)

    def evaluate(self, *arrays: Array) -> Arrays:
        return (np.concatenate(arrays, self.axis),)

    def vjp(self, b: CoreBuilder, node: Node, cotangents: Sequence[Value]) -> Gradients:
        pieces: list[Value] = []
        begin = 0
        for v in node.inputs:
            end = begin + v.type.shape[self.axis]
            pieces.append(b.slice_axis(cotangents[0], self.axis, begin, end))
            begin = end
        return pieces


@dataclass(frozen=True)
class Pad(Primitive):
    """Adds `interior[i]` copies of the value between neighbours, `low` before, `high` after; negative edges crop."""

    name = "core.pad"
    low: tuple[int, ...]
    high: tuple[int, ...]
    interior: tuple[int, ...]

    def infer(self, *types: TensorType) -> Types:
        x, value = operands(types, 2)
        check_same_dtype(x, value)
        check_lengths(x.rank, low=self.low, high=self.high, interior=self.interior)
        if value.rank:
            raise ValueError(f"the padding value has rank {value.rank}, not 0")
        if any(n < 0 for n in self.interior):
            raise ValueError(f"interior {self.interior} must not be negative")
        shape = tuple(s + lo + hi for s, lo, hi in zip(self._spread(x.shape), self.low, self.high, strict=True))
        if any(n < 0 for n in shape):
            raise ValueError(f"padding {self.low}, {self.high} crops more elements than {x.shape} has")
        return (TensorType(shape, x.dtype),)

    def _spread(self, shape: Shape) -> Shape:
        """The extents including interior padding."""
        return tuple(n + max(n - 1, 0) * i for n, i in zip(shape, self.interior, strict=True))

    def evaluate(self, *arrays: Array) -> Arrays:
        x, value = arrays
        spread = self._spread(x.shape)
        outer = [n + max(lo, 0) + max(hi, 0) for n, lo, hi in zip(spread, self.low, self.high, strict=True)]
        full = np.full(outer, value, x.dtype)
        begin = [max(lo, 0) for lo in self.low]
        steps = [i + 1 for i in self.interior]
        full[tuple(slice(lo, lo + n, s) for lo, n, s in zip(begin, spread, steps, strict=True))] = x
        crops = zip(outer, self.low, self.high, strict=True)
        return (full[tuple(slice(max(-lo, 0), n - max(-hi, 0)) for n, lo, hi in crops)],)

    def vjp(self, b: CoreBuilder, node: Node, cotangents: Sequence[Value]) -> Gradients:
        g, x = cotangents[0], node.inputs[0].type
        zero, one = b.constant(0, g.type.dtype), b.constant(1, g.type.dtype)
        undone = b.pad(g, zero, [-n for n in self.low], [-n for n in self.high])
        dx = b.slice(undone, [0] * x.rank, undone.type.shape, [i + 1 for i in self.interior])
        filled = b.pad(b.full(x.shape, 0, x.dtype), one, self.low, self.high, self.interior)
        return [dx, b.sum(b.mul(g, filled))]


@dataclass(frozen=True)
class Relayout(Primitive):
    """The same tensor in another physical layout."""

    name = "core.relayout"
    layout: Layout | None

    def infer(self, *types: TensorType) -> Types:
        (x,) = operands(types, 1)
        if self.layout is not None and len(self.layout.halo) != x.rank - 2:
            raise ValueError(f"a layout with {len(self.layout.halo)} spatial axes does not fit rank {x.rank}")
        return (x.with_layout(self.layout),)

    def attributes(self) -> Mapping[str, Attribute]:
        if self.layout is None:
            return {}
        return {"block": self.layout.block, "halo": tuple(n for pair in self.layout.halo for n in pair)}

    def evaluate(self, *arrays: Array) -> Arrays:
        return (arrays[0],)

    def vjp(self, b: CoreBuilder, node: Node, cotangents: Sequence[Value]) -> Gradients:
        return [cotangents[0]]
