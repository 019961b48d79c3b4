"""Emits kernels without contractions: pointwise work and index maps over flat or two-dimensional blocks, and rows."""

from __future__ import annotations

from math import prod

from ...ir.kernel import Affine, Kernel, Load, Store, walk
from .expressions import Expressions
from .rows import emit_chunks, has_parts, store_all
from .schedule import TileDim, TritonSchedule
from .source import Source


def emit_tile(kernel: Kernel, schedule: TritonSchedule, source: Source, phase: int) -> None:
    """Emit the body of the function of a phase; each program computes one tile, which has entire rows, or parts of rows
    that are split, if the kernel reduces."""
    reduced = _reduced(schedule)
    frame = tuple(d.name for d in schedule.dims if d.block > 1)
    tile = Expressions(kernel, schedule, source, frame)
    part = _define_grid(tile, [d for d in schedule.dims if d is not reduced], has_parts(kernel, schedule, phase))
    total = None if reduced is None else tile.total("r").constant
    if reduced is not None and (total is None or total > reduced.block):
        emit_chunks(tile, phase, part)
        return
    if reduced is not None:
        tile.define("r", f"tl.arange(0, R_BLOCK){'.to(tl.int64)' if schedule.wide else ''}")
        _load_all(tile)
    store_all(tile, [stage for stage in kernel.stages if isinstance(stage, Store)])


def _load_all(tile: Expressions) -> None:
    """Load all operands of short rows before the first reduction, at which the threads wait for each other."""
    elements = prod(d.block for d in tile.schedule.dims) // (32 * tile.schedule.num_warps)
    loads = dict.fromkeys(e for s in tile.kernel.stages for e in walk(s.value) if isinstance(e, Load))
    if elements * len(loads) > _HELD:
        return
    for load in loads:
        if all(isinstance(i, Affine) for i in load.index):
            tile.load(load)


_HELD = 64
"""The most registers of a thread for operands that are loaded in advance."""


def _reduced(schedule: TritonSchedule) -> TileDim | None:
    return schedule.dims[-1] if schedule.dims[-1].name == "r" else None


def _define_grid(tile: Expressions, dims: list[TileDim], has_parts: bool) -> str:
    """Define indices of the tile's dimensions from the program's number; the last dimension varies fastest, and parts
    of rows before it. The result is the number of the part, "" if there is none."""
    wide = ".to(tl.int64)" if tile.schedule.wide else ""
    part, rest = "", tile.source.let("pid", f"tl.program_id(0){wide}")
    if has_parts:
        part = tile.source.let("part", f"{rest} % {tile.schedule.split}")
        rest = tile.source.let("pid", f"{rest} // {tile.schedule.split}")
    used = [d for d in dims if d.axes] or dims[-1:]
    for dim in reversed(used):
        blocks = program_count(tile, dim)
        index = rest if dim is used[0] else f"{rest} % {blocks}"
        start = (
            index if dim.block == 1 else f"{index} * {dim.name.upper()}_BLOCK + tl.arange(0, {dim.name.upper()}_BLOCK)"
        )
        tile.define(dim.name, start)
        if dim is not used[0]:
            rest = tile.source.let("pid", f"{rest} // {blocks}")
    return part


def program_count(tile: Expressions, dim: TileDim) -> str:
    """The number of blocks that cover a dimension, as source text."""
    total = tile.total(dim.name)
    if total.constant is not None:
        return str(-(-total.constant // dim.block))
    return str(total) if dim.block == 1 else f"tl.cdiv({total}, {dim.name.upper()}_BLOCK)"
