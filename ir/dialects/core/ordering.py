"""The primitive that sorts elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...graph import Node, Value
from ...lazy_dataclass import dataclass
from ...types import DType, TensorType
from .primitive import Array, Arrays, Gradients, Primitive, Types, check_axes

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
        key = arrays[0]
        if self.descending:  # NaN stays NaN, and no integer overflows
            key = np.negative(key) if key.dtype.kind == "f" else np.invert(key)
        order = np.argsort(key, self.axis, kind="stable")
        return tuple(np.take_along_axis(a, order, self.axis) for a in arrays)

    def vjp(self, b: CoreBuilder, node: Node, cotangents: Sequence[Value]) -> Gradients:
        """Sorts the permutation, and the cotangents with it."""
        shape = node.inputs[0].type.shape
        places = b.iota(shape, DType.I64, self.axis)
        order = b.sort([node.inputs[0], places], self.axis, descending=self.descending, stable=True)[1]
        sorted_too = [i for i, v in enumerate(node.inputs) if v.type.dtype.has_cotangent]
        undone = b.sort([order, *(cotangents[i] for i in sorted_too)], self.axis)[1:]
        gradients = dict(zip(sorted_too, undone, strict=True))
        return [gradients.get(i) for i in range(len(node.inputs))]
