"""Sorts runs of words of 64-bit keys whose upper halves are equal, by the lower halves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..arithmetic import Value
from ..emitter import FunctionBuilder
from ..types import I64

if TYPE_CHECKING:
    from .rows import RowLaunch

_FEW = 16  # words that are sorted by insertion
_POSITION = (1 << 32) - 1


def sort_ties(
    f: FunctionBuilder, launch: RowLaunch, sort: str, start: Value, data: Value, scratch: Value, count: Value
) -> None:
    """Let `count` words, sorted by the upper halves of their keys, be sorted by keys, then positions. Their upper
    halves are undefined after that. Words of near keys have no ties; see `RowLaunch.uppers`."""

    def upper(i: Value) -> Value:
        return f.ashr(f.load(f.gep(data, i, I64), I64), 32)

    def lower_word(i: Value) -> Value:
        """The word of the lower half of a key."""
        position = f.load(f.gep(data, i, I64), I64) & _POSITION
        bits = f.load(f.gep(start, f.mul(position, launch.n.stride), I64), I64)
        key = launch.keys.keys(f, bits, equal_zeros=True)
        return f.shl(key ^ (1 << 31), 32) | position

    def sort_run(begin: Value) -> tuple[Value]:
        shared = upper(begin)

        def continues(i: Value) -> Value:
            inside = f.cmp("lt", i, count)
            return inside & f.cmp("eq", upper(f.smin(i, count - 1)), shared)

        def following(i: Value) -> tuple[Value]:
            return (i + 1,)

        (end,) = f.while_loop([begin + 1], continues, following)
        size = end - begin
        with f.when(f.cmp("gt", size, 1)):
            with f.loop(begin, end) as i:
                f.store(lower_word(i), f.gep(data, i, I64))
            run = f.gep(data, begin, I64)
            f.branch(
                f.cmp("le", size, _FEW), lambda: _insert(f, run, size), lambda: _sorted(f, sort, run, scratch, size)
            )
        return (end,)

    def remains(i: Value) -> Value:
        return f.cmp("lt", i, count)

    f.while_loop([f.select(launch.is_near, count, 0)], remains, sort_run)


def _sorted(f: FunctionBuilder, sort: str, run: Value, scratch: Value, size: Value) -> tuple[()]:
    f.call_void(sort, run, scratch, size, size)
    return ()


def _insert(f: FunctionBuilder, run: Value, size: Value) -> tuple[()]:
    """Sort a short run by insertion."""
    with f.loop(1, size) as i:
        word = f.load(f.gep(run, i, I64), I64)

        def precedes(j: Value) -> Value:
            before = f.load(f.gep(run, f.smax(j - 1, 0), I64), I64)
            return f.cmp("gt", j, 0) & f.cmp("gt", before, word)

        def move(j: Value) -> tuple[Value]:
            f.store(f.load(f.gep(run, j - 1, I64), I64), f.gep(run, j, I64))
            return (j - 1,)

        (place,) = f.while_loop([i], precedes, move)
        f.store(word, f.gep(run, place, I64))
    return ()
