"""The weight gradient of a depthwise convolution.

A unit of work is one vector of channels. The sums of several taps stay in registers while all positions are read.
"""

from __future__ import annotations

import hashlib
from contextlib import AbstractContextManager, ExitStack, nullcontext
from itertools import product

from ....ir.lazy_dataclass import dataclass
from ....ir.symbolic import is_symbolic
from ...emission import Emission, LaunchSpec
from ..arithmetic import Value
from ..cpu import Cpu
from ..emitter import FunctionBuilder, ModuleBuilder
from ..schedule.describe import WeightGradientShape
from ..schedule.kinds import DepthwiseGradientSchedule
from ..schedule.weight_gradient import gradient_block
from ..types import I1, I64, PTR, Type, memory_type_of, type_of
from .gradient_operands import Placed, Rows, place_operands, place_result
from .points import tile_cover
from .tiles import KERNEL_PARAMETERS, argument, grain_of
from .transpose import store_transposed


@dataclass(frozen=True, slots=True, kw_only=True)
class TapKernel:
    """The code for some taps: those at `places` along the axes before the last, and all `taps` along the last, with
    `stride` and `dilation`. `columns` positions are read at a time. `data_step` and `step` are the distances between
    neighbouring positions of the data and of the cotangent.
    """

    element: str
    lanes: int
    columns: int
    places: tuple[tuple[int, ...], ...]
    taps: int
    stride: int
    dilation: int
    data_step: int
    step: int

    @property
    def name(self) -> str:
        digest = hashlib.blake2s(repr(self).encode(), digest_size=6).hexdigest()
        return f"depthwise.gradient.{self.columns}.{digest}"


def tap_kernel(module: ModuleBuilder, spec: TapKernel) -> str:
    """The symbol of `(data, cotangent, sums, rows, tiles, data row, row, first, outer strides...)`, which sums over
    `rows` rows of `tiles` times `columns` positions. Rows are `data row` and `row` apart. The sums [tap][channel] start
    at zero if `first`; the outer strides are those of the data along the axes of `places`."""
    return module.helper(spec.name, lambda: _emit_tap_kernel(module, spec))


def _emit_tap_kernel(module: ModuleBuilder, spec: TapKernel) -> None:
    pointers, numbers = ("data", "cotangent", "sums"), ("rows", "tiles", "data_row", "row")
    strides = [(f"o{k}", I64, "") for k in range(len(spec.places[0]))]
    parameters = [*((p, PTR, "") for p in pointers), *((n, I64, "") for n in numbers), ("first", I1, ""), *strides]
    f = module.function(spec.name, None, parameters, linkage="internal", attributes="nounwind noinline")
    data, cotangent, sums, rows, tiles, data_row, row, first, *outer = f.args
    scalar = Type.of(spec.element)
    vector = scalar.with_lanes(spec.lanes)
    lines = [_moved(f, data, place, outer, scalar) for place in spec.places]
    zeros = [f.const(vector, 0.0)] * (len(lines) * spec.taps)
    with f.carry_loop(0, rows, zeros) as each_row:
        at, to = each_row.index * data_row, each_row.index * row
        with f.carry_loop(0, tiles, each_row.values) as each_tile:
            step = each_tile.index * (spec.columns * spec.stride * spec.data_step)
            start = f.gep(cotangent, to + each_tile.index * (spec.columns * spec.step), scalar)
            dy = [f.load(f.gep(start, c * spec.step, scalar), vector) for c in range(spec.columns)]
            acc = list(each_tile.values)
            for k, line in enumerate(lines):
                _add_line(f, spec, f.gep(line, at + step, scalar), dy, acc, k * spec.taps)
            each_tile.next(*acc)
        each_row.next(*each_tile.results)
    places = [f.gep(sums, k * spec.lanes, scalar) for k in range(len(zeros))]
    totals = f.branch(
        first,
        lambda: each_row.results,
        lambda: [f.add(total, f.load(p, vector)) for total, p in zip(each_row.results, places, strict=True)],
    )
    for total, place in zip(totals, places, strict=True):
        f.store(total, place)
    f.ret()


def _moved(f: FunctionBuilder, pointer: Value, place: tuple[int, ...], strides: list[Value], scalar: Type) -> Value:
    for i, stride in zip(place, strides, strict=True):
        pointer = f.gep(pointer, stride * i, scalar) if i else pointer
    return pointer


def _add_line(f: FunctionBuilder, spec: TapKernel, line: Value, dy: list[Value], acc: list[Value], first: int) -> None:
    """Add the products of one line of the data, of which each element is read once."""
    vector = Type.of(spec.element, spec.lanes)
    for position in range((spec.columns - 1) * spec.stride + (spec.taps - 1) * spec.dilation + 1):
        distances = [(c, position - c * spec.stride) for c in range(spec.columns)]
        uses = [(c, *divmod(d, spec.dilation)) for c, d in distances if d >= 0]
        uses = [(c, tap) for c, tap, rest in uses if rest == 0 and tap < spec.taps]
        if not uses:
            continue
        x = f.load(f.gep(line, position * spec.data_step, vector.scalar), vector)
        for c, tap in uses:
            acc[first + tap] = f.fma(x, dy[c], acc[first + tap])


def emit_depthwise_gradient(
    shape: WeightGradientShape, schedule: DepthwiseGradientSchedule, target: Cpu, module: ModuleBuilder, symbol: str
) -> Emission:
    block = gradient_block(shape, target)
    data, cotangent, copies, used = place_operands(shape, block, block, target, module, symbol)
    out, finish, used = place_result(shape, module, f"{symbol}.finish", used)
    launch = _Nest(module, shape, schedule, data, cotangent, out).emit(symbol)
    return Emission((*copies, launch, *finish), used)


