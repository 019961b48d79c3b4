"""The primitives that sort elements, and find their order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...graph import Node, Value
from ...lazy_dataclass import dataclass
from ...types import DType, TensorType
from .primitive import Array, Arrays, Gradients, Primitive, Types, check_axes, operands

if TYPE_CHECKING:
    from .builder import CoreBuilder


@dataclass(frozen=True)
class Sort(Primitive):
    """One or more operands of one shape, all permuted along `axis` to sort the first one; NaN is last in both orders.

    With `stable`, equal elements keep their order. The reference always sorts stably.
    """

    name = "core.sort"
    axis: int
    descending: bool = False
    stable: bool = True

    def infer(self, *types: TensorType) -> Types:
        if not types:
            raise TypeError("requires at least one operand")
        check_axes((self.axis,), types[0].rank, "axis")
        for t in types:
            if t.shape != types[0].shape:
                raise ValueError(f"operands differ in shape: {', '.join(str(t.shape) for t in types)}")
        return tuple(TensorType(t.shape, t.dtype) for t in types)

    def evaluate(self, *arrays: Array) -> Arrays:
        order = _order(arrays[0], self.axis, self.descending)
        return tuple(np.take_along_axis(a, order, self.axis) for a in arrays)

    def vjp(self, b: CoreBuilder, node: Node, cotangents: Sequence[Value]) -> Gradients:
        """Stores each cotangent where its element was."""
        order = b.argsort(node.inputs[0], self.axis, self.descending)
        return [
            b.put_along(b.full_like(v, 0), order, g, self.axis) if v.type.dtype.has_cotangent else None
            for v, g in zip(node.inputs, cotangents, strict=True)
        ]


@dataclass(frozen=True)
class ArgSort(Primitive):
    """The positions (I32) along `axis` of the elements in ascending or descending order; with `count` those of the
    first `count` elements alone.

    Equal elements keep their order, and NaN is last in both orders.
    """

    name = "core.argsort"
    axis: int
    descending: bool = False
    count: int | None = None

    def infer(self, *types: TensorType) -> Types:
        (x,) = operands(types, 1)
        check_axes((self.axis,), x.rank, "axis")
        length = x.shape[self.axis]
        if self.count is not None and not 0 <= self.count <= length:
            raise ValueError(f"count must be in [0, {length}], got {self.count}")
        count = length if self.count is None else self.count
        return (TensorType((*x.shape[: self.axis], count, *x.shape[self.axis + 1 :]), DType.I32),)

    def evaluate(self, *arrays: Array) -> Arrays:
        order = _order(arrays[0], self.axis, self.descending)
        first = (slice(None),) * self.axis + (slice(self.count),)
        return (order[first].astype(np.int32),)

    def vanishes(self, node: Node, zero: Sequence[bool]) -> bool:
        return False

    def differentiable(self, operands: int) -> Sequence[int]:
        return ()

    def vjp(self, b: CoreBuilder, node: Node, cotangents: Sequence[Value]) -> Gradients:
        return [None]


def _order(key: Array, axis: int, descending: bool) -> Array:
    """The positions of the elements in order."""
    if descending:  # NaN stays NaN, and no integer overflows
        key = np.negative(key) if key.dtype.kind == "f" else np.invert(key)
    return np.argsort(key, axis, kind="stable")
