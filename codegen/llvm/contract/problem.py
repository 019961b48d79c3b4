"""`Problem`: the common form of convolutions and matrix products, which the loop nest in `tiles.py` computes.

A problem has groups x points x channels, and a reduction with offsets into the input and into the weights.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from ....ir.lazy_dataclass import dataclass
from ....ir.types import DType
from ..schedule.segments import Segment, collapse
from ..schedule.strides import View
from ..types import type_of
from .epilogue import Epilogue, Tables, point_tables
from .line_taps import LineTaps
from .vector_epilogue import VectorEpilogue


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightSource:
    """The address of a filter's first weight: base + groups * (group of the problem) + member * (group within it) +
    filter * (filter within that group).

    One group of the problem consists of `merged` groups with `filters` filters each. `dtype` is that in memory; packing
    rounds the weights to `rounded`. `parts` are the offsets of the weights of each part of a product."""

    base: int
    groups: tuple[int, ...]
    filter: int
    member: int = 0
    filters: int
    merged: int = 1
    dtype: DType
    rounded: DType
    parts: tuple[int, ...] = (0,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """`groups` and `points` are extents, with the innermost axis last; `x` is the input's view, whose channel part is
    unused. `x_points` are the extents of the input's own axes of points, in the same order of points. `x_slot` and
    `w_slot` are the argument slots of the input and the weights. With `line_taps` the reduction has one segment, whose
    steps are ordered by these taps, so that a tile needs a range of them.
    """

    dtype: DType
    groups: tuple[int, ...]
    points: tuple[int, ...]
    channels: int
    x: View
    x_points: tuple[int, ...]
    x_slot: int
    segments: tuple[Segment, ...]
    weights: WeightSource
    w_slot: int
    epilogue: Epilogue
    line_taps: LineTaps | None = None

    @property
    def tables(self) -> Tables:
        """The tables of point offsets."""
        return point_tables(self.x, self.epilogue.views)

    @property
    def vector_epilogue(self) -> VectorEpilogue:
        return self.epilogue.vectorized(self.tables)

    @property
    def parts(self) -> int:
        """The number of sums of each channel."""
        return len(self.weights.parts)

    @property
    def element(self) -> str:
        """The element type in which products are summed."""
        return type_of(self.dtype).element

    @property
    def weight_element(self) -> str:
        """The element type of packed weights: bfloat16 is widened as it is read."""
        narrow = self.weights.rounded is DType.BF16 and self.dtype is DType.F32
        return type_of(DType.BF16).element if narrow else self.element

    @property
    def steps(self) -> int:
        return sum(s.count for s in self.segments)

    @property
    def depth(self) -> int:
        """The length of the reduction, including zeros of the packing."""
        return sum(s.depth for s in self.segments)

    @property
    def count(self) -> int:
        return prod(self.points)


def collapsed(points: tuple[int, ...], x: View, epilogue: Epilogue) -> tuple[tuple[int, ...], View, Epilogue]:
    """The points, the input and the epilogue after `collapse`."""
    views = [x, *epilogue.views]
    points, strides = collapse(points, [v.points for v in views])
    new = [replace(v, points=s) for v, s in zip(views, strides, strict=True)]
    return points, new[0], epilogue.with_views(new[1:])
