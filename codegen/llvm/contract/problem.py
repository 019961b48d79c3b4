"""`Problem`: the common form of convolutions and matrix products, which the loop nest in `tiles.py` computes.

A problem has groups x points x channels, and a reduction with offsets into the input and into the weights.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from ....ir.lazy_dataclass import dataclass
from ....ir.symbolic import is_symbolic, known_equal
from ....ir.types import DType
from ..schedule.strides import View
from ..types import type_of
from .epilogue import Epilogue, Tables, point_tables
from .line_taps import LineTaps
from .vector_epilogue import VectorEpilogue

UNROLL = 8

NO_WEIGHT = -(1 << 31)
"""The offset of a weight that is zero. Other offsets can be negative: weights can be read in reverse order."""


@dataclass(frozen=True, slots=True)
class Box:
    """The offsets of the points of a box; the last axis varies fastest. If numbers are symbolic, code computes them."""

    extents: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def count(self) -> int:
        return prod(self.extents)

    @property
    def is_symbolic(self) -> bool:
        return any(map(is_symbolic, (*self.extents, *self.strides)))

    def numbers(self) -> tuple[int, ...]:
        return tuple(offsets(self.extents, self.strides))


Offsets = tuple[int, ...] | Box


def count_of(offsets: Offsets) -> int:
    return offsets.count if isinstance(offsets, Box) else len(offsets)


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A sequence of steps of the reduction. Step s reads the input at steps[s] + each of `unroll`; with a `rest`, the
    last one reads it at each of those instead. `sources` are the offsets of the weights from a filter's first weight,
    step by step, NO_WEIGHT for a zero; `owners` are the groups of the weights if groups were merged.
    """

    steps: Offsets
    unroll: tuple[int, ...]
    sources: Offsets
    owners: tuple[int, ...] = ()
    rest: tuple[int, ...] = ()

    @property
    def count(self) -> int:
        """The number of steps without the rest."""
        return count_of(self.steps) - bool(self.rest)

    @property
    def depth(self) -> int:
        """The number of products."""
        return self.count * len(self.unroll) + len(self.rest)

    @property
    def inputs(self) -> list[int]:
        """The offset of the input of each product."""
        steps = self.steps.numbers() if isinstance(self.steps, Box) else self.steps
        n = self.count
        return [x + u for x in steps[:n] for u in self.unroll] + [x + u for x in steps[n:] for u in self.rest]


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
    def kind(self) -> str:
        """The element type in which products are summed."""
        return type_of(self.dtype).kind

    @property
    def weight_kind(self) -> str:
        """The element type of packed weights: bfloat16 is widened as it is read."""
        narrow = self.weights.rounded is DType.BF16 and self.dtype is DType.F32
        return type_of(DType.BF16).kind if narrow else self.kind

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


def plain_segments(outer: list[tuple[int, int]], inner: list[tuple[int, int]]) -> tuple[Segment, ...]:
    """The reduction over outer x inner, which are pairs (input offset, weight offset). Inner is unrolled in chunks.
    What is left of it is the rest of the segment, or for several outer pairs a segment, to which sums pass in memory.
    """
    whole, left = divmod(len(inner), UNROLL)
    if len(inner) <= UNROLL:
        whole, left = 0, len(inner)
    chunks = [_chunks(outer, inner[: whole * UNROLL], UNROLL)] if whole else []
    last = _chunks(outer, inner[whole * UNROLL :], left) if left else None
    if chunks and last and len(outer) == 1:
        (x, unroll, sources), (x_last, rest, more) = *chunks, last
        return (Segment(steps=x + x_last, unroll=unroll, sources=sources + more, rest=rest),)
    found = [*chunks, last] if last else chunks
    return tuple(Segment(steps=x, unroll=unroll, sources=sources) for x, unroll, sources in found)


def _chunks(
    outer: list[tuple[int, int]], inner: list[tuple[int, int]], size: int
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """(input offset of each chunk of `size` products, those of its products from there, weight offsets)."""
    steps = [(x + inner[c][0], w, c) for x, w in outer for c in range(0, len(inner), size)]
    unroll = tuple(inner[u][0] - inner[0][0] for u in range(size))
    return tuple(x for x, _, _ in steps), unroll, tuple(w + inner[c + u][1] for _, w, c in steps for u in range(size))


def offsets(extents: tuple[int, ...], strides: tuple[int, ...]) -> list[int]:
    """The offset of each point of a box; the last axis varies fastest."""
    found = [0]
    for n, stride in zip(extents, strides, strict=True):
        steps = [i * stride for i in range(n)]
        found = [start + step for start in found for step in steps]
    return found


def collapse(points: tuple[int, ...], views: list[tuple[int, ...]]) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    """Remove axes of extent 1 and merge neighbours that are one flattened axis in every view, for longer rows."""
    axes = [(n, tuple(v[k] for v in views)) for k, n in enumerate(points) if n != 1]
    merged: list[tuple[int, tuple[int, ...]]] = []
    for n, strides in axes:
        if merged and all(known_equal(a, b * n) for a, b in zip(merged[-1][1], strides, strict=True)):
            merged[-1] = (merged[-1][0] * n, strides)
        else:
            merged.append((n, strides))
    merged = merged or [(1, (0,) * len(views))]
    return tuple(n for n, _ in merged), [tuple(s[k] for _, s in merged) for k in range(len(views))]


def collapsed(points: tuple[int, ...], x: View, epilogue: Epilogue) -> tuple[tuple[int, ...], View, Epilogue]:
    """The points, the input and the epilogue after `collapse`."""
    views = [x, *epilogue.views]
    points, strides = collapse(points, [v.points for v in views])
    new = [replace(v, points=s) for v, s in zip(views, strides, strict=True)]
    return points, new[0], epilogue.with_views(new[1:])
