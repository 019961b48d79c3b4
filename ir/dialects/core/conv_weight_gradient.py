"""The gradient of a convolution with respect to its weights, the third of its three bilinear maps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...graph import Node, Value
from ...lazy_dataclass import dataclass
from ...types import TensorType
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
from .window import Padding, pad_edges, taps, window_extent

if TYPE_CHECKING:
    from .builder import CoreBuilder


@dataclass(frozen=True)
class ConvWeightGradient(Primitive):
    """x[N, C, *s], g[N, O, *s'] -> [O, C / groups, *window], where g is the cotangent of the convolution of x.

    `strides`, `padding`, `rhs_dilation` and `groups` are those of the convolution. Every weight is the sum over images
    and positions of the cotangent times the element of x that the weight multiplied.
    """

    name = "core.conv_weight_gradient"
    window: tuple[int, ...]
    strides: tuple[int, ...]
    padding: Padding
    rhs_dilation: tuple[int, ...]
    groups: int = 1

    def infer(self, *types: TensorType) -> Types:
        x, g = operands(types, 2)
        check_same_dtype(x, g)
        if x.rank < 2 or x.rank != g.rank:
            raise ValueError(f"x {x.shape} and the cotangent {g.shape} must have the same rank, at least 2")
        lengths = {"strides": self.strides, "padding": self.padding, "rhs_dilation": self.rhs_dilation}
        check_lengths(x.rank - 2, window=self.window, **lengths)
        check_positive(window=self.window, strides=self.strides, rhs_dilation=self.rhs_dilation, groups=(self.groups,))
        axes = zip(x.shape[2:], self.window, self.strides, self.padding, self.rhs_dilation, strict=True)
        space = tuple(window_extent(*axis) for axis in axes)
        if g.shape != (x.shape[0], g.shape[1], *space):
            raise ValueError(f"the cotangent has shape {g.shape}, the convolution {(x.shape[0], g.shape[1], *space)}")
        if x.shape[1] % self.groups or g.shape[1] % self.groups:
            raise ValueError(f"{self.groups} groups do not divide x {x.shape} and the cotangent {g.shape}")
        return (TensorType((g.shape[1], x.shape[1] // self.groups, *self.window), x.dtype),)

    def evaluate(self, *arrays: Array) -> Arrays:
        """One matrix product per element of the window."""
        x, g = arrays
        wide = accumulator(x.dtype)
        padded = pad_edges(x.astype(wide), ((0, 0), (0, 0), *self.padding), 0)
        n, o, *space = g.shape
        c = x.shape[1] // self.groups
        cotangent = g.astype(wide).reshape(n, self.groups, o // self.groups, -1).transpose(1, 2, 0, 3)
        cotangent = cotangent.reshape(self.groups, o // self.groups, -1)
        result = np.zeros((o, c, *self.window), wide)
        for tap, part in taps(tuple(space), self.window, self.strides, self.rhs_dilation):
            patch = padded[(..., *part)].reshape(n, self.groups, c, -1).transpose(1, 0, 3, 2)
            result[(..., *tap)] = (cotangent @ patch.reshape(self.groups, -1, c)).reshape(o, c)
        return (result.astype(x.dtype),)

    def vanishes(self, node: Node, zero: Sequence[bool]) -> bool:
        return any(zero)

    def vjp(self, b: CoreBuilder, node: Node, cotangents: Sequence[Value]) -> Gradients:
        """The other two maps, with the cotangent in place of the weights: the gradient of the convolution with respect
        to its data, and the convolution."""
        x, g = node.inputs
        y = b.conv(x, cotangents[0], self.strides, self.padding, rhs_dilation=self.rhs_dilation, groups=self.groups)
        assert y.node is not None and isinstance(y.node.op, Primitive)
        return [y.node.op.vjp(b, y.node, [g])[0], y]
