"""Emits kernels without contractions: pointwise work and index maps over flat or two-dimensional blocks, and rows."""

from __future__ import annotations

from ...ir.kernel import Kernel, Local, Reduce, Ref, Stage, Store, dtype_of, local, walk
from .expressions import Expressions
from .schedule import TileDim, TritonSchedule
from .source import Source, Value
from .types import NAMES, literal, register


def emit_tile(kernel: Kernel, schedule: TritonSchedule, source: Source) -> None:
    """Emit the body of the kernel's function; each program computes one tile, which has whole rows if the kernel
    reduces."""
    reduced = _reduced(schedule)
    frame = tuple(d.name for d in schedule.dims if d.block > 1)
    tile = Expressions(kernel, schedule, source, frame)
    _define_grid(tile, [d for d in schedule.dims if d is not reduced])
    if reduced is None:
        _stores(tile, list(kernel.stages))
        return
    total = tile.total("r").constant
    if total is not None and total <= reduced.block:
        tile.define("r", _range("r", schedule))
        _stores(tile, list(kernel.stages))
        return
    _chunks(tile)


def _reduced(schedule: TritonSchedule) -> TileDim | None:
    return schedule.dims[-1] if schedule.dims[-1].name == "r" else None


def _range(dim: str, schedule: TritonSchedule) -> str:
    """The points of a block, with 64 bits if offsets need them."""
    return f"tl.arange(0, {dim.upper()}_BLOCK){'.to(tl.int64)' if schedule.wide else ''}"


def _define_grid(tile: Expressions, dims: list[TileDim]) -> None:
    """Define indices of the tile's dimensions from the program's number; the last dimension varies fastest."""
    wide = ".to(tl.int64)" if tile.schedule.wide else ""
    rest = tile.source.let("pid", f"tl.program_id(0){wide}")
    used = [d for d in dims if d.axes] or dims[-1:]
    for dim in reversed(used):
        blocks = program_count(tile, dim)
        part = rest if dim is used[0] else f"{rest} % {blocks}"
        start = (
            part if dim.block == 1 else f"{part} * {dim.name.upper()}_BLOCK + tl.arange(0, {dim.name.upper()}_BLOCK)"
        )
        tile.define(dim.name, start)
        if dim is not used[0]:
            rest = tile.source.let("pid", f"{rest} // {blocks}")


def program_count(tile: Expressions, dim: TileDim) -> str:
    """The number of blocks that cover a dimension, as source text."""
    total = tile.total(dim.name)
    if total.constant is not None:
        return str(-(-total.constant // dim.block))
    return str(total) if dim.block == 1 else f"tl.cdiv({total}, {dim.name.upper()}_BLOCK)"


def _stores(tile: Expressions, stages: list[Stage]) -> None:
    """Compute all values before storing the first, which can overwrite an operand."""
    needed = frozenset(d for d in tile.frame if d != "r")
    stores = [stage for stage in stages if isinstance(stage, Store)]
    values = [tile.value(stage.value) for stage in stores]
    for stage, value in zip(stores, values, strict=True):
        tile.store(stage, needed, value)


# -- rows longer than a block


def _chunks(tile: Expressions) -> None:
    """Emit a loop over the row for each depth of dependent reductions; results along the row are stored in the first
    loop in which all values are known."""
    kernel = tile.kernel
    rows = [s for s in kernel.stages if isinstance(s, Store) and not _is_along(kernel, s)]
    along = [s for s in kernel.stages if isinstance(s, Store) and _is_along(kernel, s)]
    reductions = [s for s in kernel.stages if isinstance(s, Local) and isinstance(s.value, Reduce)]
    depths = {s.name: _depth(kernel, s) for s in reductions}
    for depth in range(1 + max([*depths.values(), *(_depth(kernel, s) for s in along)])):
        now = [s for s in reductions if depths[s.name] == depth + 1]
        _loop(tile, now, [s for s in along if _depth(kernel, s) == depth])
    _stores(tile, list(rows))


def _is_along(kernel: Kernel, stage: Store) -> bool:
    reduced = {a.name for a in kernel.axes if a.kind.value == "reduce"}
    used = {a for i in stage.index for a, _ in getattr(i, "terms", ())}
    return bool(used & reduced)


def _depth(kernel: Kernel, stage: Stage) -> int:
    """The number of loops that compute a stage's value; a reduction counts its own loop."""
    below = [_depth(kernel, local(kernel, e.local)) for e in walk(stage.value) if isinstance(e, Ref)]
    own = isinstance(stage, Local) and isinstance(stage.value, Reduce)
    return max(below, default=0) + own


def _loop(tile: Expressions, reductions: list[Local], stores: list[Store]) -> None:
    if not reductions and not stores:
        return
    source, schedule = tile.source, tile.schedule
    sums = [_accumulator(tile, s) for s in reductions]
    start = source.fresh("r_start")
    with source.loop(f"for {start} in range(0, {tile.total('r')}, R_BLOCK):", "r"):
        tile.define("r", f"{start} + {_range('r', schedule)}")
        for stage, total in zip(reductions, sums, strict=True):
            _accumulate(tile, stage, total)
        _stores(tile, list(stores))
    for stage, total in zip(reductions, sums, strict=True):
        assert isinstance(stage.value, Reduce)
        value = tile.collapse(stage.value.op, total, "r", stage.name)
        source.remember((tile.frame, Ref(stage.name)), value)


def _accumulator(tile: Expressions, stage: Local) -> Value:
    """A tile of partial results, so that a row is reduced across threads only once."""
    reduce = stage.value
    assert isinstance(reduce, Reduce)
    dtype = dtype_of(tile.kernel, reduce)
    neutral = literal(reduce.op.neutral(dtype), dtype)
    name = tile.source.let("sums", f"tl.full({tile.shape()}, {neutral}, {NAMES[register(dtype)]})")
    return Value(name, frozenset(tile.frame), dtype)


def _accumulate(tile: Expressions, stage: Local, total: Value) -> None:
    reduce = stage.value
    assert isinstance(reduce, Reduce)
    value = tile.masked(reduce.op, reduce.operand, "r")
    tile.source.line(f"{total.text} = {tile.combine(reduce.op, total, value)}")
