"""Selects the first elements of the order of a row, which are few: words that can be among them are collected."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..arithmetic import Value
from ..emitter import FunctionBuilder
from ..types import I32, I64
from .lanes import compacted, count_lanes

if TYPE_CHECKING:
    from .rows import RowLaunch


def capacity(first: int) -> int:
    """Words that are collected before the first of them are selected."""
    return 2 * first + 128


def room(first: int, lanes: int) -> int:
    """Words of memory for a selection; `lanes` is the number of 32-bit words in a vector."""
    return capacity(first) + 2 * lanes


def select_top(
    f: FunctionBuilder,
    launch: RowLaunch,
    sort: str,
    start: Value,
    low: Value,
    count: Value,
    first: Value,
    data: Value,
    scratch: Value,
) -> None:
    """Let `data` begin with the `first` smallest words of a part of a row, in order.

    After the first `capacity` words, only keys below the greatest key of the words so far can matter: of equal keys the
    earlier position is first. Such words are appended, and when `capacity` is reached, the first of all are selected.
    """
    full = f.add(f.mul(first, 2), 128)
    begun = f.smin(count, full)
    launch.load_words(start, low, begun, data)
    f.call_void(sort, data, scratch, begun, first)
    lanes = f.module.target.lanes(32)

    def bound() -> Value:
        """The greatest key that is selected."""
        return f.convert(f.ashr(f.load(f.gep(data, first - 1, I64), I64), 32), "i32")

    def selected(held: Value) -> tuple[Value, Value]:
        f.call_void(sort, data, scratch, held, first)
        return first + 0, bound()

    def append(held: Value, keys: Value, below: Value, position: Value) -> Value:
        """Store words after those that are held."""
        half = min(keys.type.lanes, f.module.target.lanes(64))
        for k in range(0, keys.type.lanes, half):
            part, chosen = f.slice_lanes(keys, k, half), f.slice_lanes(below, k, half)
            type = I64.with_lanes(half)
            words = f.shl(f.convert(part, "i64"), 32) | (f.splat(position + k, type) + f.iota(type))
            if half == 1:
                f.store(words, f.gep(data, held, I64))
                held = held + f.convert(chosen, "i64", signed=False)
            else:
                f.store(compacted(f, words, chosen), f.gep(data, held, I64))
                held = held + count_lanes(f, chosen)
        return held

    def scan(begin: Value, end: Value, step: int, held: Value, limit: Value) -> tuple[Value, Value]:
        with f.carry_loop(begin, end, [held, limit], step) as loop:
            held, limit = loop.values
            place = f.mul(low + loop.index, launch.n.stride)
            bits = f.load(f.gep(start, place, launch.element), launch.element.with_lanes(step))
            keys = f.convert(launch.keys.keys(f, bits, equal_zeros=True), "i32")
            below = f.cmp("lt", keys, f.splat(limit, I32.with_lanes(step)))

            def collect() -> tuple[Value, Value]:
                more = append(held, keys, below, low + loop.index)
                return f.branch(f.cmp("ge", more, full), lambda: selected(more), lambda: (more + 0, limit + 0))  # type: ignore[return-value]

            loop.next(*f.branch(f.any(below), collect, lambda: (held + 0, limit + 0)))
        return loop.results  # type: ignore[return-value]

    middle = begun + launch.contiguous(count - begun, lanes)
    held, limit = scan(begun, middle, lanes, first + 0, bound())
    held, _ = scan(middle, count, 1, held, limit)
    f.call_void(sort, data, scratch, held, first)
