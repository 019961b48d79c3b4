"""Weight gradients of 3x3 convolutions by Winograd.

Tiles of the data and of the cotangent are transformed. The micro-kernel of weight gradients multiplies them for each
frequency and sums over all tiles. The sums are transformed back to 3x3 taps.

The workspace holds the transformed operands V[channel block][frequency][tile][channel], which products read frequency
by frequency, and the sums of products U[frequency][panel][input channel][filter]. Frequencies are padded by a cache
line, so that their stores do not use the same set of the L1 cache. Tiles come in steps of the micro-kernel: those after
the last one are zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ....ir.lazy_dataclass import dataclass
from ...emission import Emission, LaunchSpec
from ..arithmetic import Value
from ..cpu import Cpu
from ..emitter import FunctionBuilder, ModuleBuilder
from ..schedule.describe import WeightGradientShape
from ..schedule.kinds import WinogradGradientSchedule
from ..schedule.segments import Box
from ..schedule.weight_gradient import TILES_OF_STEP, gradient_block, gradient_room
from ..types import F32, I1, I8, I32, I64, PTR, memory_type_of
from ..winograd_tiles import GRADIENT_TILE as TILE
from .gradient_operands import Panels, Placed, Rows, aligned, gradient_panels, place_operands, place_result
from .points import FILL_LANES, fill_table, offset_table, tile_cover
from .tiles import KERNEL_PARAMETERS, argument, workspace_slot
from .transpose import store_transposed
from .weight_gradient_tile import GradientTile, gradient_tile
from .winograd_math import Filtering, frequencies, gradient_transform, transform_tile
from .winograd_parts import cotangent_kernel, input_kernel

_LINE = 16
"""The number of floats in a cache line."""

_SQUARE = (Filtering(TILE, 3), Filtering(TILE, 3))
_FREQUENCIES = frequencies(_SQUARE)


def emit_winograd_gradient(
    shape: WeightGradientShape, schedule: WinogradGradientSchedule, target: Cpu, module: ModuleBuilder, symbol: str
) -> Emission:
    block = gradient_block(shape, target)
    room = gradient_room(shape)
    data, cotangent, copies, used = place_operands(shape, block, block, target, module, symbol, room)
    out, finish, used = place_result(shape, module, f"{symbol}.finish", used)
    nest = _Nest(module, shape, schedule, data, cotangent, out, used)
    launches = (*copies, *nest.emit(symbol), *finish)
    workspace = used + nest.shared_bytes + nest.worker_bytes * target.threads
    return Emission(launches, workspace, saves_products=True)


@dataclass(frozen=True, slots=True)
class _Transformed:
    """One transformed operand: `blocks` blocks of channels of `tiles` tiles, `start` floats into its memory."""

    operand: Placed
    blocks: int
    tiles: int
    start: int
    kernel: str
    size: int

    @property
    def plane(self) -> int:
        """The distance between blocks of channels."""
        return _FREQUENCIES * self.step

    @property
    def step(self) -> int:
        """The distance between frequencies."""
        return self.tiles * self.operand.place.block + _LINE

    @property
    def end(self) -> int:
        return self.start + self.blocks * self.plane


class _Nest:
    """Emits the launches. The workspace has `used` bytes in use, then what threads share, then what each worker has."""

    def __init__(
        self,
        module: ModuleBuilder,
        shape: WeightGradientShape,
        schedule: WinogradGradientSchedule,
        data: Placed,
        cotangent: Placed,
        out: Rows,
        used: int,
    ) -> None:
        self.module, self.shape, self.s, self.out, self.used = module, shape, schedule, out, used
        block, lanes = cotangent.place.block, schedule.lanes
        self.grid = (shape.images, *(-(-w.extent // TILE) for w in shape.windows))
        self.tiles = prod(self.grid)
        self.panels = gradient_panels(shape.filters, block, lanes, schedule.main, schedule.last)
        self.width = max(kind.tile.vectors for kind in self.panels) * lanes
        filters = sum(kind.tile.vectors * (kind.end - kind.begin) for kind in self.panels) * lanes
        kernels = input_kernel(module, _SQUARE, lanes, block), cotangent_kernel(module, _SQUARE, lanes, block)
        self.data = _Transformed(data, -(-shape.channels // block), schedule.tiles, 0, kernels[0], TILE + 2)
        self.cotangent = _Transformed(cotangent, -(-filters // block), schedule.tiles, self.data.end, kernels[1], TILE)
        self.units = -(-shape.channels // schedule.channels)
        self.last_channels = shape.channels - (self.units - 1) * schedule.channels
        self.rows = schedule.channels * 9 * self.width  # a panel's rows of weights, before they are transposed
        columns = shape.channels * filters if schedule.fused else schedule.channels * self.width
        self.step = columns + _LINE  # the distance between frequencies of U

    @property
    def shared_bytes(self) -> int:
        fused = self.s.parts * _FREQUENCIES * self.step
        return aligned(4 * (fused if self.s.fused else self.cotangent.end))

    @property
    def worker_bytes(self) -> int:
        fused = max(self.cotangent.end, self.rows)
        return aligned(4 * (fused if self.s.fused else _FREQUENCIES * self.step + self.rows))

    def emit(self, symbol: str) -> list[LaunchSpec]:
        if self.s.fused:
            return [self._emit_parts(f"{symbol}.parts"), self._emit_results(symbol)]
        return [self._emit_transforms(f"{symbol}.transform"), self._emit_products(symbol)]

    def _begin(self, symbol: str) -> FunctionBuilder:
        self.f = f = self.module.function(symbol, None, KERNEL_PARAMETERS)
        self.shared = f.gep(argument(f, workspace_slot(self.shape.kernel)), self.used, I8)
        own = f.gep(self.shared, self.shared_bytes, I8)
        self.own = f.gep(own, f.convert(f.args[3], "i64") * self.worker_bytes, I8)
        return f

    # Launches

    def _emit_parts(self, symbol: str) -> LaunchSpec:
        """The launch over parts of the tiles, each with its own sums."""
        f = self._begin(symbol)
        self._begin_products(self.own)
        tables = [f.alloca(I32, self.s.tiles + FILL_LANES) for _ in range(2)]
        size = -(-self.tiles // self.s.parts)
        with f.loop(f.args[1], f.args[2]) as part:
            begin = part * size
            end = f.smin(begin + size, self.tiles)
            sums = f.gep(self.shared, part * (_FREQUENCIES * self.step), F32)
            with f.loop(begin, end, self.s.tiles) as first:
                count = f.smin(end - first, self.s.tiles)
                for table, operand in zip(tables, (self.data, self.cotangent), strict=True):
                    self._fill(table, operand, first, count)
                    with f.loop(0, operand.blocks) as c:
                        self._transform(table, operand, self.own, c, count)
                self._all_products(sums, count, f.cmp("eq", first, begin))
        f.ret()
        return LaunchSpec(symbol, self.s.parts, 1)

    def _emit_results(self, symbol: str) -> LaunchSpec:
        """The launch over panels and channels that adds the sums of all parts and transforms them."""
        f = self._begin(symbol)
        with f.loop(f.args[1], f.args[2]) as unit:
            index, which = f.udiv(unit, self.units), f.urem(unit, self.units)
            channel, count = self._channels(which)
            for kind in self.panels:
                width = kind.tile.vectors * self.s.lanes
                with f.loop(f.smax(index, kind.begin), f.smin(index + 1, kind.end)) as panel:
                    start = f.add((panel - kind.begin) * width, kind.start)
                    sums = f.gep(self.shared, start * self.shape.channels + channel * width, F32)
                    self._store(kind, start, sums, self.own, channel, count)
        f.ret()
        return LaunchSpec(symbol, self.panels[-1].end * self.units, 1)

    def _emit_transforms(self, symbol: str) -> LaunchSpec:
        """The launch over blocks of channels of both operands that transforms all tiles."""
        f = self._begin(symbol)
        count, zero = f.const(I64, self.tiles), f.const(I64, 0)
        table = f.alloca(I32, self.s.tiles + FILL_LANES)
        before = 0
        for operand in (self.data, self.cotangent):
            end = before + operand.blocks
            low, high = f.smax(f.args[1], before), f.smin(f.args[2], end)
            with f.when(f.cmp("lt", low, high)):
                self._fill(table, operand, zero, count)
            with f.loop(low, high) as c:
                self._transform(table, operand, self.shared, c - before, count)
            before = end
        f.ret()
        return LaunchSpec(symbol, before, 1)

    def _emit_products(self, symbol: str) -> LaunchSpec:
        """The launch over channels that multiplies them by all filters, panel by panel."""
        f = self._begin(symbol)
        self._begin_products(self.shared)
        rows = f.gep(self.own, _FREQUENCIES * self.step, F32)
        n, yes = f.const(I64, -(-self.tiles // TILES_OF_STEP)), f.const(I1, 1)
        with f.loop(f.args[1], f.args[2]) as unit:
            channel, count = self._channels(unit)
            covers = [(f.cmp("eq", unit, self.units - 1), self.last_channels), (None, self.s.channels)]
            for kind in self.panels:
                with f.loop(kind.begin, kind.end) as panel:
                    start = f.add((panel - kind.begin) * (kind.tile.vectors * self.s.lanes), kind.start)
                    with f.loop(0, _FREQUENCIES) as frequency:
                        sums = f.gep(self.own, frequency * self.step, F32)
                        self._products(kind, frequency, start, channel, covers, sums, n, yes)
                    self._store(kind, start, self.own, rows, channel, count)
        f.ret()
        return LaunchSpec(symbol, self.units, 1)

    def _channels(self, unit: Value) -> tuple[Value, Value]:
        """The first channel of a unit, and the number of its channels."""
        first = unit * self.s.channels
        return first, self.f.smin(self.f.sub(self.shape.channels, first), self.s.channels)

    # Transforms of the operands

    def _fill(self, table: Value, operand: _Transformed, first: Value, count: Value) -> None:
        """The offsets of tiles in the operand."""
        place = operand.operand.place
        strides = (place.image, *(TILE * s for s in place.space))
        fill_table(self.f, table, first, count, self.grid, strides)

    def _transform(self, table: Value, operand: _Transformed, start: Value, c: Value, count: Value) -> None:
        """Transform one block of channels of `count` tiles, and clear the rest of a step."""
        f, place = self.f, operand.operand.place
        x = f.gep(operand.operand.address(f, F32), c * place.channel, F32)
        v = f.gep(start, c * operand.plane + operand.start, F32)
        f.call_void(operand.kernel, x, v, table, count, f.const(I64, place.space[0]), f.const(I64, operand.step))
        end = f.and_(count + (TILES_OF_STEP - 1), -TILES_OF_STEP)
        zero = f.const(F32.with_lanes(self.s.lanes), 0.0)
        with f.loop(count, end) as t, f.loop(0, _FREQUENCIES) as frequency:
            at = f.gep(v, frequency * operand.step + t * place.block, F32)
            for k in range(0, place.block, self.s.lanes):
                f.store(zero, f.gep(at, k, F32))

    # Products

    def _begin_products(self, operands: Value) -> None:
        """Prepare products of the transformed operands at an address."""
        f, block = self.f, self.data.operand.place.block
        self.operands = operands
        self.points = offset_table(f, Box((self.data.blocks, block), (self.data.plane, 1)))
        steps = [k * TILES_OF_STEP * block for k in range(self.s.tiles // TILES_OF_STEP)]
        self.steps = f.table(I32, steps)

    def _all_products(self, sums: Value, count: Value, first: Value) -> None:
        """Add the products of `count` tiles to the sums of all channels and filters."""
        f, s = self.f, self.s
        n = f.udiv(count + (TILES_OF_STEP - 1), TILES_OF_STEP)
        zero, covers = f.const(I64, 0), [(None, self.shape.channels)]
        with f.loop(0, _FREQUENCIES) as frequency:
            for kind in self.panels:
                with f.loop(kind.begin, kind.end) as panel:
                    start = f.add((panel - kind.begin) * (kind.tile.vectors * s.lanes), kind.start)
                    own = f.gep(sums, frequency * self.step + start * self.shape.channels, F32)
                    self._products(kind, frequency, start, zero, covers, own, n, first)

    def _products(
        self,
        kind: Panels,
        frequency: Value,
        start: Value,
        channel: Value,
        covers: Sequence[tuple[Value | None, int]],
        sums: Value,
        n: Value,
        first: Value,
    ) -> None:
        """Multiply channels from `channel` on by the panel's filters for one frequency. `covers` are the numbers of
        channels, each with its condition; the last has none."""
        f, s, tile = self.f, self.s, kind.tile
        x = f.gep(self.operands, frequency * self.data.step, F32)
        dy = f.gep(self.operands, frequency * self.cotangent.step + self.cotangent.start, F32)
        block = self.cotangent.operand.place.block
        dy = f.gep(dy, f.udiv(start, block) * self.cotangent.plane, F32)
        counts = [(when, tile_cover(count, tile.rows)) for when, count in covers]
        done = f.const(I64, 0)
        for rows in sorted({rows for _, cover in counts for rows in cover}, reverse=True):
            tiles = f.const(I64, counts[-1][1].get(rows, 0))
            for when, cover in counts[:-1]:
                assert when is not None
                tiles = f.select(when, f.const(I64, cover.get(rows, 0)), tiles)
            spec = GradientTile(
                element="float",
                lanes=s.lanes,
                rows=rows,
                vectors=tile.vectors,
                unroll=TILES_OF_STEP,
                data_step=block,
                step=block,
                per_block=block // s.lanes,
                table=0,
            )
            micro = gradient_tile(self.module, spec)
            plane = f.const(I64, self.cotangent.plane)
            with f.loop(0, tiles) as t:
                at = done + t * rows
                points = f.gep(self.points, channel + at, I32)
                own = f.gep(sums, at * (tile.vectors * s.lanes), F32)
                f.call_void(micro, n, self.steps, x, points, dy, plane, own, first)
            done = done + tiles * rows

    # Transform of the sums

    def _store(self, kind: Panels, start: Value, sums: Value, rows: Value, channel: Value, count: Value) -> None:
        """Transform the sums of a panel and of `count` channels, add the parts, and store rows of weights."""
        f, out, width = self.f, self.out, kind.tile.vectors * self.s.lanes
        symbol = result_kernel(self.module, self.s.lanes, kind.tile.vectors, self.s.parts)
        part = f.const(I64, _FREQUENCIES * self.step)
        f.call_void(symbol, sums, f.const(I64, self.step), part, rows, count)
        store = store_transposed(self.module, self.s.lanes, self.shape.accumulator, out.dtype)
        memory = memory_type_of(out.dtype)
        place = f.gep(argument(f, out.slot), start * out.stride + channel * 9 + out.base, memory)
        filters = f.smin(f.sub(self.shape.filters, start), width)
        f.call_void(store, rows, f.const(I64, width), place, f.const(I64, out.stride), filters, count * 9)


def result_kernel(module: ModuleBuilder, lanes: int, vectors: int, parts: int) -> str:
    """The symbol of `(sums, step, part, rows, count)`, which transforms the sums of `count` channels and `vectors`
    registers of filters to rows[channel][tap][filter]. Frequencies are `step` apart, parts of the sums `part`."""
    name = f"winograd.gradient.{lanes}.{vectors}.{parts}"

    def emit() -> None:
        parameters = [("sums", PTR, "noalias"), ("step", I64, ""), ("part", I64, ""), ("rows", PTR, "noalias")]
        f = module.function(
            name, None, [*parameters, ("count", I64, "")], linkage="internal", attributes="nounwind noinline"
        )
        _emit_result(f, lanes, vectors, parts)
        f.ret()

    return module.helper(name, emit)


def _emit_result(f: FunctionBuilder, lanes: int, vectors: int, parts: int) -> None:
    sums, step, part, rows, count = f.args
    vector, size = F32.with_lanes(lanes), TILE + 2
    with f.loop(0, count) as c, f.loop(0, vectors) as j:
        source = f.gep(sums, (c * vectors + j) * lanes, F32)
        target = f.gep(rows, (c * (9 * vectors) + j) * lanes, F32)

        def total(y: int, x: int, source: Value = source) -> Value:
            at = f.gep(source, step * (y * size + x), F32)
            added = f.load(at, vector)
            for k in range(1, parts):
                added = added + f.load(f.gep(at, part * k, F32), vector)
            return added

        for y, line in enumerate(transform_tile(f, _SQUARE, gradient_transform, total, (size, size))):
            for x, value in enumerate(line):
                f.store(value, f.gep(target, (y * 3 + x) * vectors * lanes, F32))
