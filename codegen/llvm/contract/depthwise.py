"""Depthwise convolution: one register of channels at a time, several neighbouring outputs per step."""

from __future__ import annotations

import hashlib
from contextlib import AbstractContextManager, nullcontext
from itertools import product
from math import prod

from ....ir.lazy_dataclass import dataclass
from ....ir.symbolic import is_symbolic
from ...emission import LaunchSpec
from ..arithmetic import Value
from ..emitter import FunctionBuilder, ModuleBuilder
from ..schedule.describe import ConvShape
from ..schedule.kinds import DepthwiseSchedule, RegisterTile
from ..schedule.segments import offsets
from ..schedule.strides import locate
from ..types import I64, PTR, Type, memory_type_of, type_of
from .conv import InputPlace, weight_strides
from .epilogue import Epilogue, point_tables
from .micro import EpilogueWriter
from .packing import PackedPanels
from .points import channel_offset, tile_cover
from .problem import WeightSource
from .tiles import KERNEL_PARAMETERS, PanelKind, argument, grain_of
from .vector_epilogue import VectorEpilogue


@dataclass(frozen=True, slots=True, kw_only=True)
class RowKernel:
    """The code for rows with `columns` outputs per step along the last axis, whose window has `taps` taps, `stride` and
    `dilation`; `outer` are the numbers of taps along the other axes.

    `block` is the stride between neighbouring positions of the input; `steps` are the strides between neighbouring
    outputs in each table.
    """

    element: str
    lanes: int
    columns: int
    taps: int
    stride: int
    dilation: int
    outer: tuple[int, ...]
    block: int
    steps: tuple[int, ...]
    epilogue: VectorEpilogue
    valid: int

    @property
    def name(self) -> str:
        digest = hashlib.blake2s(repr(self).encode(), digest_size=6).hexdigest()
        return f"depthwise.{self.columns}.{digest}"


def row_kernel(module: ModuleBuilder, spec: RowKernel) -> str:
    """The symbol of `(x, w, context, rows, tiles, row step, outer strides...)`, which computes `rows` rows of `tiles`
    tiles each.

    The context holds for each table the offset of the first output, then for each table the step between rows, then the
    (address, stride) pairs of the micro-kernel.
    """
    return module.inner(spec.name, lambda owner: _emit_row_kernel(owner, spec))


def _emit_row_kernel(module: ModuleBuilder, spec: RowKernel) -> None:
    parameters = [
        ("x", PTR, ""),
        ("w", PTR, ""),
        ("context", PTR, ""),
        ("rows", I64, ""),
        ("tiles", I64, ""),
        ("step", I64, ""),
    ]
    outer = [(f"o{k}", I64, "") for k in range(len(spec.outer))]
    f = module.function(spec.name, None, [*parameters, *outer], linkage="internal", attributes="nounwind noinline")
    _Rows(f, spec, module.target.vector_registers).emit()
    f.ret()


class _Rows:
    def __init__(self, f: FunctionBuilder, spec: RowKernel, registers: int) -> None:
        self.f, self.spec = f, spec
        self.holds_line = self._positions + spec.columns + prod(spec.outer) * spec.taps + 2 <= registers
        self.scalar = Type.of(spec.element)
        self.vector = self.scalar.with_lanes(spec.lanes)

    def emit(self) -> None:
        f, spec = self.f, self.spec
        x, w, context, rows, tiles, step, *outer = f.args
        valid = spec.lanes if spec.valid == 0 else max(0, spec.valid)
        tables = len(spec.steps)
        writer = EpilogueWriter(
            f, spec.epilogue, tables=2 * tables, context=context, lanes=spec.lanes, valid=lambda j: valid
        )
        writer.preload(0)
        starts = [f.load(f.gep(context, k, I64), I64) for k in range(tables)]
        row_steps = [f.load(f.gep(context, tables + k, I64), I64) for k in range(tables)]
        weights = [
            f.load(f.gep(w, k * spec.lanes, self.scalar), self.vector) for k in range(prod(spec.outer) * spec.taps)
        ]
        with f.loop(0, rows) as r:
            line = f.gep(x, r * step, self.scalar)
            at = [s + r * d for s, d in zip(starts, row_steps, strict=True)]
            with f.loop(0, tiles) as t:
                first = t * spec.columns
                sums = self._tile(f.gep(line, first * (spec.stride * spec.block), self.scalar), weights, outer)
                for c, total in enumerate(sums):
                    writer.store(
                        total, 0, {k: a + (first + c) * n for k, (a, n) in enumerate(zip(at, spec.steps, strict=True))}
                    )

    @property
    def _positions(self) -> int:
        """The positions along a line of the input that a tile reads."""
        spec = self.spec
        return (spec.columns - 1) * spec.stride + (spec.taps - 1) * spec.dilation + 1

    def _tile(self, x: Value, weights: list[Value], outer: list[Value]) -> list[Value]:
        """The sums of one tile. Each input element is read once and accumulated into all outputs that use it."""
        f, spec = self.f, self.spec
        sums: list[Value | None] = [None] * spec.columns
        for k, place in enumerate(product(*(range(n) for n in spec.outer))):
            line = x
            for i, stride in zip(place, outer, strict=True):
                line = f.gep(line, stride * i, self.scalar) if i else line
            self._line(line, weights[k * spec.taps : (k + 1) * spec.taps], sums)
        return [s if s is not None else f.const(self.vector, 0.0) for s in sums]

    def _line(self, line: Value, weights: list[Value], sums: list[Value | None]) -> None:
        """Add the products of one line. If its elements fit the registers, neighbouring multiply-adds have different
        sums, so that none waits for the one before; else elements come one after the other."""
        f, spec = self.f, self.spec
        uses = [
            (c * spec.stride + tap * spec.dilation, c, tap) for tap in range(spec.taps) for c in range(spec.columns)
        ]
        values: dict[int, Value] = {}
        for position, c, tap in uses if self.holds_line else sorted(uses):
            if position not in values:
                values[position] = f.load(f.gep(line, position * spec.block, self.scalar), self.vector)
            value, total = values[position], sums[c]
            sums[c] = value * weights[tap] if total is None else f.fma(value, weights[tap], total)


