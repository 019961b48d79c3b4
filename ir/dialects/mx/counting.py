"""Counts of elements in intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...graph import Value
from ...scalar import ReduceOp
from ...types import DType
from .operator import Operator, operator
from .parameters import Floats, OptionalInt

if TYPE_CHECKING:
    from .builder import MxBuilder


@operator("_histogram", aliases=("_npi_histogram",))
class Histogram(Operator):
    """Counts the elements in intervals. The last interval includes its end; elements outside are not counted.

    Args:
        data: The elements.
        bins: Bounds of the intervals, in ascending order; an alternative to `bin_cnt`.
        bin_cnt: Number of equal intervals.
        range: Bounds of the whole range; required with `bin_cnt`.
    Returns:
        output0: The counts.
        output1: The bounds of the intervals.
    """

    has_gradient = False
    inputs = ("data", "bins?")
    outputs = ("output0", "output1")
    bin_cnt: OptionalInt = None
    range: Floats = ()

    def check(self) -> None:
        if (self.bin_cnt is None) != (not self.range):
            raise ValueError(f"_histogram: bin_cnt={self.bin_cnt} and range={self.range}: pass both or neither")
        if self.bin_cnt is None:
            return
        if self.bin_cnt < 1 or len(self.range) != 2 or not self.range[0] < self.range[1]:
            raise ValueError(f"_histogram: bin_cnt={self.bin_cnt}, range={self.range}: a count >= 1, low < high")

    def has_input(self, name: str) -> bool:
        return self.bin_cnt is None

    def output_dtypes(self, inputs: Sequence[DType]) -> Sequence[DType | None]:
        return [DType.I64, inputs[0]]

    def decompose(self, b: MxBuilder, *inputs: Value) -> tuple[Value, Value]:
        x = b.reshape(inputs[0], (inputs[0].type.size,))
        edges = inputs[1] if self.bin_cnt is None else self._edges(b, x.type.dtype)
        if edges.type.rank != 1 or edges.type.size < 2:
            raise ValueError(f"bins must have one axis with at least two numbers, got shape {edges.type.shape}")
        return self._counts(b, x, edges), edges

    def _edges(self, b: MxBuilder, dtype: DType) -> Value:
        assert self.bin_cnt is not None
        low, high = self.range
        return b.constant(np.linspace(low, high, self.bin_cnt + 1, dtype=np.float64), dtype)

    def _counts(self, b: MxBuilder, x: Value, edges: Value) -> Value:
        """Adds one for each element to the interval before the first edge above it."""
        count = edges.type.size - 1
        space = (x.type.size, count + 1)
        reached = b.ge(b.broadcast_along(x, space, 0), b.broadcast_along(edges, space, 1))
        passed = b.sum(b.cast(reached, DType.I64), (1,))
        last = b.reshape(b.slice_axis(edges, 0, count, count + 1), ())
        inside = b.and_(b.gt(passed, 0), b.le(x, b.broadcast(last, x.type.shape, ())))
        at = b.sub(b.minimum(passed, count), 1)
        return b.scatter(
            b.full((count,), 0, DType.I64),
            b.expand_dims(b.maximum(at, 0), 1),
            b.cast(inside, DType.I64),
            ReduceOp.ADD,
            (0,),
        )
