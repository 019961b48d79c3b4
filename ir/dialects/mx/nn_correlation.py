"""Correlation of two images at displaced positions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...graph import Value
from ...scalar import ReduceOp
from ...types import DType
from .operator import Operator, operator
from .parameters import Bool, Natural

if TYPE_CHECKING:
    from .builder import MxBuilder


@operator("Correlation")
class Correlation(Operator):
    """Compares windows of one image with displaced windows of another.

        output[n, m, i, j] = mean over window and channels of data1[i + y, j + x] * data2[i + y + dy, j + x + dx]

    Args:
        data1: (N, C, H, W).
        data2: (N, C, H, W).
        kernel_size: Extent of the window, an odd number.
        max_displacement: Largest displacement along each axis.
        stride1: Steps of the window over data1.
        stride2: Steps of the displacement.
        pad_size: Zeros added around both images.
        is_multiply: False to use absolute differences instead of products.
    Returns:
        (N, displacements, H', W'), one channel for each displacement.
    """

    floats = True
    inputs = ("data1", "data2")
    outputs = ("output", "tmp1", "tmp2")
    hidden = 2
    kernel_size: Natural = 1
    max_displacement: Natural = 1
    stride1: Natural = 1
    stride2: Natural = 1
    pad_size: Natural = 0
    is_multiply: Bool = True

    def check(self) -> None:
        for name in ("kernel_size", "stride1", "stride2"):
            if getattr(self, name) < 1:
                raise ValueError(f"Correlation: {name}={getattr(self, name)}: must be at least 1")
        if self.kernel_size % 2 == 0:
            raise ValueError(f"Correlation: kernel_size={self.kernel_size}: must be odd")

    def decompose(self, b: MxBuilder, *inputs: Value) -> tuple[Value, ...]:
        if inputs[0].type.rank != 4 or inputs[0].type.shape != inputs[1].type.shape:
            shapes = " and ".join(str(v.type.shape) for v in inputs)
            raise ValueError(f"requires two arrays of one shape (N, C, H, W), got {shapes}")
        edge = (0, self.pad_size, self.pad_size, 0)
        first, second = (b.transpose(x, (0, 2, 3, 1)) for x in inputs)  # sums over channels read contiguously
        first, second = (b.pad(x, b.constant(0, x.type.dtype), edge, edge) for x in (first, second))
        batch, *extents, channels = first.type.shape
        rows, columns = map(self._extent, extents)
        height, width = ((n - 1) * self.stride1 + self.kernel_size for n in (rows, columns))
        begin = self.max_displacement
        still = b.slice(first, (0, begin, begin, 0), (batch, begin + height, begin + width, channels))
        reach = self.max_displacement // self.stride2
        moves = np.arange(-reach, reach + 1) * self.stride2 + begin
        shape = len(moves), width
        places = b.add(b.broadcast(b.constant(moves, DType.I32), shape, (0,)), b.iota(shape, DType.I32, 1))
        aside = b.take(second, places, 2)  # (N, H, moves, width, C)
        correlations = [
            self._compared(b, still, b.slice_axis(aside, 1, move, move + height)) for move in moves.tolist()
        ]
        return b.concat(correlations, 1), first, second

    def _extent(self, padded: int) -> int:
        """The number of windows that fit with all displacements."""
        border = self.max_displacement + (self.kernel_size - 1) // 2
        count = -(-(padded - 2 * border) // self.stride1)
        if count < 1:
            raise ValueError(f"an extent of {padded} with its padding is too small for a border of {border}")
        return count

    def _compared(self, b: MxBuilder, still: Value, moved: Value) -> Value:
        """(N, displacements along x, H', W') for one displacement along y."""
        shape = moved.type.shape
        other = b.broadcast(still, shape, (0, 1, 3, 4))
        alike = b.mul(other, moved) if self.is_multiply else b.custom_gradient(_distance, _signs, other, moved)[0]
        summed = b.transpose(b.sum(alike, (4,)), (0, 2, 1, 3))
        size, stride = self.kernel_size, self.stride1
        if size > 1 or stride > 1:
            window, strides = (1, 1, size, size), (1, 1, stride, stride)
            summed = b.reduce_window(ReduceOp.ADD, summed, window, strides, [(0, 0)] * 4)
        return b.mul(summed, 1 / (size * size * shape[4]))


def _distance(b: MxBuilder, x: Value, y: Value) -> Value:
    return b.abs(b.sub(x, y))


def _signs(b: MxBuilder, operands: Sequence[Value], results: object, cotangents: Sequence[Value]) -> list[Value]:
    """The derivative of |x - y|; for x = y the derivative of x - y."""
    g = b.select(b.ge(*operands), cotangents[0], b.neg(cotangents[0]))
    return [g, b.neg(g)]
