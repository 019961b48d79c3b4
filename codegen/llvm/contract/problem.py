"""Contractions as the loop nest sees them: groups x points x channels, and a reduction given by offsets into input and
weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import prod

from ....ir.kernel import Load
from ....ir.types import DType
from ...schedule.strides import View
from ..types import type_of
from .finish import Access, Finish, access_of

UNROLL = 8


@dataclass(frozen=True, slots=True)
class Segment:
    """A run of equal steps. Step s reads the input at steps[s] + each of `unroll`; `sources` (step-major) are the
    offsets of the weights relative to a filter's first, -1 where the weight is zero; `owners` are the groups (of
    merged ones) the weights belong to.
    """

    steps: tuple[int, ...]
    unroll: tuple[int, ...]
    sources: tuple[int, ...]
    owners: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class WeightSource:
    """Where a filter's weights start: base + group * (merged group) + member * (group in it) + filter * (filter in
    that group).

    `merged` groups of `filters` filters each form one group of the problem."""

    base: int
    groups: tuple[int, ...]
    filter: int
    member: int
    filters: int
    merged: int
    dtype: DType


@dataclass(frozen=True, slots=True)
class Problem:
    """`groups` and `points` are extents (points innermost last); `x` the input's view, whose channel part is unused.

    `loads` are the epilogue's operands with their views. `x_buffer`, `w_buffer`, `out_buffer` are argument slots of
    the kernel.
    """

    dtype: DType
    groups: tuple[int, ...]
    points: tuple[int, ...]
    channels: int
    x: View
    segments: tuple[Segment, ...]
    weights: WeightSource
    out: View
    out_dtype: DType
    loads: tuple[tuple[Load, View, DType, int], ...]
    finish: Finish
    x_slot: int
    w_slot: int
    out_slot: int

    @property
    def kind(self) -> str:
        """The element type in which products are summed."""
        return type_of(self.dtype).kind

    @property
    def steps(self) -> int:
        return sum(len(s.steps) for s in self.segments)

    @property
    def depth(self) -> int:
        """Length of the reduction, zeros of the packing included."""
        return sum(len(s.steps) * len(s.unroll) for s in self.segments)

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
        found.append(Segment(tuple(x for x, _, _ in steps), unroll, sources))
    if rest:
        last = inner[len(inner) - rest :]
        unroll = tuple(x - last[0][0] for x, _ in last)
        sources = tuple(w + v for _, w in outer for _, v in last)
        found.append(Segment(tuple(x + last[0][0] for x, _ in outer), unroll, sources))
    return tuple(found)


def offsets(extents: tuple[int, ...], strides: tuple[int, ...]) -> list[int]:
    """The offset of each point of a box, last axis fastest."""
    return [sum(i * s for i, s in zip(at, strides, strict=True)) for at in product(*(range(n) for n in extents))]


def collapse(points: tuple[int, ...], views: list[tuple[int, ...]]) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    """Drop axes of extent 1 and merge neighbours that every view walks as one: fewer, longer rows of points."""
    axes = [(n, tuple(v[k] for v in views)) for k, n in enumerate(points) if n != 1]
    merged: list[tuple[int, tuple[int, ...]]] = []
    for n, strides in axes:
        if merged and all(a == b * n for a, b in zip(merged[-1][1], strides, strict=True)):
            merged[-1] = (merged[-1][0] * n, strides)
        else:
            merged.append((n, strides))
    merged = merged or [(1, (0,) * len(views))]
    return tuple(n for n, _ in merged), [tuple(s[k] for _, s in merged) for k in range(len(views))]


def collapsed(
    problem_points: tuple[int, ...], x: View, out: View, loads: list[View]
) -> tuple[tuple[int, ...], View, View, list[View]]:
    views = [x, out, *loads]
    points, strides = collapse(problem_points, [v.points for v in views])
    new = [View(v.base, v.groups, s, v.block, v.stride, v.padded) for v, s in zip(views, strides, strict=True)]
    return points, new[0], new[1], new[2:]


@dataclass(frozen=True, slots=True)
class Tables:
    """The distinct ways in which points are walked; each has a table of offsets, filled for a block at a time.

    The first is the input's own, even where others walk alike: so micro-kernels of different shapes are the same code.
    """

    strides: tuple[tuple[int, ...], ...]

    def index(self, view: View) -> int:
        """The table of an operand of the epilogue or of the result, -1 when it does not depend on the point."""
        return 1 + self.strides[1:].index(view.points) if any(view.points) else -1


def point_tables(x: View, others: list[View]) -> Tables:
    return Tables((x.points, *dict.fromkeys(v.points for v in others if any(v.points))))


def accesses(
    tables: Tables, out: View, out_dtype: DType, loads: list[tuple[View, DType]]
) -> tuple[Access, tuple[Access, ...]]:
    made = access_of(out, tables.index(out), out_dtype)
    return made, tuple(access_of(v, tables.index(v), d) for v, d in loads)
