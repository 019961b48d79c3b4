"""Sorting networks: vectors in registers are sorted as one sequence, which continues from each vector to the next.

First each lane is sorted across the vectors by Batcher's network. Then groups of 1, 2, 4, ... lanes are merged in
pairs: two sorted groups are a bitonic sequence if one is read backwards, so each step exchanges a vector with a later
one whose lanes are reversed, and the last steps exchange lanes within each vector.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

from ..arithmetic import Value
from ..emitter import FunctionBuilder
from ..types import I1
from .lanes import exchanged


def sort_vectors(f: FunctionBuilder, vectors: Sequence[Value]) -> list[Value]:
    """The elements of all vectors in order: lane after lane of the first, then of the second. The number of vectors is
    a power of two."""
    rows = list(vectors)
    for a, b in _batcher(len(rows)):
        rows[a], rows[b] = exchanged(f, rows[a], rows[b])
    group = 1
    while group < rows[0].type.lanes:
        _merge_groups(f, rows, group)
        group *= 2
    return rows


def merge_vectors(f: FunctionBuilder, a: Value, b: Value) -> tuple[Value, Value]:
    """Two sorted vectors as one sorted sequence."""
    lanes = a.type.lanes
    low, high = exchanged(f, a, _reversed_groups(f, b, lanes))
    distance = lanes // 2
    while distance:
        low, high = _exchange_lanes(f, low, distance, distance), _exchange_lanes(f, high, distance, distance)
        distance //= 2
    return low, high


def _batcher(count: int) -> Iterator[tuple[int, int]]:
    """The exchanges of Batcher's odd-even merge sort of `count` elements."""
    width = 1
    while width < count:
        step = width
        while step:
            for j in range(step % width, count - step, 2 * step):
                for i in range(j, min(j + step, count - step)):
                    if i // (2 * width) == (i + step) // (2 * width):
                        yield i, i + step
            step //= 2
        width *= 2


def _merge_groups(f: FunctionBuilder, rows: list[Value], group: int) -> None:
    """Merge neighbouring groups of lanes, which are sorted sequences across all rows."""
    block = len(rows)
    while block > 1:
        for start in range(0, len(rows), block):
            for j in range(block // 2):
                a, b = start + j, start + block - 1 - j
                rows[a], rows[b] = exchanged(f, rows[a], _reversed_groups(f, rows[b], 2 * group))
        block //= 2
    for i, row in enumerate(rows):
        row, distance = _exchange_lanes(f, row, 2 * group - 1, group), group // 2
        while distance:
            row, distance = _exchange_lanes(f, row, distance, distance), distance // 2
        rows[i] = row


def _reversed_groups(f: FunctionBuilder, a: Value, group: int) -> Value:
    """The lanes of each group in reverse order."""
    return f.shuffle(a, a, _partners(a.type.lanes, group - 1))


def _exchange_lanes(f: FunctionBuilder, a: Value, partner: int, upper: int) -> Value:
    """Exchange each lane k with lane k ^ partner: lanes with bit `upper` have the maxima."""
    low, high = exchanged(f, a, f.shuffle(a, a, _partners(a.type.lanes, partner)))
    mask = Value(_upper_lanes(a.type.lanes, upper), I1.with_lanes(a.type.lanes), f)
    return f.select(mask, high, low)


@cache
def _partners(lanes: int, partner: int) -> tuple[int, ...]:
    return tuple(k ^ partner for k in range(lanes))


@cache
def _upper_lanes(lanes: int, upper: int) -> str:
    """The text of the mask of lanes with bit `upper`."""
    return f"<{', '.join('i1 true' if k & upper else 'i1 false' for k in range(lanes))}>"
