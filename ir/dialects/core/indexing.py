"""Primitives that read and write elements at computed positions: gather and scatter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...graph import GraphError, Node, Value
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
    check_axes,
    check_same_dtype,
    operands,
)
from .reduction import UFUNCS

if TYPE_CHECKING:
    from .builder import CoreBuilder


@dataclass(frozen=True)
class Gather(Primitive):
    """x, indices[batch..., k..., len(axes)] -> indices.shape[:-1] + the remaining axes of x in order.

    The last axis of the indices holds coordinates along `axes` of x; the first `batch` axes are shared. Coordinates
    out of range are clamped.
    """

    name = "core.gather"
    axes: tuple[int, ...]
    batch: int = 0

    def infer(self, *types: TensorType) -> Types:
        x, indices = operands(types, 2)
        shape = _result_shape(x, indices, self.axes, self.batch)
        if any(x.shape[a] == 0 for a in self.axes) and 0 not in shape:
            raise ValueError(f"cannot gather from empty {x.shape} along axes {self.axes}")
        return (TensorType(shape, x.dtype),)

    def evaluate(self, *arrays: Array) -> Arrays:
        x, indices = arrays
        inside = np.stack([np.clip(indices[..., j], 0, x.shape[a] - 1) for j, a in enumerate(self.axes)], -1)
        return (_indexed_first(x, self.axes, self.batch)[_coordinates(inside.astype(np.int64), self.batch)],)

    def vanishes(self, node: Node, zero: Sequence[bool]) -> bool:
        return zero[0]

    def vjp(self, b: CoreBuilder, node: Node, cotangents: Sequence[Value]) -> Gradients:
        x, indices = node.inputs
        clamped = _clamp(b, indices, [x.type.shape[a] for a in self.axes])
        if self.batch and indices.type.shape[self.batch :] == (1,):
            return [_at_one_coordinate(b, x, clamped, cotangents[0], self.axes[0]), None]
        zeros = b.full(x.type.shape, 0, x.type.dtype)
        return [b.scatter(zeros, clamped, cotangents[0], "add", self.axes, self.batch), None]


@dataclass(frozen=True)
class Scatter(Primitive):
    """x, indices, updates -> x with the updates stored ("set") or combined ("add", ...) at the indices.

    The updates have the shape of `Gather`'s result; updates out of range are dropped. With "set", the last update of an
    element in row-major order is stored.
    """

    name = "core.scatter"
    op: str
    axes: tuple[int, ...]
    batch: int = 0

    def infer(self, *types: TensorType) -> Types:
        x, indices, updates = operands(types, 3)
        check_same_dtype(x, updates)
        if self.op != "set":
            result_dtype(ReduceOp(self.op).scalar, x.dtype, x.dtype)
        shape = _result_shape(x, indices, self.axes, self.batch)
        if updates.shape != shape:
            raise ValueError(f"updates have shape {updates.shape}, the indices require {shape}")
        return (TensorType(x.shape, x.dtype),)

    def evaluate(self, *arrays: Array) -> Arrays:
        x, indices, updates = arrays
        kept = np.ones(indices.shape[:-1], np.bool_)
        for j, a in enumerate(self.axes):
            kept &= (indices[..., j] >= 0) & (indices[..., j] < x.shape[a])
        result = x.astype(x.dtype if self.op in ("set", "max", "min") else accumulator(x.dtype), copy=True)
        front = _indexed_first(result, self.axes, self.batch)
        at = tuple(np.broadcast_to(c, kept.shape)[kept] for c in _coordinates(indices.astype(np.int64), self.batch))
        if self.op == "set":
            front[at] = updates[kept]
        else:
            UFUNCS[ReduceOp(self.op)].at(front, at, updates[kept])
        return (result.astype(x.dtype, copy=False),)

    def vanishes(self, node: Node, zero: Sequence[bool]) -> bool:
        return zero[0] and zero[2]

    def vjp(self, b: CoreBuilder, node: Node, cotangents: Sequence[Value]) -> Gradients:
        rule = _SCATTER_GRADIENTS.get(self.op)
        if rule is None:
            raise GraphError(f"{node.describe()}: scatter '{self.op}' has no gradient")
        dx, updates = rule(b, self, node, cotangents[0])
        return [dx, None, b.select(_inside(b, self, node), updates, b.full_like(updates, 0))]


def _result_shape(x: TensorType, indices: TensorType, axes: Sequence[int], batch: int) -> Shape:
    check_axes(axes, x.rank)
    if not axes or min(axes) < batch:
        raise ValueError(f"axes {tuple(axes)} must follow the {batch} batch axes and contain at least one axis")
    if not indices.dtype.is_integer:
        raise TypeError(f"indices must be integers, got {indices.dtype.full_name}")
    if indices.rank <= batch or indices.shape[-1] != len(axes):
        raise ValueError(
            f"indices {indices.shape} must end in an axis of {len(axes)} coordinates after {batch} batch axes"
        )
    if indices.shape[:batch] != x.shape[:batch]:
        raise ValueError(f"batch axes of {x.shape} and indices {indices.shape} differ")
    rest = tuple(n for k, n in enumerate(x.shape) if k >= batch and k not in axes)
    return indices.shape[:-1] + rest


def _indexed_first(x: Array, axes: Sequence[int], batch: int) -> Array:
    """A view of x with the axes in the order: batch axes, `axes`, the others."""
    rest = [k for k in range(batch, x.ndim) if k not in axes]
    return x.transpose(*range(batch), *axes, *rest)


def _coordinates(indices: Array, batch: int) -> Arrays:
    """One index array per batch axis and coordinate."""
    lead = indices.shape[:-1]
    counts: list[Array] = [np.arange(n)[(..., *[None] * (len(lead) - k - 1))] for k, n in enumerate(lead[:batch])]
    return (*counts, *(indices[..., j] for j in range(indices.shape[-1])))


def _clamp(b: CoreBuilder, indices: Value, extents: Sequence[int]) -> Value:
    wide = b.cast(indices, DType.I64)
    last = b.broadcast_along(b.integers([n - 1 for n in extents]), wide.type.shape, wide.type.rank - 1)
    return b.minimum(b.maximum(wide, 0), last)


def _at_one_coordinate(b: CoreBuilder, x: Value, indices: Value, update: Value, axis: int) -> Value:
    """The update at one coordinate along `axis` for each point of the batch axes, and zeros elsewhere, as a comparison:
    it fuses with what reads it, which a scatter does not."""
    shape, batch = x.type.shape, indices.type.rank - 1
    chosen = b.broadcast(b.reshape(b.cast(indices, DType.I32), shape[:batch]), shape, tuple(range(batch)))
    wide = b.broadcast(update, shape, tuple(k for k in range(len(shape)) if k != axis))
    return b.select(b.eq(b.iota(shape, DType.I32, axis), chosen), wide, b.full(shape, 0, x.type.dtype))


def _inside(b: CoreBuilder, op: Scatter, node: Node) -> Value:
    """BOOL for each element of the updates: true if it is stored."""
    x, indices, updates = node.inputs
    clamped = _clamp(b, indices, [x.type.shape[a] for a in op.axes])
    inside = b.all(b.eq(b.cast(indices, DType.I64), clamped), [indices.type.rank - 1])
    return b.broadcast(inside, updates.type.shape, tuple(range(inside.type.rank)))


def _set_gradient(b: CoreBuilder, op: Scatter, node: Node, g: Value) -> tuple[Value, Value]:
    """Only the stored update has a gradient: updates are numbered, and the numbers are scattered too."""
    x, indices, updates = node.inputs
    numbers = b.reshape(b.iota((updates.type.size,), DType.I64, 0), updates.type.shape)
    owners = b.scatter(b.full(x.type.shape, -1, DType.I64), indices, numbers, "set", op.axes, op.batch)
    stayed = b.eq(b.gather(owners, indices, op.axes, op.batch), numbers)
    read = b.gather(g, indices, op.axes, op.batch)
    return b.select(b.lt(owners, 0), g, b.full_like(g, 0)), b.select(stayed, read, b.full_like(read, 0))


def _add_gradient(b: CoreBuilder, op: Scatter, node: Node, g: Value) -> tuple[Value, Value]:
    return g, b.gather(g, node.inputs[1], op.axes, op.batch)


def _mul_gradient(b: CoreBuilder, op: Scatter, node: Node, g: Value) -> tuple[Value, Value]:
    """The product of the other factors is result / update: NaN if an update is zero."""
    x, indices, updates = node.inputs
    factors = b.scatter(b.full(x.type.shape, 1, x.type.dtype), indices, updates, "mul", op.axes, op.batch)
    read = b.gather(b.mul(g, node.outputs[0]), indices, op.axes, op.batch)
    return b.mul(g, factors), b.div(read, updates)


def _extremum_gradient(b: CoreBuilder, op: Scatter, node: Node, g: Value) -> tuple[Value, Value]:
    """Every operand equal to the result gets the full gradient, as in MXNet's max and min."""
    x, indices, updates = node.inputs
    y = node.outputs[0]
    equal = b.eq(b.gather(y, indices, op.axes, op.batch), updates)
    read = b.gather(g, indices, op.axes, op.batch)
    return b.select(b.eq(x, y), g, b.full_like(g, 0)), b.select(equal, read, b.full_like(read, 0))


_SCATTER_GRADIENTS = {
    "set": _set_gradient,
    "add": _add_gradient,
    "mul": _mul_gradient,
    "max": _extremum_gradient,
    "min": _extremum_gradient,
}