def depthwise_filters(shape: ConvShape, schedule: DepthwiseSchedule, element: str) -> PackedPanels:
    """The weights packed as [vector of channels][tap][channel]."""
    buffer = shape.kernel.buffer(shape.w.buffer)
    at = locate(buffer, shape.w.index)
    assert at is not None and shape.group is not None
    taps = tuple(offsets(tuple(w.taps for w in shape.windows), weight_strides(shape)[1]))
    vectors = -(-shape.groups // schedule.lanes)
    source = WeightSource(
        base=at.base,
        groups=(0,),
        filter=at.strides.get(shape.group, 0),
        filters=shape.groups,
        dtype=buffer.dtype,
        rounded=shape.weights,
    )
    return PackedPanels(
        element=element,
        lanes=schedule.lanes,
        groups=(1,),
        channels=shape.groups,
        panels=(PanelKind(tile=RegisterTile(1, 1), begin=0, end=vectors),),
        group_size=vectors * schedule.lanes * len(taps),
        sources=taps,
        owners=(),
        weights=source,
    )


class DepthwiseNest:
    """Emits the launch over (image, block of rows, vector of channels)."""

    def __init__(
        self,
        module: ModuleBuilder,
        schedule: DepthwiseSchedule,
        shape: ConvShape,
        place: InputPlace,
        epilogue: Epilogue,
        *,
        x_slot: int,
    ) -> None:
        self.module, self.s, self.shape, self.place, self.x_slot = module, schedule, shape, place, x_slot
        self.element = type_of(shape.accumulator).element
        self.epilogue = epilogue
        self.tables = point_tables(epilogue.out.view, epilogue.views)
        self.code = epilogue.vectorized(self.tables)
        out = epilogue.out.view
        block = out.block if out.padded else 1
        self.vectors = -(-(-(-shape.groups // block) * block) // schedule.lanes)
        self.extents = [w.extent for w in shape.windows]
        self.rows = self.extents[-2] if len(self.extents) > 1 else 1
        self.row_blocks = -(-self.rows // schedule.rows)

    def emit(self, symbol: str) -> LaunchSpec:
        self.f = f = self.module.function(symbol, None, KERNEL_PARAMETERS, shares=True)
        self.scalar = Type.of(self.element)
        self.x = f.gep(argument(f, self.x_slot), self.place.base, self.scalar)
        self.w = argument(f, self.shape.kernel.buffers.index(self.shape.kernel.buffer(self.shape.w.buffer)))
        operands = self.epilogue.operands
        self.starts = [f.gep(argument(f, o.slot), o.view.base, memory_type_of(o.dtype)) for o in operands]
        self.context = f.alloca(I64, 2 * len(self.tables.strides) + 2 * len(operands))
        ragged = self.shape.groups % self.s.lanes
        with f.loop(f.args[1], f.args[2]) as unit:
            self._unit_of(unit, ragged) if ragged else self._unit(unit, 0)
        f.ret()
        outer = prod(self.extents[:-2]) if len(self.extents) > 2 else 1
        units = self.shape.images * outer * self.vectors * self.row_blocks
        products = self.shape.images * self.shape.points * self.shape.taps * self.shape.groups
        per_cycle = self.s.lanes * self.module.target.fma_per_cycle // 2  # it loads as much as it multiplies
        return LaunchSpec(symbol, units, grain_of(products, units, per_cycle))

    def _unit_of(self, unit: Value, ragged: int) -> None:
        f = self.f
        vector = f.urem(unit, self.vectors)
        whole = f.cmp("lt", vector, self.shape.groups // self.s.lanes)
        f.branch(whole, lambda: self._unit(unit, 0), lambda: self._ragged(unit, vector, ragged))

    def _ragged(self, unit: Value, vector: Value, ragged: int) -> tuple[()]:
        f = self.f
        partial = f.cmp("eq", vector, self.shape.groups // self.s.lanes)
        if self.vectors == -(-self.shape.groups // self.s.lanes):
            return self._unit(unit, ragged)
        f.branch(partial, lambda: self._unit(unit, ragged), lambda: self._unit(unit, -1))
        return ()

    def _unit(self, unit: Value, valid: int) -> tuple[()]:
        """One block of rows of one vector of channels: unit = ((image, outer positions), block of rows, vector). The
        convolution before wrote the rows in this order too, so the last ones can still be in the L2 cache."""
        f, s = self.f, self.s
        vector, rest = f.urem(unit, self.vectors), f.udiv(unit, self.vectors)
        block, rest = f.urem(rest, self.row_blocks), f.udiv(rest, self.row_blocks)
        position = [block * s.rows]
        for n in reversed(self.extents[:-2]):
            position.insert(0, f.urem(rest, n))
            rest = f.udiv(rest, n)
        position = [rest, *position] if len(self.extents) > 1 else [rest]
        channel = vector * s.lanes
        x = f.gep(self.x, channel_offset(f, channel, self.place.block, self.place.channel), self.scalar)
        x = f.gep(x, self._at(position, self._x_steps()), self.scalar)
        w = f.gep(self.w, channel * prod(v.taps for v in self.shape.windows), self.scalar)
        rows = f.smin(f.const(I64, self.rows) - block * s.rows, s.rows)
        self._set_context(position, channel)
        self._rows(x, w, rows, valid)
        return ()

    def _x_steps(self) -> list[int]:
        """The input's stride for the image and for each output axis except the last."""
        steps = [w.stride * n for w, n in zip(self.shape.windows, self.place.space, strict=True)]
        return [self.place.image, *steps[:-1]]

    def _at(self, position: list[Value], steps: list[int]) -> Value:
        f = self.f
        total = f.const(I64, 0)
        for p, step in zip(position, steps, strict=True):
            total = f.add(total, p * step)
        return total

    def _set_context(self, position: list[Value], channel: Value) -> None:
        f, tables = self.f, self.tables.strides
        for k, strides in enumerate(tables):
            f.store(self._at(position, list(strides[:-1])), f.gep(self.context, k, I64))
            f.store(
                f.const(I64, strides[-2] if len(self.extents) > 1 else 0), f.gep(self.context, len(tables) + k, I64)
            )
        for k, (operand, base) in enumerate(zip(self.epilogue.operands, self.starts, strict=True)):
            view = operand.view
            at = channel_offset(f, channel, view.block, view.stride)
            f.store(f.gep(base, at, memory_type_of(operand.dtype)), f.gep(self.context, 2 * len(tables) + 2 * k, PTR))
            f.store(f.const(I64, view.stride), f.gep(self.context, 2 * len(tables) + 2 * k + 1, I64))

    def _rows(self, x: Value, w: Value, rows: Value, valid: int) -> None:
        """The tiles of each row, width by width."""
        f, windows, last = self.f, self.shape.windows, self.shape.windows[-1]
        outer = [f.const(I64, v.dilation * n) for v, n in zip(windows[:-1], self.place.space[:-1], strict=True)]
        step = f.const(I64, self._x_steps()[-1] if len(windows) > 1 else 0)
        done = 0
        steps = tuple(s[-1] for s in self.tables.strides)
        widths = (*range(self.s.columns, 3, -1), 2, 1)
        for columns, tiles in tile_cover(self.extents[-1], self.s.columns, widths).items():
            spec = RowKernel(
                element=self.element,
                lanes=self.s.lanes,
                columns=columns,
                taps=last.taps,
                stride=last.stride,
                dilation=last.dilation,
                outer=tuple(v.taps for v in windows[:-1]),
                block=self.place.space[-1],
                steps=steps,
                epilogue=self.code,
                valid=valid,
            )
            start = f.gep(x, done * last.stride * self.place.space[-1], self.scalar)
            with self._any(tiles):
                count = f.const(I64, tiles)
                f.call_void(row_kernel(self.module, spec), start, w, self.context, rows, count, step, *outer)
            done += columns * tiles
            self._advance(columns * tiles, steps)

    def _any(self, tiles: int) -> AbstractContextManager[None]:
        """A condition that there are tiles, if their number is symbolic and so can be 0."""
        f = self.f
        return f.when(f.cmp("gt", f.const(I64, tiles), 0)) if is_symbolic(tiles) else nullcontext()

    def _advance(self, columns: int, steps: tuple[int, ...]) -> None:
        """Advance each table's offset of the first output by `columns`."""
        f = self.f
        for k, step in enumerate(steps):
            slot = f.gep(self.context, k, I64)
            f.store(f.load(slot, I64) + columns * step, slot)