class _Nest:
    """The launch over vectors of channels."""

    def __init__(
        self,
        module: ModuleBuilder,
        shape: WeightGradientShape,
        schedule: DepthwiseGradientSchedule,
        data: Placed,
        cotangent: Placed,
        out: Rows,
    ) -> None:
        self.module, self.shape, self.s, self.data, self.cotangent, self.out = (
            module,
            shape,
            schedule,
            data,
            cotangent,
            out,
        )
        self.scalar = type_of(shape.accumulator)
        self.vectors = -(-shape.groups // schedule.lanes)
        self.extents = [w.extent for w in shape.windows]
        self.data_steps = [w.stride * n for w, n in zip(shape.windows, data.place.space, strict=True)]
        self.steps = list(cotangent.place.space)

    def emit(self, symbol: str) -> LaunchSpec:
        self.f = f = self.module.function(symbol, None, KERNEL_PARAMETERS)
        self.sums = f.alloca(self.scalar.with_lanes(self.s.lanes), self.shape.taps)
        with f.loop(f.args[1], f.args[2]) as vector:
            self._unit(vector * self.s.lanes)
        f.ret()
        products = self.shape.images * self.shape.groups * self.shape.taps
        for n in self.extents:
            products *= n
        per_cycle = self.s.lanes * self.module.target.fma_per_cycle
        return LaunchSpec(symbol, self.vectors, grain_of(products, self.vectors, per_cycle))

    def _unit(self, channel: Value) -> None:
        f, shape = self.f, self.shape
        x, dy = (self._address(o, channel) for o in (self.data, self.cotangent))
        first = f.const(I1, 1)
        with ExitStack() as loops:
            images = loops.enter_context(f.loop(0, shape.images))
            first = f.cmp("eq", images, 0)
            x = f.gep(x, images * self.data.place.image, self.scalar)
            dy = f.gep(dy, images * self.cotangent.place.image, self.scalar)
            for n, step, own in zip(self.extents[:-2], self.data_steps, self.steps, strict=False):
                i = loops.enter_context(f.loop(0, n))
                first = first & f.cmp("eq", i, 0)
                x, dy = f.gep(x, i * step, self.scalar), f.gep(dy, i * own, self.scalar)
            self._plane(x, dy, first)
        self._store(channel)

    def _address(self, operand: Placed, channel: Value) -> Value:
        f, place = self.f, operand.place
        at = f.udiv(channel, place.block) * place.channel + f.urem(channel, place.block)
        return f.gep(operand.address(f, self.scalar), at, self.scalar)

    def _plane(self, x: Value, dy: Value, first: Value) -> None:
        """Add the products of all positions along the last two axes to the sums."""
        windows, last = self.shape.windows, self.shape.windows[-1]
        places = list(product(*(range(w.taps) for w in windows[:-1])))
        for start in range(0, len(places), self.s.rows):
            some = tuple(places[start : start + self.s.rows])
            sums = self.f.gep(self.sums, start * last.taps * self.s.lanes, self.scalar)
            self._taps(some, x, dy, sums, first)

    def _taps(self, places: tuple[tuple[int, ...], ...], x: Value, dy: Value, sums: Value, first: Value) -> None:
        f, last, windows = self.f, self.shape.windows[-1], self.shape.windows
        several = len(windows) > 1
        rows = f.const(I64, self.extents[-2] if several else 1)
        row_steps = [f.const(I64, s[-2] if several else 0) for s in (self.data_steps, self.steps)]
        outer = [f.const(I64, w.dilation * n) for w, n in zip(windows[:-1], self.data.place.space, strict=False)]
        done = 0
        for columns, tiles in tile_cover(self.extents[-1], self.s.columns).items():
            spec = TapKernel(
                element=self.scalar.element,
                lanes=self.s.lanes,
                columns=columns,
                places=places,
                taps=last.taps,
                stride=last.stride,
                dilation=last.dilation,
                data_step=self.data.place.space[-1],
                step=self.steps[-1],
            )
            symbol = tap_kernel(self.module, spec)
            with self._any(tiles):
                line = f.gep(x, done * self.data_steps[-1], self.scalar)
                own = f.gep(dy, done * self.steps[-1], self.scalar)
                starts = first & f.cmp("eq", f.const(I64, done), 0)
                f.call_void(symbol, line, own, sums, rows, f.const(I64, tiles), *row_steps, starts, *outer)
            done += columns * tiles

    def _any(self, tiles: int) -> AbstractContextManager[None]:
        """A condition that there are tiles, if their number is symbolic and so can be 0."""
        f = self.f
        return f.when(f.cmp("gt", f.const(I64, tiles), 0)) if is_symbolic(tiles) else nullcontext()

    def _store(self, channel: Value) -> None:
        f, out, taps = self.f, self.out, self.shape.taps
        symbol = store_transposed(self.module, self.s.lanes, self.shape.accumulator, out.dtype)
        place = f.gep(argument(f, out.slot), channel * out.stride + out.base, memory_type_of(out.dtype))
        count = f.smin(f.sub(self.shape.groups, channel), self.s.lanes)
        f.call_void(
            symbol, self.sums, f.const(I64, self.s.lanes), place, f.const(I64, out.stride), count, f.const(I64, taps)
        )
