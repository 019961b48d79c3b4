"""Tables of offsets of points, and balanced covers of points by register tiles, for the loop nests of contractions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from ....ir.symbolic import deferred, is_symbolic
from ..arithmetic import Value
from ..emitter import FunctionBuilder, ModuleBuilder
from ..schedule.describe import ContractionError
from ..schedule.segments import Box, Offsets
from ..types import I32, I64, PTR

FILL_LANES = 8


def tile_cover(count: int, rows: int, heights: tuple[int, ...] = ()) -> dict[int, int]:
    """{rows of a tile: number of tiles}, see `cover`. For a symbolic count the tiles have `heights`, in decreasing
    order and ending with 1, and symbolic numbers; the default is `rows` and the powers of two below it."""
    if not is_symbolic(count):
        return cover(count, rows)
    heights = heights or (rows, *(h for h in (4, 2, 1) if h < rows))
    return dict(zip(heights, deferred(_cover_counts, count, heights), strict=True))


def _cover_counts(count: int, heights: tuple[int, ...]) -> tuple[int, ...]:
    """The number of tiles of each height that cover `count` points: as few tiles as possible, then the lowest as high
    as possible."""
    whole = max(0, count // heights[0] - 2)
    rest = _best_cover(count - whole * heights[0], heights)
    return (whole + rest.count(heights[0]), *(rest.count(h) for h in heights[1:]))


@lru_cache(maxsize=4096)
def _best_cover(count: int, heights: tuple[int, ...]) -> tuple[int, ...]:
    """The heights of the tiles that cover a small count."""
    if not count:
        return ()
    covers = [(h, *_best_cover(count - h, heights)) for h in heights if h <= count]
    return min(covers, key=lambda tiles: (len(tiles), -min(tiles)))


def cover(count: int, rows: int) -> dict[int, int]:
    """{rows of a tile: number of tiles} for `count` points: tiles with `rows` rows and with one row less, which are
    both fast; lower tiles for a small count.
    """
    tiles = -(-count // rows)
    short = tiles * rows - count
    if tiles < short:
        rows = -(-count // tiles)
        short = tiles * rows - count
    return {r: n for r, n in ((rows, tiles - short), (rows - 1, short)) if n}


def blocks_of(count: int, size: int, rows: int) -> tuple[int, int]:
    """(size, number) of balanced blocks of about `size` points. The size is a multiple of `rows`, unless there is only
    one block.
    """
    number = max(1, -(-count // size))
    if number == 1:
        return count, 1
    even = -(-count // number)
    size = -(-even // rows) * rows
    return size, -(-count // size)


def channel_offset(f: FunctionBuilder, channel: Value, block: int, stride: int) -> Value:
    """The offset of a channel, in elements, in an array with a stride between blocks of `block` channels, or between
    channels if `block` is 1."""
    if block == 1:
        return channel * stride
    length = f.fixed(block)
    return f.udiv(channel, length) * stride + f.urem(channel, length)


def check_offset(offset: int) -> None:
    """ContractionError if an offset in elements does not fit the 32 bits of a table's entry."""
    if offset >= 1 << 31:  # for a symbolic offset this is a guard
        raise ContractionError(f"an operand of a contraction spans {offset} elements; at most 2^31 are supported")


def offset_table(f: FunctionBuilder, offsets: Offsets) -> Value:
    """The address of a table of offsets: a constant, or for symbolic offsets stack memory that is filled here.

    ContractionError if an offset does not fit 32 bits.
    """
    if isinstance(offsets, Box) and offsets.is_symbolic:
        table = f.alloca(I32, offsets.count + FILL_LANES)
        fill_table(f, table, f.const(I64, 0), f.const(I64, offsets.count), offsets.extents, offsets.strides)
        return table
    numbers = offsets.numbers() if isinstance(offsets, Box) else offsets
    check_offset(deferred(_largest, numbers))
    return f.table(I32, numbers)


def _largest(offsets: tuple[int, ...]) -> int:
    return max(offsets)


def fill_table(
    f: FunctionBuilder, table: Value, first: Value, count: Value, extents: Sequence[int], strides: Sequence[int]
) -> None:
    """table[i] = offset of point first + i of a box, for i < count. Up to 7 entries after the end are overwritten.

    ContractionError if an offset does not fit 32 bits.
    """
    check_offset(deferred(_last_offset, tuple(extents), tuple(strides)))
    symbol = _filler(f.module, len(extents))
    numbers = [f.const(I64, n) for n in (*extents, *strides)]
    f.call_void(symbol, table, first, count, *numbers)


def _last_offset(extents: tuple[int, ...], strides: tuple[int, ...]) -> int:
    return sum((n - 1) * abs(s) for n, s in zip(extents, strides, strict=True))


def _filler(module: ModuleBuilder, rank: int) -> str:
    name = f"points.fill{rank}"
    if not module.has_function(name):
        _emit_filler(module, name, rank)
    return "@" + name


def _emit_filler(module: ModuleBuilder, name: str, rank: int) -> None:
    """Fill row by row, a vector of consecutive offsets at a time; the next row overwrites excess entries."""
    numbers = [(f"{kind}{k}", I64, "") for kind in ("e", "s") for k in range(rank)]
    f = module.function(
        name,
        None,
        [("table", PTR, ""), ("first", I64, ""), ("count", I64, ""), *numbers],
        linkage="internal",
        attributes="nounwind noinline",
    )
    table, first, count, *rest = f.args
    extents, strides = rest[:rank], rest[rank:]
    width, step = extents[-1], f.convert(strides[-1], "i32")
    vector = I32.with_lanes(FILL_LANES)
    ramp = f.mul(f.splat(step, vector), f.iota(vector))

    def row(done: Value, line: Value, column: Value) -> list[Value]:
        n = f.smin(width - column, count - done)
        start = f.convert(_row_base(f, line, extents[:-1], strides[:-1]) + column * strides[-1], "i32")
        with f.loop(0, n, FILL_LANES) as i:
            values = f.splat(start + f.convert(i, "i32") * step, vector) + ramp
            f.store(values, f.gep(table, done + i, I32), align=4)
        return [done + n, line + 1, f.const(I64, 0)]

    def unfinished(done: Value, line: Value, column: Value) -> Value:
        return f.cmp("lt", done, count)

    f.while_loop([f.const(I64, 0), f.udiv(first, width), f.urem(first, width)], unfinished, row)
    f.ret()


def _row_base(f: FunctionBuilder, line: Value, extents: Sequence[Value], strides: Sequence[Value]) -> Value:
    base = f.const(I64, 0)
    for k in reversed(range(len(extents))):
        at = f.urem(line, extents[k]) if k else line
        base = f.add(base, at * strides[k])
        line = f.udiv(line, extents[k]) if k else line
    return base
