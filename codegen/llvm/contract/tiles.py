"""The loop nest around the micro-kernel of a contraction.

It divides groups, blocks of points and panels of channels into units of parallel work. In a unit it runs the
micro-kernel on each register tile, for each part of the reduction.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from ....ir.kernel import Kernel
from ....ir.lazy_dataclass import dataclass
from ....ir.symbolic import deferred
from ...emission import LaunchSpec
from ..arithmetic import Value
from ..cpu import Cpu
from ..emitter import FunctionBuilder, ModuleBuilder
from ..schedule.kinds import RegisterTile, TileSchedule
from ..schedule.segments import Segment, weight_row
from ..schedule.strides import ContractionError
from ..types import I1, I8, I32, I64, PTR, Type, memory_type_of
from .micro import MicroKernel, micro_kernel
from .points import FILL_LANES, blocks_of, channel_offset, fill_table, offset_table, tile_cover
from .problem import Problem

KERNEL_PARAMETERS = [("arguments", PTR, ""), ("begin", I64, ""), ("end", I64, ""), ("worker", I32, "")]


def argument(f: FunctionBuilder, slot: int) -> Value:
    """The address in argument `slot` of the kernel."""
    return f.load(f.gep(f.args[0], slot, PTR), PTR)


_CHUNK_CYCLES = 16 << 10
"""Work below which another thread gains nothing: about four microseconds."""


_WEIGHT_BYTES = 32
"""Weights that arrive from a cache that threads share, in bytes per cycle."""


def workspace_slot(kernel: Kernel) -> int:
    """The slot of the workspace, after buffers and extents."""
    return len(kernel.buffers) + len(kernel.extents)


Part = tuple[int, Value, Value]


@dataclass(frozen=True, slots=True, kw_only=True)
class PanelKind:
    """The panels from `begin` to `end`, which have the same register tile. `offset` is the start of their weights in
    the packed group, in elements. `valid` is the number of channels of the last panel that are not padding (0: all, -1:
    none).
    """

    tile: RegisterTile
    begin: int
    end: int
    offset: int = 0
    valid: int = 0


def panel_kinds(problem: Problem, schedule: TileSchedule) -> tuple[list[PanelKind], int]:
    """The kinds of panels, and the number of elements of a group's packed weights."""
    vectors = -(-problem.channels // schedule.lanes)
    out = problem.epilogue.out.view
    if out.padded:
        vectors = -(-vectors * schedule.lanes // out.block) * out.block // schedule.lanes
    last, parts = schedule.last, problem.parts
    main = (vectors * parts - (last.vectors if last else 0)) // schedule.main.vectors
    width = schedule.main.vectors * schedule.lanes
    valid = 0 if last else _valid(problem.channels, main, width // parts)
    kinds = _main_kinds(schedule.main, main, valid, width * problem.depth)
    size = main * width * problem.depth
    if last:
        own = last.vectors * schedule.lanes
        valid = _ragged(problem.channels - main * width // parts, own // parts)
        kinds.append(PanelKind(tile=last, begin=main, end=main + 1, offset=size, valid=valid))
        size += own * problem.depth
    return kinds, size


def _main_kinds(tile: RegisterTile, count: int, valid: int, size: int) -> list[PanelKind]:
    """`count` panels of `size` packed elements. A last panel with padding is a separate kind."""
    if not valid:
        return [PanelKind(tile=tile, begin=0, end=count)] if count else []
    last = PanelKind(tile=tile, begin=count - 1, end=count, offset=(count - 1) * size, valid=valid)
    return [PanelKind(tile=tile, begin=0, end=count - 1), last] if count > 1 else [last]


def _valid(channels: int, panels: int, width: int) -> int:
    return _ragged(channels - (panels - 1) * width, width)


def _ragged(channels: int, width: int) -> int:
    """Channels in the last panel: 0 if it is full, -1 if all of it is padding."""
    return 0 if channels >= width else channels if channels > 0 else -1


def sums_bytes(problem: Problem, schedule: TileSchedule) -> int:
    """The memory of a worker for the sums between parts of the reduction, in bytes."""
    if not is_split(problem, schedule):
        return 0
    size, _ = point_blocks(problem, schedule)
    panels = schedule.panels if schedule.reduction_outside else 1
    return -(-size * _widest(schedule) * panels * Type.of(problem.element).bytes // 64) * 64


def point_blocks(problem: Problem, schedule: TileSchedule) -> tuple[int, int]:
    """(points in a block, number of blocks)."""
    rows = max(kind.tile.rows for kind in panel_kinds(problem, schedule)[0])
    return deferred(blocks_of, problem.count, schedule.points, rows)


def _widest(schedule: TileSchedule) -> int:
    """The number of channels of the widest panel."""
    return max(t.vectors for t in (schedule.main, schedule.last) if t) * schedule.lanes


def is_split(problem: Problem, schedule: TileSchedule) -> bool:
    return len(problem.segments) > 1 or 0 < schedule.steps < problem.steps


def emit_tiles(
    module: ModuleBuilder, problem: Problem, schedule: TileSchedule, symbol: str, sums: tuple[int, int]
) -> LaunchSpec:
    """The launch of the whole contraction. `sums` is (argument slot, byte offset) of the workers' sums in the
    workspace.
    """
    nest = _Nest(module, problem, schedule, symbol, sums)
    nest.emit()
    per_cycle = schedule.lanes * module.target.fma_per_cycle
    weights = prod(problem.groups) * problem.channels * problem.parts * problem.depth
    products = weights * deferred(_points_in_time, problem.count, per_cycle * Type.of(problem.element).bytes)
    return LaunchSpec(symbol, nest.units, grain_of(products, nest.units, per_cycle))


def _points_in_time(count: int, bytes_per_cycle: int) -> int:
    """The number of points that take as long as `count` points and reading the weights once."""
    return max(count, bytes_per_cycle // _WEIGHT_BYTES)


def grain_of(products: int, units: int, per_cycle: int) -> int:
    """The number of units in the smallest chunk that is worth giving to another thread."""
    return deferred(_grain, products, units, per_cycle)


def _grain(products: int, units: int, per_cycle: int) -> int:
    """The units of a chunk; half of all if they are more than one chunk and less than two."""
    grain = _CHUNK_CYCLES * per_cycle * units // max(1, products)
    return max(1, units // 2 if units // 2 < grain < units else grain)


class _Nest:
    def __init__(
        self, module: ModuleBuilder, problem: Problem, schedule: TileSchedule, symbol: str, sums: tuple[int, int]
    ) -> None:
        self.problem, self.schedule, self.module = problem, schedule, module
        self.scalar, self.weight = Type.of(problem.element), Type.of(problem.weight_element)
        self.tables = problem.tables
        self.epilogue = problem.vector_epilogue
        self.kinds, self.group_size = panel_kinds(problem, schedule)
        self.panels = self.kinds[-1].end
        self.block, self.blocks = point_blocks(problem, schedule)
        self.last_block = problem.count - (self.blocks - 1) * self.block
        self.per_unit = min(schedule.panels or self.panels, self.panels)
        self.panel_units = -(-self.panels // self.per_unit)
        self.units = prod(problem.groups) * self.panel_units * self.blocks
        self.split = is_split(problem, schedule)
        self.line_taps = None if self.split else problem.line_taps
        self.sums = sums
        self.f = module.function(symbol, None, KERNEL_PARAMETERS, shares=True)

    def emit(self) -> None:
        f, problem = self.f, self.problem
        _, begin, end, _ = f.args
        self.x0, self.w0 = argument(f, problem.x_slot), argument(f, problem.w_slot)
        self.operands = [(argument(f, o.slot), o.view, memory_type_of(o.dtype)) for o in problem.epilogue.operands]
        self.context = f.alloca(I64, len(self.tables.strides) + 2 * len(self.operands))
        self.offsets = [f.alloca(I32, self.block + FILL_LANES) for _ in self.tables.strides]
        for k, table in enumerate(self.offsets):
            f.store(table, f.gep(self.context, k, PTR))
        for k, (_, view, _) in enumerate(self.operands):
            f.store(f.const(I64, view.stride), f.gep(self.context, len(self.offsets) + 2 * k + 1, I64))
        self.acc = self._worker_sums()
        self.steps = [offset_table(f, segment.steps) for segment in problem.segments]
        with f.loop(begin, end) as unit:
            self._unit(unit)
        f.ret()

    def _worker_sums(self) -> Value:
        f = self.f
        if not self.split:
            return f.const(PTR, 0)
        size = sums_bytes(self.problem, self.schedule)
        start = f.gep(argument(f, self.sums[0]), self.sums[1], I8)
        return f.gep(start, f.convert(f.args[3], "i64") * size, I8)

    def _unit(self, unit: Value) -> None:
        f = self.f
        block, rest = f.urem(unit, self.blocks), f.udiv(unit, self.blocks)
        panels, group = f.urem(rest, self.panel_units), f.udiv(rest, self.panel_units)
        first = self.first_point = block * self.block
        is_last = f.cmp("eq", block, self.blocks - 1)
        count = f.select(is_last, f.const(I64, self.last_block), f.const(I64, self.block))
        for k, (table, strides) in enumerate(zip(self.offsets, self.tables.strides, strict=True)):
            fill_table(f, table, first, count, self.problem.points if k else self.problem.x_points, strides)
        groups = self._group_index(group)
        self.x = self._at(self.x0, self.problem.x.base, self.problem.x.groups, groups, self.scalar)
        self.bases = [self._at(p, v.base, v.groups, groups, t) for p, v, t in self.operands]
        self.w = self._group_weights(group, groups)
        low = panels * self.per_unit
        self._panels(low, f.smin(low + self.per_unit, self.panels), is_last)

    def _group_index(self, group: Value) -> list[Value]:
        """The index along each group axis; the last axis varies fastest."""
        digits: list[Value] = []
        for k in reversed(range(len(self.problem.groups))):
            digits.append(self.f.urem(group, self.problem.groups[k]) if k else group)
            group = self.f.udiv(group, self.problem.groups[k]) if k else group
        return digits[::-1]

    def _at(self, start: Value, base: int, strides: tuple[int, ...], index: list[Value], element: Type) -> Value:
        f = self.f
        address = f.gep(start, base, element)
        for i, stride in zip(index, strides, strict=True):
            address = f.gep(address, i * stride, element) if stride else address
        return address

    def _group_weights(self, group: Value, groups: list[Value]) -> Value:
        f, weights = self.f, self.problem.weights
        if not self.schedule.pack:
            return self._at(self.w0, weights.base, weights.groups, groups, self.weight)
        if not any(weights.groups):  # all groups share one packed operand
            return self.w0
        return f.gep(self.w0, group * self.group_size, self.weight)

    # Panels and parts of the reduction

    def _panels(self, low: Value, high: Value, is_last: Value) -> None:
        zero = self.f.const(I64, 0)

        def panels_of(part: Part) -> None:
            self._each_panel(low, high, lambda kind, panel: self._part(kind, panel, panel - low, part, is_last))

        def parts_of(kind: PanelKind, panel: Value) -> None:
            self._each_part(lambda part: self._part(kind, panel, zero, part, is_last))

        if self.schedule.reduction_outside:
            self._each_part(panels_of)
        else:
            self._each_panel(low, high, parts_of)

    def _each_panel(self, low: Value, high: Value, body: Callable[[PanelKind, Value], None]) -> None:
        f = self.f
        for kind in self.kinds:
            with f.loop(f.smax(low, kind.begin), f.smin(high, kind.end)) as panel:
                body(kind, panel)

    def _each_part(self, body: Callable[[Part], None]) -> None:
        """`body((segment, first step, number of steps))` for each part of the reduction."""
        f = self.f
        for s, segment in enumerate(self.problem.segments):
            n = segment.count
            size = self.schedule.steps or n
            if size >= n:
                body((s, f.const(I64, 0), f.const(I64, n)))
                continue
            with f.loop(0, n, size) as part:
                body((s, part, f.smin(n - part, size)))

    def _part(self, kind: PanelKind, panel: Value, local: Value, where: Part, is_last: Value) -> None:
        f, problem = self.f, self.problem
        s, part, count = where
        segments, segment = problem.segments, problem.segments[s]
        width = kind.tile.vectors * self.schedule.lanes
        first = f.cmp("eq", part, 0) if s == 0 else f.const(I1, 0)
        last = f.cmp("ge", part + count, segment.count) if s == len(segments) - 1 else f.const(I1, 0)
        self._set_bases(kind, panel)
        depth = sum(x.depth for x in segments[:s])
        weights = self._weights(kind, panel, depth, part * len(segment.unroll), width)
        steps = f.gep(self.steps[s], part, I32)
        room = self.block * _widest(self.schedule)
        sums = f.gep(self.acc, local * room, self.scalar) if self.split else self.acc
        self._tiles(kind, segment, count, weights, steps, sums, (first, last, is_last))

    def _set_bases(self, kind: PanelKind, panel: Value) -> None:
        """Set the addresses of the result and of the epilogue's operands to the panel's first channel."""
        f = self.f
        channel = self._first_channel(kind, panel)
        for k, ((_, view, element), base) in enumerate(zip(self.operands, self.bases, strict=True)):
            same = view.block == 1 and not view.stride
            address = base if same else f.gep(base, channel_offset(f, channel, view.block, view.stride), element)
            f.store(address, f.gep(self.context, len(self.offsets) + 2 * k, PTR))

    def _first_channel(self, kind: PanelKind, panel: Value) -> Value:
        lanes, parts = self.schedule.lanes, self.problem.parts
        start = kind.begin * self.schedule.main.vectors * lanes // parts
        return self.f.add((panel - kind.begin) * (kind.tile.vectors * lanes // parts), start)

    def _weights(self, kind: PanelKind, panel: Value, depth: int, part: Value, width: int) -> Value:
        f = self.f
        if not self.schedule.pack:
            row = self._weight_row()
            return f.gep(self.w, self._first_channel(kind, panel) + (part + depth) * row, self.weight)
        at = (panel - kind.begin) * (width * self.problem.depth) + (part + depth) * width + kind.offset
        return f.gep(self.w, at, self.weight)

    def _weight_row(self) -> int:
        """The stride between rows of weights that are read in place, in elements."""
        row = weight_row(self.problem.segments)
        if row is None:
            raise ContractionError(f"{self.f.symbol}: weights at irregular distances cannot be read in place")
        return row

    # Tiles

    def _tiles(
        self,
        kind: PanelKind,
        segment: Segment,
        count: Value,
        w: Value,
        steps: Value,
        sums: Value,
        flags: tuple[Value, ...],
    ) -> None:
        f = self.f
        first, last, is_last = flags
        width = kind.tile.vectors * self.schedule.lanes
        whole, ragged = tile_cover(self.block, kind.tile.rows), tile_cover(self.last_block, kind.tile.rows)
        row = f.const(I64, 0 if self.schedule.pack else self._weight_row())
        per_step = len(segment.unroll) * width
        ahead = f.gep(w, count * per_step, self.weight)
        near_lines = f.const(I64, self.schedule.prefetch)
        lines = count * (self.schedule.prefetch * 64 // self.weight.bytes)
        point, done = f.const(I64, 0), f.const(I64, 0)
        for rows in sorted({*whole, *ragged}, reverse=True):
            tiles = f.select(is_last, f.const(I64, ragged.get(rows, 0)), f.const(I64, whole.get(rows, 0)))
            micro = self._micro(kind, rows, segment)
            with f.loop(0, tiles) as t:
                at = point + t * rows
                acc = f.gep(sums, at * width, self.scalar) if self.split else sums
                nearby = f.gep(ahead, (done + t) * lines, self.weight) if self.schedule.prefetch else ahead
                n, own_steps, own_weights = self._needed(at, rows, count, steps, w, per_step)
                f.call_void(
                    micro,
                    n,
                    self.x,
                    own_steps,
                    own_weights,
                    row,
                    acc,
                    self.context,
                    at,
                    nearby,
                    near_lines,
                    first,
                    last,
                )
            point, done = point + tiles * rows, done + tiles

    def _needed(
        self, at: Value, rows: int, count: Value, steps: Value, w: Value, per_step: int
    ) -> tuple[Value, Value, Value]:
        """The number, offsets and weights of the steps that tile `at` needs: those of taps that meet data."""
        f, taps = self.f, self.line_taps
        if taps is None:
            return count, steps, w
        point = self.first_point + at
        low, end = taps.emit_range(f, point, point + (rows - 1))
        each = self.problem.steps // taps.taps
        begin = low * each
        return (end - low) * each, f.gep(steps, begin, I32), f.gep(w, begin * per_step, self.weight)

    def _micro(self, kind: PanelKind, rows: int, segment: Segment) -> str:
        spec = MicroKernel(
            element=self.problem.element,
            weights=self.problem.weight_element,
            lanes=self.schedule.lanes,
            rows=rows,
            vectors=kind.tile.vectors,
            unroll=segment.unroll,
            rest=segment.rest,
            tables=len(self.tables.strides),
            epilogue=self.epilogue,
            split=self.split,
            prefetches=self.schedule.prefetch > 0,
            ahead=self.schedule.ahead,
            in_place=not self.schedule.pack,
            valid=kind.valid,
            parts=self.problem.parts,
        )
        return micro_kernel(self.module, spec)


def workspace_bytes(problem: Problem, schedule: TileSchedule, target: Cpu) -> int:
    return sums_bytes(problem, schedule) * target.threads
