"""Selects the first elements of the order of a row, which are few: words that can be among them are collected."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ..arithmetic import Value
from ..emitter import FunctionBuilder
from ..types import I64
from .lanes import compacted, count_lanes
from .ties import sort_ties

if TYPE_CHECKING:
    from .rows import RowLaunch

_POSITION = (1 << 32) - 1


def capacity(first: int) -> int:
    """Words that are collected before the first of them are selected."""
    return 2 * first + 128


def room(first: int, lanes: int) -> int:
    """Words of memory for a selection; `lanes` is the number of 32-bit words in a vector."""
    return capacity(first) + 2 * lanes


class Part(NamedTuple):
    """A part of a row: the address of the row, the positions of the part, how many words are selected, the memory for
    words, and that for sorts."""

    start: Value
    low: Value
    size: Value
    first: Value
    data: Value
    scratch: Value


class Selection:
    """Lets `part.data` begin with the `part.first` smallest words of a part of a row, in order; `sort` is the symbol
    of the sort.

    After the first `capacity` words, only keys below the greatest key of the words so far can matter: of equal keys the
    earlier position is first. Such words are appended, and when `capacity` is reached, the first of all are selected.
    If words have the upper halves of keys, those with the greatest one matter too, and each selection sorts ties.
    """

    def __init__(self, f: FunctionBuilder, launch: RowLaunch, sort: str, part: Part) -> None:
        self.f, self.launch, self.sort, self.part = f, launch, sort, part
        self.has_ties = launch.bits == 64
        self.full = f.add(f.mul(part.first, 2), 128)

    def emit(self) -> None:
        f, part = self.f, self.part
        begun = f.smin(part.size, self.full)
        self.launch.load_words(part.start, part.low, begun, part.data)
        self._select(begun)
        lanes = f.module.target.lanes(max(32, self.launch.bits))
        middle = begun + self.launch.contiguous(part.size - begun, lanes)
        held, limit = self._scan(begun, middle, lanes, part.first + 0, self._limit())
        held, _ = self._scan(middle, part.size, 1, held, limit)
        self._sort(held)

    def _scan(self, begin: Value, end: Value, step: int, held: Value, limit: Value) -> tuple[Value, Value]:
        """Collect from the elements [begin, end) of the part: how many words are held then, and the limit of keys."""
        f, launch, part = self.f, self.launch, self.part
        with f.carry_loop(begin, end, [held, limit], step) as loop:
            held, limit = loop.values
            position = part.low + loop.index
            place = f.gep(part.start, f.mul(position, launch.n.stride), launch.element)
            upper = launch.uppers(f.load(place, launch.element.with_lanes(step)))
            keys = f.convert(upper, "i32")
            bound = f.splat(limit, keys.type)
            below = f.cmp("lt", keys, bound)
            if self.has_ties:
                below = below | (f.cmp("eq", keys, bound) & f.splat(~launch.is_near, below.type))

            def collect() -> tuple[Value, Value]:
                more = self._append(held, keys, below, position)
                reduced = f.branch(f.cmp("ge", more, self.full), lambda: self._reduced(more), lambda: (more, limit))
                return reduced[0], reduced[1]

            loop.next(*f.branch(f.any(below), collect, lambda: (held, limit)))
        return loop.results[0], loop.results[1]

    def _append(self, held: Value, keys: Value, below: Value, position: Value) -> Value:
        """Store words after those that are held; how many these are then."""
        f, data = self.f, self.part.data
        half = min(keys.type.lanes, f.module.target.lanes(64))
        for k in range(0, keys.type.lanes, half):
            part, chosen = f.slice_lanes(keys, k, half), f.slice_lanes(below, k, half)
            type = I64.with_lanes(half)
            words = f.shl(f.convert(part, "i64"), 32) | (f.splat(position + k, type) + f.iota(type))
            place = f.gep(data, held, I64)
            f.store(words if half == 1 else compacted(f, words, chosen), place)
            held = held + (f.convert(chosen, "i64", signed=False) if half == 1 else count_lanes(f, chosen))
        return held

    def _reduced(self, held: Value) -> tuple[Value, Value]:
        self._select(held)
        return self.part.first + 0, self._limit()

    def _limit(self) -> Value:
        """The greatest key that is selected."""
        f = self.f
        return f.convert(f.ashr(f.load(f.gep(self.part.data, self.part.first - 1, I64), I64), 32), "i32")

    def _sort(self, held: Value) -> None:
        f, part = self.f, self.part
        f.call_void(self.sort, part.data, part.scratch, held, held if self.has_ties else part.first)
        if self.has_ties:
            sort_ties(f, self.launch, self.sort, part.start, part.data, part.scratch, held)

    def _select(self, held: Value) -> None:
        self._sort(held)
        if self.has_ties:
            self._restore()

    def _restore(self) -> None:
        """Store the words again that a sort of ties has changed."""
        f, launch, part = self.f, self.launch, self.part
        with f.loop(0, part.first) as i:
            position = f.load(f.gep(part.data, i, I64), I64) & _POSITION
            bits = f.load(f.gep(part.start, f.mul(position, launch.n.stride), launch.element), launch.element)
            f.store(launch.words(bits, position), f.gep(part.data, i, I64))
