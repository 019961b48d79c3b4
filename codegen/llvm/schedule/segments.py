"""The order of the products of a reduction: segments of steps, each with the offsets of its inputs and its weights."""

from __future__ import annotations

from math import prod

from ....ir.lazy_dataclass import dataclass
from ....ir.symbolic import is_symbolic, known_equal

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


def weight_row(segments: tuple[Segment, ...]) -> int | None:
    """The stride between the weights of successive products, from the first one of a filter on; None if it varies. A
    micro-kernel that reads weights in place steps by it, whatever their offsets are.
    """
    places = [x for s in segments for x in (s.sources.numbers() if isinstance(s.sources, Box) else s.sources)]
    row = places[1] if len(places) > 1 else 0
    return row if all(x == k * row for k, x in enumerate(places)) else None


def plain_segments(outer: list[tuple[int, int]], inner: list[tuple[int, int]]) -> tuple[Segment, ...]:
    """The reduction over outer x inner, which are pairs (input offset, weight offset). Inner is unrolled in chunks.
    What is left of it is the rest of the segment, or for several outer pairs a segment, to which sums pass in memory.
    """
    if any(is_symbolic(x) for x, _ in inner):  # offsets in a table, because code holds those of a step
        pairs = [(x + u, w + v) for x, w in outer for u, v in inner]
        return (Segment(steps=tuple([x for x, _ in pairs]), unroll=(0,), sources=tuple([w for _, w in pairs])),)
    whole, left = divmod(len(inner), UNROLL)
    if len(inner) <= UNROLL:
        whole, left = 0, len(inner)
    chunks = [_chunks(outer, inner[: whole * UNROLL], UNROLL)] if whole else []
    last = _chunks(outer, inner[whole * UNROLL :], left) if left else None
    if chunks and last and len(outer) == 1:
        (x, unroll, sources), (x_last, rest, more) = *chunks, last
        return (Segment(steps=x + x_last, unroll=unroll, sources=sources + more, rest=rest),)
    pieces = [*chunks, last] if last else chunks
    return tuple(Segment(steps=x, unroll=unroll, sources=sources) for x, unroll, sources in pieces)


def _chunks(
    outer: list[tuple[int, int]], inner: list[tuple[int, int]], size: int
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """(input offset of each chunk of `size` products, those of its products from there, weight offsets)."""
    steps = [(x + inner[c][0], w, c) for x, w in outer for c in range(0, len(inner), size)]
    unroll = tuple(inner[u][0] - inner[0][0] for u in range(size))
    return tuple(x for x, _, _ in steps), unroll, tuple(w + inner[c + u][1] for _, w, c in steps for u in range(size))


def offsets(extents: tuple[int, ...], strides: tuple[int, ...]) -> list[int]:
    """The offset of each point of a box; the last axis varies fastest."""
    starts = [0]
    for n, stride in zip(extents, strides, strict=True):
        steps = [i * stride for i in range(n)]
        starts = [start + step for start in starts for step in steps]
    return starts


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
