"""The loop nest of the weight gradients of convolutions, around the micro-kernel in `weight_gradient_tile.py`.

It divides weights and panels of filters into units of parallel work, and the reduction over positions into parts. The
sums of a unit are stored [panel][weight][filter] until the last part; then each panel is stored transposed, as rows of
weights. The sum of a part starts at zero and is added to the sums of the parts before, which loses less precision than
one long sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ....ir.lazy_dataclass import dataclass
from ....ir.symbolic import deferred, is_symbolic
from ...emission import Emission, LaunchSpec
from ..arithmetic import Value
from ..cpu import Cpu
from ..emitter import ModuleBuilder
from ..schedule.describe import WeightGradientShape
from ..schedule.kinds import RegisterTile, WeightGradientSchedule
from ..schedule.segments import Box, collapse
from ..schedule.weight_gradient import gradient_block
from ..types import I8, I32, I64, memory_type_of, type_of
from .conv import InputPlace, total_channels
from .gradient_operands import Placed, Rows, aligned, gradient_panels, place_operands, place_result
from .points import FILL_LANES, cover, fill_table, offset_table, tile_cover
from .tiles import KERNEL_PARAMETERS, argument, grain_of, workspace_slot
from .transpose import store_transposed
from .weight_gradient_tile import GradientTile, gradient_tile

_TABLE = 512
"""The fewest entries of a table of steps."""


def emit_weight_gradient(
    shape: WeightGradientShape, schedule: WeightGradientSchedule, target: Cpu, module: ModuleBuilder, symbol: str
) -> Emission:
    slot = workspace_slot(shape.kernel)
    block = gradient_block(shape, target)
    x = shape.kernel.buffer(shape.data.x.buffer)
    few = x.layout is None and total_channels(shape.data) < block
    data, cotangent, copies, used = place_operands(shape, 1 if few else block, block, target, module, symbol)
    out, finish, used = place_result(shape, module, f"{symbol}.finish", used)
    nest = _Nest(module, shape, schedule, data, cotangent, out, (slot, used))
    launch = nest.emit(symbol)
    return Emission((*copies, launch, *finish), used + nest.worker_bytes * target.threads)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """A part of every row of positions, in steps of `unroll` positions: `extents` of the steps, the last along the
    rows, with the offsets of the first and the distances between steps in data and cotangent.
    """

    unroll: int
    extents: tuple[int, ...]
    data: tuple[int, tuple[int, ...]]
    cotangent: tuple[int, tuple[int, ...]]

    @property
    def steps(self) -> int:
        return prod(self.extents)


def passes_of(
    extents: tuple[int, ...], data: tuple[int, ...], cotangent: tuple[int, ...], unroll: int
) -> tuple[Pass, ...]:
    """The passes over all positions: one if a number of positions near `unroll` divides the rows."""
    start, passes = 0, list[Pass]()
    for n, count in _row_cover(extents[-1], unroll).items():
        passes.append(
            Pass(
                unroll=n,
                extents=(*extents[:-1], count),
                data=(start * data[-1], (*data[:-1], n * data[-1])),
                cotangent=(start * cotangent[-1], (*cotangent[:-1], n * cotangent[-1])),
            )
        )
        start += n * count
    return tuple(passes)


def _row_cover(width: int, unroll: int) -> dict[int, int]:
    if is_symbolic(width):
        return tile_cover(width, unroll)
    whole = next((n for n in range(unroll, unroll // 2, -1) if width % n == 0), 0)
    return {whole: width // whole} if whole else cover(width, unroll)


def weight_offsets(shape: WeightGradientShape, place: InputPlace) -> Box:
    """The offset in the data of each weight of a filter, group by group, for the first position."""
    taps = tuple(w.taps for w in shape.windows)
    strides = tuple(w.dilation * s for w, s in zip(shape.windows, place.space, strict=True))
    return Box((-(-place.channels // place.block), place.block, *taps), (place.channel, 1, *strides))


class _Nest:
    def __init__(
        self,
        module: ModuleBuilder,
        shape: WeightGradientShape,
        schedule: WeightGradientSchedule,
        data: Placed,
        cotangent: Placed,
        out: Rows,
        sums: tuple[int, int],
    ) -> None:
        self.module, self.shape, self.s, self.out, self.sums_place = module, shape, schedule, out, sums
        self.data, self.cotangent = data, cotangent
        self.scalar = type_of(shape.accumulator)
        self.groups = shape.groups // schedule.merged
        self.filters = schedule.merged * shape.filters
        self.weights = schedule.merged * shape.weights
        self.panels = gradient_panels(self.filters, cotangent.place.block, schedule.lanes, schedule.main, schedule.last)
        self.count = self.panels[-1].end
        self.along, self.across = -(-self.weights // schedule.weights), -(-self.count // schedule.panels)
        self.width = max(kind.tile.vectors for kind in self.panels) * schedule.lanes
        self.passes = self._passes()
        self.last_weights = self.weights - (self.along - 1) * schedule.weights

    def _passes(self) -> tuple[Pass, ...]:
        shape, data, cotangent = self.shape, self.data.place, self.cotangent.place
        points = (shape.images, *(w.extent for w in shape.windows))
        x = (data.image, *(w.stride * s for w, s in zip(shape.windows, data.space, strict=True)))
        points, (x, dy) = collapse(points, [x, (cotangent.image, *cotangent.space)])
        return passes_of(points, x, dy, self.s.steps)

    @property
    def units(self) -> int:
        return self.groups * self.along * self.across

    @property
    def held(self) -> int:
        """The number of panels whose sums a unit holds: one if the reduction has one part."""
        one = len(self.passes) == 1 and not is_symbolic(self.passes[0].steps)
        return 1 if one and self.passes[0].steps <= self._part(self.passes[0]) else self.s.panels

    def _part(self, p: Pass) -> int:
        """The number of steps in a part of the reduction."""
        return max(1, self.s.positions // p.unroll)

    @property
    def table(self) -> int:
        """The entries of a table of a part's steps: nearly always the least number, so that layers share
        micro-kernels."""
        most = max(self._part(p) for p in self.passes) + FILL_LANES
        return max(_TABLE, 1 << (most - 1).bit_length())

    @property
    def worker_bytes(self) -> int:
        return aligned(self.held * self.s.weights * self.width * self.scalar.bytes)

    def emit(self, symbol: str) -> LaunchSpec:
        self.f = f = self.module.function(symbol, None, KERNEL_PARAMETERS)
        self.x0, self.dy0 = self.data.address(f, self.scalar), self.cotangent.address(f, self.scalar)
        self.offsets = offset_table(f, weight_offsets(self.shape, self.data.place))
        self.steps = f.alloca(I32, 2 * self.table)
        start = f.gep(argument(f, self.sums_place[0]), self.sums_place[1], I8)
        self.sums = f.gep(start, f.convert(f.args[3], "i64") * self.worker_bytes, I8)
        with f.loop(f.args[1], f.args[2]) as unit:
            self._unit(unit)
        f.ret()
        products = self.shape.images * prod(w.extent for w in self.shape.windows)
        products *= self.groups * self.weights * self.filters
        return LaunchSpec(
            symbol, self.units, grain_of(products, self.units, self.s.lanes * self.module.target.fma_per_cycle)
        )

    def _unit(self, unit: Value) -> None:
        """unit = (group, panels, weights)."""
        f, s = self.f, self.s
        part, rest = f.urem(unit, self.along), f.udiv(unit, self.along)
        panels, group = f.urem(rest, self.across), f.udiv(rest, self.across)
        self.group, self.first_weight = group, part * s.weights
        self.is_last_unit = f.cmp("eq", part, self.along - 1)
        self.low = panels * s.panels
        self.high = f.smin(self.low + s.panels, self.count)
        self.points = f.gep(self.offsets, group * self.weights + self.first_weight, I32)
        blocks = self.filters // self.cotangent.place.block if self.groups > 1 else 0
        self.dy = f.gep(self.dy0, group * (blocks * self.cotangent.place.channel), self.scalar)
        counts = tuple(p.steps for p in self.passes)
        ends = deferred(_ends, counts)
        for i, p in enumerate(self.passes):
            size = self._part(p)
            with f.loop(0, p.steps, size) as step:
                n = f.smin(f.sub(p.steps, step), size)
                first = f.cmp("eq", step, 0) & f.cmp("eq", f.const(I64, ends[0]), i)
                last = f.cmp("ge", step + n, p.steps) & f.cmp("eq", f.const(I64, ends[1]), i)
                fill_table(f, self.steps, step, n, p.extents, p.data[1])
                fill_table(f, f.gep(self.steps, self.table, I32), step, n, p.extents, p.cotangent[1])
                self._panels(p, n, first, last)

    def _panels(self, p: Pass, n: Value, first: Value, last: Value) -> None:
        f = self.f
        place = self.cotangent.place
        for kind in self.panels:
            width = kind.tile.vectors * self.s.lanes
            with f.loop(f.smax(self.low, kind.begin), f.smin(self.high, kind.end)) as panel:
                start = f.add((panel - kind.begin) * width, kind.start)
                dy = f.gep(self.dy, f.udiv(start, place.block) * place.channel, self.scalar)
                sums = self.sums
                if is_symbolic(self.held) or self.held > 1:
                    sums = f.gep(sums, (panel - self.low) * (self.s.weights * self.width), self.scalar)
                self._tiles(p, kind.tile, n, f.gep(dy, p.cotangent[0], self.scalar), sums, first)
                with f.when(last):
                    self._store(sums, start, width)

    def _tiles(self, p: Pass, tile: RegisterTile, n: Value, dy: Value, sums: Value, first: Value) -> None:
        f, s = self.f, self.s
        whole, ragged = tile_cover(s.weights, tile.rows), tile_cover(self.last_weights, tile.rows)
        x, plane = f.gep(self.x0, p.data[0], self.scalar), f.const(I64, self.cotangent.place.channel)
        done = f.const(I64, 0)
        for rows in sorted({*whole, *ragged}, reverse=True):
            tiles = f.select(self.is_last_unit, f.const(I64, ragged.get(rows, 0)), f.const(I64, whole.get(rows, 0)))
            spec = GradientTile(
                element=self.scalar.element,
                lanes=s.lanes,
                rows=rows,
                vectors=tile.vectors,
                unroll=p.unroll,
                data_step=p.data[1][-1] // p.unroll,
                step=p.cotangent[1][-1] // p.unroll,
                per_block=self.cotangent.place.block // s.lanes,
                table=self.table,
            )
            micro = gradient_tile(self.module, spec)
            with f.loop(0, tiles) as t:
                at = done + t * rows
                points, own = f.gep(self.points, at, I32), f.gep(sums, at * (tile.vectors * s.lanes), self.scalar)
                f.call_void(micro, n, self.steps, x, points, dy, plane, own, first)
            done = done + tiles * rows

    def _store(self, sums: Value, start: Value, width: int) -> None:
        """Store the panel whose first filter is `start`."""
        f, out = self.f, self.out
        symbol = store_transposed(self.module, self.s.lanes, self.shape.accumulator, out.dtype)
        memory = memory_type_of(out.dtype)
        base = f.gep(argument(f, out.slot), f.add(self.group * (self.filters * out.stride), out.base), memory)
        count = f.smin(f.sub(self.filters, start), width)
        weights = f.select(self.is_last_unit, f.const(I64, self.last_weights), f.const(I64, self.s.weights))
        wide, stride = f.const(I64, width), f.const(I64, out.stride)
        if self.s.merged == 1:
            place = f.gep(f.gep(base, start * out.stride, memory), self.first_weight, memory)
            f.call_void(symbol, sums, wide, place, stride, count, weights)
            return
        own = self.shape.weights
        with f.loop(0, count) as i:  # a filter's weights are those of its own group
            begin = f.udiv(start + i, self.shape.filters) * own
            low = f.smax(begin, self.first_weight)
            n = f.smin(begin + own, self.first_weight + weights) - low
            place = f.gep(f.gep(base, (start + i) * out.stride, memory), low - begin, memory)
            source = f.gep(sums, (low - self.first_weight) * width + i, self.scalar)
            f.call_void(symbol, source, wide, place, stride, f.const(I64, 1), n)


def _ends(counts: Sequence[int]) -> tuple[int, int]:
    """The first and the last pass with steps."""
    nonzero = [i for i, n in enumerate(counts) if n]
    return nonzero[0], nonzero[-1]
