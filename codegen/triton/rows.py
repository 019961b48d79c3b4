"""Emits rows longer than a block: a loop over the row for each depth of dependent reductions.

If long rows are few, each is split into parts, and each depth is a launch of its own, a phase: its programs reduce one
part of their rows and store the results in the workspace, which the programs of later phases combine in order. The last
phase stores what remains of the kernel's results.
"""

from __future__ import annotations

from dataclasses import replace

from ...ir.kernel import Kernel, Local, Reduce, Ref, Stage, Store, contracts, dtype_of, local, walk
from ...ir.types import DType
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
    return 1 + max(depth(kernel, stage) for stage in kernel.stages) if is_split(kernel, schedule) else 1


def has_parts(kernel: Kernel, schedule: TritonSchedule, phase: int) -> bool:
    """True if a program of this phase has one part of its rows: it reduces, or stores results along the row."""
    inner = phase < phases(kernel, schedule) - 1
    return is_split(kernel, schedule) and (inner or any(depth(kernel, s) == phase for s in stores_along(kernel)))


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
    loops = range(1 + max(depth(kernel, stage) for stage in kernel.stages))
    is_last = phase == phases(kernel, tile.schedule) - 1
    rows = [s for s in kernel.stages if isinstance(s, Store) and s not in along] if is_last else []
    if is_split(kernel, tile.schedule):
        loops = loops[phase : phase + 1]
    for loop in loops:
        now = [s for s in every if depth(kernel, s) == loop + 1]
        stores = [s for s in along if depth(kernel, s) == loop]
        if is_split(kernel, tile.schedule):
            _combine(tile, _used(kernel, [*now, *stores, *rows]))
        for stage, value in _loop(tile, now, stores, part):
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


def _combine(tile: Expressions, needed: list[Local]) -> None:
    """Let references to these reductions be the results of all parts."""
    source, every = tile.source, [s.name for s in reductions(tile.kernel)]
    for stage in needed:
        reduce = _reduce(stage)
        index = f"tl.arange(0, {tile.schedule.split})" + ("[None, :]" if len(tile.frame) > 1 else "")
        mask = tile.dim_mask("x")
        text = f"tl.load({_word(tile, every.index(stage.name), index)}{f', mask={mask}, other=0' if mask else ''})"
        value = number_in(source.let("parts", text), dtype_of(tile.kernel, reduce))
        value = replace(value, dims=frozenset(tile.frame))
        source.remember((tile.frame, Ref(stage.name)), tile.collapse(reduce.op, value, "r", stage.name))


def _word(tile: Expressions, number: int, part: str) -> str:
    """The address of the results of a part."""
    row = tile.expand(tile.variables["x"], "x")
    return f"{WORK} + ({number * tile.schedule.split} + {part}) * {tile.total('x')} + {row}"


def _bits(dtype: DType) -> str:
    """The conversion of a value to 64 bits; `number_in` is its inverse."""
    if not dtype.is_float:
        return ".to(tl.int64)"
    return ".to(tl.int64, bitcast=True)" if dtype is DType.F64 else ".to(tl.int32, bitcast=True).to(tl.int64)"
