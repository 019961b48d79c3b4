"""Winograd convolution: blocks of tiles are transformed, multiplied for each frequency by the micro-kernel, and
transformed back with the epilogue. The module `winograd_layout` describes the arrays between these steps.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from ....ir.kernel import Ref
from ....ir.lazy_dataclass import dataclass
from ....ir.symbolic import is_symbolic
from ....ir.types import DType
from ...emission import LaunchSpec
from ..arithmetic import Value
from ..emitter import FunctionBuilder, ModuleBuilder
from ..schedule.contract import winograd_sizes
from ..schedule.describe import ConvShape
from ..schedule.kinds import RegisterTile, WinogradSchedule
from ..types import F32, I1, I32, I64, PTR, memory_type_of
from .conv import InputPlace
from .epilogue import Epilogue, point_tables
from .micro import MicroKernel, micro_kernel
from .points import FILL_LANES, channel_offset, fill_table, tile_cover
from .tiles import KERNEL_PARAMETERS, PanelKind, argument
from .vector_epilogue import SUM, Access, VectorEpilogue
from .winograd_layout import LINE, winograd_layout, winograd_tile
from .winograd_parts import OutputKernel, filter_kernel, input_kernel, output_kernel


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """A part of the reduction: `count` blocks of channels, the first of which is `begin`. `weights` are those of one
    frequency, `ahead` is what its products prefetch."""

    count: Value
    begin: Value
    weights: Value
    ahead: Value
    first: Value
    last: Value


class WinogradNest:
    """Emits the launches. `x_slot` and `work_slot` are the argument slots of the input and the workspace, of which the
    first `used` floats are in use.
    """

    def __init__(
        self,
        module: ModuleBuilder,
        schedule: WinogradSchedule,
        shape: ConvShape,
        place: InputPlace,
        epilogue: Epilogue,
        kinds: list[PanelKind],
        *,
        x_slot: int,
        work_slot: int,
        used: int,
    ) -> None:
        self.module, self.s, self.shape, self.place, self.kinds = module, schedule, shape, place, kinds
        self.x_slot, self.work_slot, self.used = x_slot, work_slot, used
        self.tile = winograd_tile(shape, schedule)
        self.outputs = tuple(a.outputs for a in self.tile)
        self.sizes = winograd_layout(shape, schedule, place.block)
        self.windows = winograd_sizes(shape).windows
        steps = tuple(zip(self.windows, self.outputs, strict=True))
        self.grid = (shape.images, *(-(-w.outputs // m) for w, m in steps))
        self.tiles = self.grid[0] * self.grid[1] * self.grid[2]
        self.blocks = -(-self.tiles // schedule.tiles)
        self.last_block = self.tiles - (self.blocks - 1) * schedule.tiles
        self.ragged = is_symbolic(self.tiles) or any(w.outputs % m for w, m in steps)
        self.epilogue = epilogue
        self.tables = point_tables(epilogue.out.view, epilogue.views)
        self.code = epilogue.vectorized(self.tables)

    # Launches

    def emit(self, symbol: str) -> list[LaunchSpec]:
        if not is_symbolic(self.s.fused):
            return [self.emit_fused(symbol)] if self.s.fused else self._emit_separate(symbol)
        fused, separate = self.emit_fused(symbol), self._emit_separate(f"{symbol}.separate")
        return [
            replace(fused, count=fused.count * self.s.fused),
            *(replace(spec, count=spec.count * (1 - self.s.fused)) for spec in separate),
        ]

    def _emit_separate(self, symbol: str) -> list[LaunchSpec]:
        return [self.emit_inputs(f"{symbol}.transform"), self.emit_products(symbol)]

    def emit_fused(self, symbol: str) -> LaunchSpec:
        """The launch over blocks of tiles that does transforms and products."""
        f = self._begin(symbol, self.sizes.inputs + self.sizes.products)
        self.products = f.gep(self.own, self.sizes.inputs, F32)
        self.inputs = self.own
        with f.loop(f.args[1], f.args[2]) as block:
            first, count, is_last = self._block(block)
            self._fill_inputs(first, count)
            self._fill_outputs(first, count)
            with f.loop(0, self._channel_blocks) as c:
                self._transform_inputs(c, count)
            self._all_panels(f.const(I64, 0), f.const(I64, self.kinds[-1].end), count, is_last)
        f.ret()
        return LaunchSpec(symbol, self.blocks, 1)

    def emit_inputs(self, symbol: str) -> LaunchSpec:
        """The launch over blocks of input channels that transforms all tiles."""
        f = self._begin(symbol, 0)
        self.inputs = self.own
        count = f.const(I64, self.tiles)
        self._fill_inputs(f.const(I64, 0), count)
        with f.loop(f.args[1], f.args[2]) as c:
            self._transform_inputs(c, count)
        f.ret()
        return LaunchSpec(symbol, self._channel_blocks, 1)

    def emit_products(self, symbol: str) -> LaunchSpec:
        """The launch over panels of output channels that computes products and output transforms of all tiles."""
        f = self._begin(symbol, self.sizes.products + self.sizes.weights, self.sizes.inputs)
        self.products, self.inputs = self.own, self.shared
        count = f.const(I64, self.tiles)
        self._fill_outputs(f.const(I64, 0), count)
        self._all_panels(f.args[1], f.args[2], count, f.const(I1, 1))
        f.ret()
        return LaunchSpec(symbol, self.kinds[-1].end, 1)

    @property
    def _channel_blocks(self) -> int:
        return self.sizes.blocks

    def _begin(self, symbol: str, own: int, shared: int = 0) -> FunctionBuilder:
        """A new function. Its workspace has `shared` floats, then `own` floats for each worker."""
        self.f = f = self.module.function(symbol, None, KERNEL_PARAMETERS, shares=True)
        self.shared = f.gep(argument(f, self.work_slot), self.used, F32)
        self.own = f.gep(f.gep(self.shared, shared, F32), f.convert(f.args[3], "i64") * own, F32)
        return f

    def _block(self, block: Value) -> tuple[Value, Value, Value]:
        f = self.f
        is_last = f.cmp("eq", block, self.blocks - 1)
        return (
            block * self.s.tiles,
            f.select(is_last, f.const(I64, self.last_block), f.const(I64, self.s.tiles)),
            is_last,
        )

    # Input transform

    def _fill_inputs(self, first: Value, count: Value) -> None:
        f, (down, along) = self.f, self.outputs
        self.input_table = f.alloca(I32, self.s.tiles + FILL_LANES)
        rows, columns = self.place.space
        fill_table(f, self.input_table, first, count, self.grid, (self.place.image, down * rows, along * columns))
        self.x = f.gep(argument(f, self.x_slot), self.place.base, F32)

    def _transform_inputs(self, c: Value, count: Value) -> None:
        """Transform one block of channels of `count` tiles."""
        f, block = self.f, self.place.block
        symbol = input_kernel(self.module, self.tile, self.s.lanes, block)
        x = f.gep(self.x, c * self.place.channel, F32)
        v = f.gep(self.inputs, c * (self.s.tiles * block), F32)
        f.call_void(
            symbol,
            x,
            v,
            self.input_table,
            count,
            f.const(I64, self.place.space[0]),
            f.const(I64, self.sizes.input_step),
        )

    # Products and output transform

    def _fill_outputs(self, first: Value, count: Value) -> None:
        f, (down, along) = self.f, self.outputs
        walks = [(n, down * h, along * w) for n, h, w in (_three(s) for s in self.tables.strides)]
        walks += [(0, down, 0), (0, 0, along)] if self.ragged else []
        self.offsets = [f.alloca(I32, self.s.tiles + FILL_LANES) for _ in walks]
        for table, walk in zip(self.offsets, walks, strict=True):
            fill_table(f, table, first, count, self.grid, walk)
        self.context = f.alloca(I64, self._context_slots())
        for k, table in enumerate(self.offsets[: len(self.tables.strides)]):
            f.store(table, f.gep(self.context, k, PTR))
        for k, strides in enumerate(self.tables.strides):
            f.store(f.const(I64, strides[1]), f.gep(self.context, self._row_slot + k, I64))
        operands = self.epilogue.operands
        self.starts = [f.gep(argument(f, o.slot), o.view.base, memory_type_of(o.dtype)) for o in operands]
        self._fill_product_context()

    @property
    def _row_slot(self) -> int:
        return len(self.tables.strides) + 2 * len(self.epilogue.operands)

    def _context_slots(self) -> int:
        return self._row_slot + len(self.tables.strides)

    def _fill_product_context(self) -> None:
        f = self.f
        self.product_context = f.alloca(I64, 4)
        f.store(self._ramp(self.s.tiles, self.place.block), self.product_context)

    def _ramp(self, count: int, step: int) -> Value:
        """The table 0, step, 2 * step, ..."""
        f = self.f
        if not is_symbolic(count):
            return f.table(I32, [i * step for i in range(count)])
        table = f.alloca(I32, count + FILL_LANES)
        fill_table(f, table, f.const(I64, 0), f.const(I64, count), (count,), (step,))
        return table

    def _all_panels(self, low: Value, high: Value, count: Value, is_last: Value) -> None:
        f, s = self.f, self.s
        weights = argument(f, self.shape.kernel.buffers.index(self.shape.kernel.buffer(self.shape.w.buffer)))
        stored = prod(a.taps for a in self.tile) if s.expand else self.sizes.frequencies
        self.steps = self._ramp(self._channel_blocks, s.tiles * self.place.block)
        for kind in self.kinds:
            width = kind.tile.vectors * s.lanes
            f.store(self._ramp(s.tiles, width), f.gep(self.product_context, 1, PTR))
            with f.loop(f.smax(low, kind.begin), f.smin(high, kind.end)) as panel:
                at = f.add((panel - kind.begin) * width, kind.offset)
                w = f.gep(weights, at * (self.sizes.depth * stored), F32)
                if s.expand:
                    self._expanded_products(kind, w, is_last)
                else:
                    self._stored_products(kind, w, is_last)
                self._outputs(kind, panel, count)

    def _stored_products(self, kind: PanelKind, weights: Value, is_last: Value) -> None:
        """Multiply all tiles by a panel's transformed weights."""
        f, size = self.f, self.sizes.depth * kind.tile.vectors * self.s.lanes
        n, zero, yes = f.const(I64, self._channel_blocks), f.const(I64, 0), f.const(I1, 1)
        with f.loop(0, self.sizes.frequencies) as frequency:
            w = f.gep(weights, frequency * size, F32)
            part = _Part(count=n, begin=zero, weights=w, ahead=f.gep(w, size, F32), first=yes, last=yes)
            self._products(kind, frequency, part, is_last)

    def _expanded_products(self, kind: PanelKind, taps: Value, is_last: Value) -> None:
        """Multiply all tiles by a panel's weights, of which the taps of a part of the reduction are transformed, while
        the products of the part before prefetch them."""
        f, sizes = self.f, self.sizes
        width = kind.tile.vectors * self.s.lanes
        block = sizes.depth // sizes.blocks
        expand = filter_kernel(self.module, self.tile, self.s.lanes)
        target = f.gep(self.own, sizes.products, F32)
        calls = sum(tile_cover(self.last_block, kind.tile.rows).values())
        with f.loop(0, sizes.blocks, sizes.part) as begin:
            end = f.smin(begin + sizes.part, sizes.blocks)
            count = end - begin
            channel = block * width * prod(a.taps for a in self.tile)
            start, ahead = f.gep(taps, begin * channel, F32), f.gep(taps, end * channel, F32)
            f.call_void(expand, start, target, count * block, f.const(I64, width), f.const(I64, sizes.weight_step))
            with f.loop(0, sizes.frequencies) as frequency:
                lines = count * (self.s.prefetch * LINE * calls)
                part = _Part(
                    count=count,
                    begin=begin,
                    weights=f.gep(target, frequency * sizes.weight_step, F32),
                    ahead=f.gep(ahead, frequency * lines, F32),
                    first=f.cmp("eq", begin, 0),
                    last=f.cmp("eq", end, sizes.blocks),
                )
                self._products(kind, frequency, part, is_last)

    def _products(self, kind: PanelKind, frequency: Value, part: _Part, is_last: Value) -> None:
        """Multiply all tiles of one frequency by a part of the panel's weights."""
        f = self.f
        width = kind.tile.vectors * self.s.lanes
        x = f.gep(self.inputs, frequency * self.sizes.input_step, F32)
        steps = f.gep(self.steps, part.begin, I32)
        sums = f.gep(self.products, frequency * self.sizes.product_step, F32)
        f.store(sums, f.gep(self.product_context, 2, PTR))
        whole, ragged = tile_cover(self.s.tiles, kind.tile.rows), tile_cover(self.last_block, kind.tile.rows)
        lines = part.count * (self.s.prefetch * LINE)
        unroll = self.sizes.depth // self.sizes.blocks
        zero, point, done = f.const(I64, 0), f.const(I64, 0), f.const(I64, 0)
        for rows in sorted({*whole, *ragged}, reverse=True):
            tiles = f.select(is_last, f.const(I64, ragged.get(rows, 0)), f.const(I64, whole.get(rows, 0)))
            micro = micro_kernel(self.module, _product_kernel(kind.tile, rows, self.s, unroll))
            with f.loop(0, tiles) as t:
                first = point + t * rows
                f.call_void(
                    micro,
                    part.count,
                    x,
                    steps,
                    part.weights,
                    zero,
                    f.gep(sums, first * width, F32),
                    self.product_context,
                    first,
                    f.gep(part.ahead, (done + t) * lines, F32),
                    f.const(I64, self.s.prefetch),
                    part.first,
                    part.last,
                )
            point, done = point + tiles * rows, done + tiles

    def _outputs(self, kind: PanelKind, panel: Value, count: Value) -> None:
        """Transform the panel's products to outputs, one register of channels at a time."""
        f, lanes = self.f, self.s.lanes
        width = kind.tile.vectors * lanes
        start = kind.begin * self.kinds[0].tile.vectors * lanes
        first = f.add((panel - kind.begin) * width, start)
        last = -(-kind.valid // lanes) - 1 if kind.valid > 0 else kind.tile.vectors
        partial = kind.valid - last * lanes if kind.valid > 0 else 0
        groups = [(0, last, 0), (last, last + 1, partial % lanes), (last + 1, kind.tile.vectors, -1)]
        for begin, end, valid in groups:
            if begin < min(end, kind.tile.vectors):
                with f.loop(begin, min(end, kind.tile.vectors)) as j:
                    self._set_bases(first + j * lanes)
                    self._output(f.gep(self.products, j * lanes, F32), width, count, valid)

    def _output(self, products: Value, width: int, count: Value, valid: int) -> None:
        f = self.f
        columns = tuple(s[2] for s in self.tables.strides)
        spec = OutputKernel(
            tile=self.tile,
            lanes=self.s.lanes,
            tables=len(self.tables.strides),
            columns=columns,
            epilogue=self.code,
            ragged=self.ragged,
            valid=valid,
        )
        limits = self.offsets[len(self.tables.strides) :] or [f.const(PTR, 0)] * 2
        sizes = [f.const(I64, w.outputs) for w in self.windows]
        f.call_void(
            output_kernel(self.module, spec),
            products,
            f.const(I64, self.sizes.product_step),
            f.const(I64, width),
            self.context,
            count,
            *limits,
            *sizes,
        )

    def _set_bases(self, channel: Value) -> None:
        f = self.f
        for k, (operand, base) in enumerate(zip(self.epilogue.operands, self.starts, strict=True)):
            view = operand.view
            at = channel_offset(f, channel, view.block, view.stride)
            slot = len(self.tables.strides) + 2 * k
            f.store(f.gep(base, at, memory_type_of(operand.dtype)), f.gep(self.context, slot, PTR))
            f.store(f.const(I64, view.stride), f.gep(self.context, slot + 1, I64))


def _three(strides: tuple[int, ...]) -> tuple[int, int, int]:
    n, h, w = strides
    return n, h, w


def _product_kernel(tile: RegisterTile, rows: int, schedule: WinogradSchedule, unroll: int) -> MicroKernel:
    """The micro-kernel that stores sums in M."""
    plain = VectorEpilogue(expr=Ref(SUM), loads=(), out=Access(table=1, block=1), dtype=DType.F32)
    return MicroKernel(
        element="float",
        weights="float",
        lanes=schedule.lanes,
        rows=rows,
        vectors=tile.vectors,
        unroll=tuple(range(unroll)),
        tables=2,
        epilogue=plain,
        split=schedule.expand > 0,
        prefetches=schedule.prefetch > 0,
    )
