"""Emits rows longer than a block: a loop over the row for each depth of dependent reductions.

If long rows are few, each is split into parts, and each depth is a launch of its own, a phase: its programs reduce one
part of their rows and store the results in the workspace, which the programs of later phases combine in order. The last
phase stores what remains of the kernel's results.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ...ir.kernel import Kernel, Local, Reduce, Ref, Stage, Store, contracts, dtype_of, local, walk
from ...ir.types import DType
from .centered import Centered, find_centered
from .depths import depth, reductions, stores_along
from .expressions import Expressions, number_in
from .schedule import TritonSchedule
from .source import Value
from .split import WORK, part_range
from .types import NAMES, literal, register


def is_split(kernel: Kernel, schedule: TritonSchedule) -> bool:
    """True if rows are split; a contraction splits its sum in one launch."""
    return schedule.split > 1 and not contracts(kernel)


def phases(kernel: Kernel, schedule: TritonSchedule) -> int:
    """The launches of a kernel in which each reduction is a stage (`hoist_reductions`)."""
    if not is_split(kernel, schedule):
        return 1
    centered = find_centered(kernel)
    return 1 + max(depth(kernel, stage, centered) for stage in kernel.stages)


def has_parts(kernel: Kernel, schedule: TritonSchedule, phase: int) -> bool:
    """True if a program of this phase has one part of its rows: it reduces, or stores results along the row."""
    if not is_split(kernel, schedule):
        return False
    centered = find_centered(kernel)
    is_inner = phase < phases(kernel, schedule) - 1
    return is_inner or any(depth(kernel, s, centered) == phase for s in stores_along(kernel))


def words_of_row(kernel: Kernel, schedule: TritonSchedule) -> int:
    """The words of the workspace for each row."""
    return schedule.split * len(reductions(kernel))


def store_all(tile: Expressions, stages: list[Store]) -> None:
    """Compute all values before storing the first, which can overwrite an operand."""
    needed = frozenset(d for d in tile.frame if d != "r")
    values = [tile.value(stage.value) for stage in stages]
    for stage, value in zip(stages, values, strict=True):
        tile.store(stage, needed, value)


def emit_chunks(tile: Expressions, phase: int, part: str) -> None:
    """Emit the loops of a phase: all of them, or that of one depth if rows are split. `part` is the number of the part;
    "" for entire rows. Results along the row are stored in the first loop in which all values are known.
    """
    kernel = tile.kernel
    every, along = reductions(kernel), stores_along(kernel)
    centered = find_centered(kernel) if is_split(kernel, tile.schedule) else dict[str, Centered]()
    loops = range(1 + max(depth(kernel, stage, centered) for stage in kernel.stages))
    is_last = phase == phases(kernel, tile.schedule) - 1
    rows = [s for s in kernel.stages if isinstance(s, Store) and s not in along] if is_last else []
    if is_split(kernel, tile.schedule):
        loops = loops[phase : phase + 1]
    for loop in loops:
        now = [s for s in every if depth(kernel, s, centered) == loop + 1]
        stores = [s for s in along if depth(kernel, s, centered) == loop]
        if is_split(kernel, tile.schedule):
            plain = [s for s in now if s.name not in centered]
            _combine(tile, _used(kernel, [*plain, *stores, *rows]), centered)
        for stage, value in _loops(tile, now, stores, part, centered):
            if part:
                _save(tile, every.index(stage), value, part)
            else:
                tile.source.remember((tile.frame, Ref(stage.name)), value)
    store_all(tile, rows)


def _used(kernel: Kernel, stages: list[Stage]) -> list[Local]:
    """The reductions whose results these stages read."""
    used: dict[str, Local] = {}
    for stage in stages:
        for e in walk(stage.value):
            if isinstance(e, Ref):
                below = local(kernel, e.local)
                inner = [below] if isinstance(below.value, Reduce) else _used(kernel, [below])
                used |= {s.name: s for s in inner}
    return list(used.values())


def _loops(
    tile: Expressions, reduced: list[Local], stores: list[Store], part: str, centered: Mapping[str, Centered]
) -> list[tuple[Local, Value]]:
    """`_loop`, and one for the sums of this part that are centered, by the mean of the part."""
    plain = [s for s in reduced if s.name not in centered]
    results = _loop(tile, plain, stores, part)
    if len(plain) == len(reduced):
        return results
    source, values = tile.source, {stage.name: value for stage, value in results}
    begin, end = part_range(source, part, str(tile.total("r")), "R_BLOCK", tile.schedule.split)
    others = [centered[s.name] for s in reduced if s.name in centered]
    for each in others:
        total = values[each.total.name]
        points = f"tl.maximum({end} - {begin}, 1).to({NAMES[register(total.dtype)]})"
        mean = source.let(each.mean.name, f"{total.text} / {points}", total.dims)
        source.remember((tile.frame, Ref(each.mean.name)), replace(total, text=mean))
    return results + _loop(tile, [each.squares for each in others], [], part)


def _loop(tile: Expressions, reduced: list[Local], stores: list[Store], part: str) -> list[tuple[Local, Value]]:
    """A loop over the row, or over one part of it. The result is each reduction with its value."""
    if not reduced and not stores:
        return []
    source, schedule = tile.source, tile.schedule
    sums = [_accumulator(tile, s) for s in reduced]
    start, points = source.fresh("r_start"), f"range(0, {tile.total('r')}, R_BLOCK)"
    index = f"{start} + tl.arange(0, R_BLOCK){'.to(tl.int64)' if schedule.wide else ''}"
    if part:
        begin, end = part_range(source, part, str(tile.total("r")), "R_BLOCK", schedule.split)
        points = f"range({begin}, {end}, R_BLOCK)"
    elif schedule.dim("r").block == 1:
        index, points = start, f"tl.static_range({tile.total('r')})"
    with source.loop(f"for {start} in {points}:", "r"):
        tile.define("r", index)
        for stage, total in zip(reduced, sums, strict=True):
            _accumulate(tile, stage, total)
        store_all(tile, stores)
    return [
        (stage, tile.collapse(_reduce(stage).op, total, "r", stage.name))
        for stage, total in zip(reduced, sums, strict=True)
    ]


def _reduce(stage: Local) -> Reduce:
    assert isinstance(stage.value, Reduce)
    return stage.value


def _accumulator(tile: Expressions, stage: Local) -> Value:
    """A tile of partial results, so that a row is reduced across threads only once."""
    reduce = _reduce(stage)
    dtype = dtype_of(tile.kernel, reduce)
    neutral = literal(reduce.op.neutral(dtype), dtype)
    name = tile.source.let("sums", f"tl.full({tile.shape()}, {neutral}, {NAMES[register(dtype)]})")
    return Value(name, frozenset(tile.frame), dtype)


def _accumulate(tile: Expressions, stage: Local, total: Value) -> None:
    reduce = _reduce(stage)
    value = tile.masked(reduce.op, reduce.operand, "r")
    tile.source.line(f"{total.text} = {tile.combine(reduce.op, total, value)}")


# -- parts of rows


def _save(tile: Expressions, number: int, value: Value, part: str) -> None:
    """Store the results of a part of the rows."""
    mask = tile.dim_mask("x")
    word = f"{tile.source.short(value).text}{_bits(value.dtype)}"
    tile.source.line(f"tl.store({_word(tile, number, part)}, {word}{f', mask={mask}' if mask else ''})")


def _combine(tile: Expressions, needed: list[Local], centered: Mapping[str, Centered]) -> None:
    """Let references to these reductions be the results of all parts."""
    totals = [centered[s.name].total for s in needed if s.name in centered]
    plain = dict.fromkeys(s for s in (*totals, *needed) if s.name not in centered)
    parts = {stage.name: _parts(tile, stage) for stage in plain}
    for stage in plain:
        _remember(tile, stage, parts[stage.name])
    for each in (centered[s.name] for s in needed if s.name in centered):
        _remember(tile, each.squares, _centered_parts(tile, each, parts[each.total.name]))


def _remember(tile: Expressions, stage: Local, parts: Value) -> None:
    total = tile.collapse(_reduce(stage).op, parts, "r", stage.name)
    tile.source.remember((tile.frame, Ref(stage.name)), total)


def _parts(tile: Expressions, stage: Local) -> Value:
    """The results of all parts of a reduction."""
    every, mask = [s.name for s in reductions(tile.kernel)], tile.dim_mask("x")
    address = _word(tile, every.index(stage.name), _numbers(tile))
    text = f"tl.load({address}{f', mask={mask}, other=0' if mask else ''})"
    value = number_in(tile.source.let("parts", text), dtype_of(tile.kernel, _reduce(stage)))
    return replace(value, dims=frozenset(tile.frame))


def _numbers(tile: Expressions) -> str:
    """The numbers of all parts, along the row."""
    return f"tl.arange(0, {tile.schedule.split})" + ("[None, :]" if len(tile.frame) > 1 else "")


def _centered_parts(tile: Expressions, each: Centered, totals: Value) -> Value:
    """What parts add to a sum of squares of differences from the mean of the row."""
    source, length, split = tile.source, tile.total("r"), tile.schedule.split
    known = source.find((tile.frame, Ref(each.total.name)))
    assert known is not None
    longest = source.let("each", f"tl.cdiv(tl.cdiv({length}, R_BLOCK), {split}) * R_BLOCK")
    points = f"tl.minimum(tl.maximum({length} - {_numbers(tile)} * {longest}, 0), {longest})"
    points = source.let("points", f"{points}.to({NAMES[register(totals.dtype)]})")
    means = f"{totals.text} / tl.maximum({points}, 1.0)"
    offset = source.let("offset", f"{means} - {known.text} / {length}")
    squares = _parts(tile, each.squares)
    return replace(squares, text=f"{squares.text} + {points} * {offset} * {offset}")


def _word(tile: Expressions, number: int, part: str) -> str:
    """The address of the results of a part."""
    row = tile.expand(tile.variables["x"], "x")
    return f"{WORK} + ({number * tile.schedule.split} + {part}) * {tile.total('x')} + {row}"


def _bits(dtype: DType) -> str:
    """The conversion of a value to 64 bits; `number_in` is its inverse."""
    if not dtype.is_float:
        return ".to(tl.int64)"
    return ".to(tl.int64, bitcast=True)" if dtype is DType.F64 else ".to(tl.int32, bitcast=True).to(tl.int64)"
