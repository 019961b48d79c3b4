"""A contraction as the loop nest computes it: groups x points x channels, and a reduction by offsets into input and
weights.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from math import prod

from ....ir.symbolic import is_symbolic, known_equal
from ....ir.types import DType
from ..schedule.strides import View
from ..types import type_of
from .epilogue import Epilogue, Tables, point_tables
from .vector_epilogue import VectorEpilogue

UNROLL = 8


@dataclass(frozen=True, slots=True)
class Box:
    """The offsets of the points of a box, the last axis fastest. With symbolic numbers code computes them."""

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
    """A run of equal steps. Step s reads the input at steps[s] + each of `unroll`; `sources` (step-major) are the
    offsets of the weights relative to a filter's first, -1 where the weight is zero; `owners` are the groups (of
    merged ones) the weights belong to.
    """

    steps: Offsets
    unroll: tuple[int, ...]
    sources: Offsets
    owners: tuple[int, ...] = ()

    @property
    def count(self) -> int:
        """The number of steps."""
        return count_of(self.steps)


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightSource:
    """The first weight of a filter: base + group * (merged group) + member * (group in it) + filter * (filter in that
    group).

    `merged` groups of `filters` filters each form one group of the problem."""

    base: int
    groups: tuple[int, ...]
    filter: int
    member: int = 0
    filters: int
    merged: int = 1
    dtype: DType


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """`groups` and `points` are extents (points innermost last); `x` the input's view, whose channel part is unused.

    `x_slot` and `w_slot` are the kernel's arguments of the input and the weights.
    """

    dtype: DType
    groups: tuple[int, ...]
    points: tuple[int, ...]
    channels: int
    x: View
    x_slot: int
    segments: tuple[Segment, ...]
    weights: WeightSource
    w_slot: int
    epilogue: Epilogue

    @property
    def tables(self) -> Tables:
        """The tables of point offsets."""
        return point_tables(self.x, self.epilogue.views)

    @property
    def vector_epilogue(self) -> VectorEpilogue:
        return self.epilogue.vectorized(self.tables)

    @property
    def kind(self) -> str:
        """The element type in which products are summed."""
        return type_of(self.dtype).kind

    @property
    def steps(self) -> int:
        return sum(s.count for s in self.segments)

    @property
    def depth(self) -> int:
        """Length of the reduction, zeros of the packing included."""
        return sum(s.count * len(s.unroll) for s in self.segments)

    @property
    def count(self) -> int:
        return prod(self.points)


def plain_segments(outer: list[tuple[int, int]], inner: list[tuple[int, int]]) -> tuple[Segment, ...]:
    """The reduction over outer x inner, pairs of (input offset, weight offset); inner is unrolled, in chunks."""
    whole, rest = divmod(len(inner), UNROLL)
    if len(inner) <= UNROLL:
        whole, rest = 0, len(inner)
    found: list[Segment] = []
    if whole:
        steps = [(x + inner[c * UNROLL][0], w, c) for x, w in outer for c in range(whole)]
        unroll = tuple(inner[u][0] - inner[0][0] for u in range(UNROLL))
        sources = tuple(w + inner[c * UNROLL + u][1] for _, w, c in steps for u in range(UNROLL))
        found.append(Segment(steps=tuple(x for x, _, _ in steps), unroll=unroll, sources=sources))
    if rest:
        last = inner[len(inner) - rest :]
        unroll = tuple(x - last[0][0] for x, _ in last)
        sources = tuple(w + v for _, w in outer for _, v in last)
        found.append(Segment(steps=tuple(x + last[0][0] for x, _ in outer), unroll=unroll, sources=sources))
    return tuple(found)


def offsets(extents: tuple[int, ...], strides: tuple[int, ...]) -> list[int]:
    """The offset of each point of a box, last axis fastest."""
    return [sum(i * s for i, s in zip(at, strides, strict=True)) for at in product(*(range(n) for n in extents))]


def collapse(points: tuple[int, ...], views: list[tuple[int, ...]]) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    """Drop axes of extent 1 and merge neighbours that every view walks as one: fewer, longer rows of points."""
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
    """The points, the input and the epilogue with neighbouring axes of points merged."""
    views = [x, *epilogue.views]
    points, strides = collapse(points, [v.points for v in views])
    new = [replace(v, points=s) for v, s in zip(views, strides, strict=True)]
    return points, new[0], epilogue.with_views(new[1:])
