"""Emits kernels without contractions as loops: pointwise operations, reductions, rows, windows, index maps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack

from ....ir.kernel import Kernel, ScalarParameter, walk
from ....ir.symbolic import deferred
from ...emission import Emission, LaunchSpec
from ...hoist import hoist_stages
from ...nest import Nest, build_nest
from ..arithmetic import Operand, Value
from ..cpu import Cpu
from ..emitter import ModuleBuilder
from ..schedule.columns import COLUMN_PARTS, COLUMNS, LEAST_COLUMNS, column_block
from ..schedule.kinds import LoopChoice
from ..schedule.loops import LoopSchedule, choose_loops, schedule_general, schedule_nest
from ..types import I32, I64, PTR, type_of
from .column_blocks import ColumnBlocks
from .common import hoist
from .expressions import Evaluator, Point, compute_dtype
from .rows import RowEmitter
from .transposed_tiles import TransposedTiles


def emit_loops(
    kernel: Kernel,
    target: Cpu,
    module: ModuleBuilder | None,
    symbol: str,
    extents: tuple[int, ...] = (),
    compact: bool = False,
    once: bool = False,
) -> Emission:
    """Emit a kernel without Contract as one function over units of its parallel axes. ValueError names a construct that
    cannot be emitted.

    `extents` are the values of `kernel.extents`. They determine the launch; the code depends on them only in whether
    rows are stored on the stack, and whether several rows are read together. The symbol encodes that, and whether the
    code is `compact` (fast to compile instead of fast to run). With `module` None only the launch is returned, for code
    that already exists. `once`: the kernel does not run in every run of its program, so its code can be slower and
    shared.
    """
    nest = build_nest(hoist_stages(kernel))
    dtypes = {b.name: b.dtype for b in kernel.buffers}
    if kernel.extents:
        numbers = dict(zip(kernel.extents, extents, strict=True))
        schedule = schedule_general(nest, dtypes, target, numbers, compact)
        symbol += "_compact" * compact + "_long" * (not schedule.scratch) + "_wide" * (schedule.rows > 1)
    else:
        schedule = schedule_nest(nest, dtypes, target, choice=_tuned(kernel, target))
    if module is not None:
        emit_nest(kernel, nest, schedule, module, symbol, once)
    grain = deferred(_bounded, schedule.count, schedule.grain)
    return Emission((LaunchSpec(symbol, schedule.count, grain),))


def schedule_loops(kernel: Kernel, target: Cpu) -> LoopChoice:
    """The tuned choice for the loops of a kernel of known extents, else that of the formulas."""
    dtypes = {b.name: b.dtype for b in kernel.buffers}
    return _tuned(kernel, target) or choose_loops(build_nest(hoist_stages(kernel)), dtypes, target)


def _tuned(kernel: Kernel, target: Cpu) -> LoopChoice | None:
    """The choice that a search found. Programs without tuned schedules do not load the spaces."""
    if not target.tuned.entries:
        return None
    from ..schedule.spaces import tuned_schedule

    tuned = tuned_schedule(kernel, target, frozenset())
    return tuned if isinstance(tuned, LoopChoice) else None


def emit_nest(
    kernel: Kernel, nest: Nest, schedule: LoopSchedule, module: ModuleBuilder, symbol: str, once: bool = False
) -> None:
    """Add the function of a kernel with this nest and this schedule to the module."""
    _Emitter(kernel, nest, schedule, module, symbol).emit(once)


def _bounded(count: int, grain: int) -> int:
    return max(1, min(count, grain))


VectorBody = Callable[[Value, Value | None], None]


class _Emitter(RowEmitter):
    def __init__(self, kernel: Kernel, nest: Nest, schedule: LoopSchedule, module: ModuleBuilder, symbol: str) -> None:
        super().__init__(kernel, nest, schedule)
        parameters = (("args", PTR, "noalias"), ("begin", I64, ""), ("end", I64, ""), ("worker", I32, ""))
        self.module, self.symbol, self.parameters = module, symbol, parameters
        self.block: Operand = schedule.block

    def emit(self, once: bool) -> None:
        f = self.module.function(self.symbol, None, self.parameters, shares=once)
        self.f = f
        args, begin, end, _ = f.args
        pointers = {b.name: f.load(f.gep(args, i, PTR), PTR, 8) for i, b in enumerate(self.kernel.buffers)}
        first = len(pointers)
        numbers = {n: f.load(f.gep(args, first + i, I64), I64, 8) for i, n in enumerate(self.kernel.extents)}
        numbers.update(self._scalar_parameters(numbers))
        self.eval = Evaluator(f, self.kernel, self.nest, self.s, pointers, numbers)
        hoist(self.eval)
        self.make_scratch()
        if self.kernel.extents:
            self._general_units(begin, end)
        else:
            with f.loop(begin, end) as unit:
                self._unit(unit)
        f.ret()

    def _scalar_parameters(self, bits: dict[str, Value]) -> dict[str, Value]:
        """The scalar parameters, converted from the `bits` of the launch to their types."""
        f = self.f
        parameters: dict[str, Value] = {}
        for e in (e for stage in self.nest.stages for e in walk(stage.value) if isinstance(e, ScalarParameter)):
            element = type_of(compute_dtype(e.dtype)).element
            if element in ("float", "double"):
                parameters[e.name] = f.bitcast(f.convert(bits[e.name], "i32" if element == "float" else "i64"), element)
            else:
                parameters[e.name] = f.convert(bits[e.name], element)
        return parameters

    # -- parallel axes

    def _unit(self, unit: Value) -> None:
        f, s = self.f, self.s
        point: Point = {}
        rest: Operand = unit
        low: Operand = 0
        if s.is_split:
            low = f.urem(rest, s.blocks) * s.block
            rest = f.udiv(rest, s.blocks)
        for axis in reversed(s.units):
            extent = self.eval.extent(axis)
            if axis == s.units[0]:
                point[axis] = rest
            else:
                point[axis] = f.urem(rest, extent)
                rest = f.udiv(rest, extent)
        with ExitStack() as stack:
            for axis in s.loops:
                if axis != s.transposed:
                    point[axis] = stack.enter_context(f.loop(0, self.nest.known_extent(axis)))
            if s.transposed:
                self._tiles(point, low)
            else:
                self._vector_axis(point, low)

    def _tiles(self, point: Point, low: Operand) -> None:
        """The tiles of a unit of known extents, and what they leave at the ends of both axes."""
        f, s = self.f, self.s
        lanes, extent, width = s.lanes, self.nest.known_extent(s.transposed), self.nest.known_extent(s.vector)
        tiled = extent - extent % lanes
        even = width % lanes == 0 and (not s.is_split or s.block % lanes == 0)
        high: Operand = f.smin(f.add(low, s.block), width) if s.is_split else width
        end = high - high % lanes if isinstance(high, int) else f.sub(high, f.urem(f.sub(high, low), lanes))
        with f.loop(0, tiled, lanes) as first:
            TransposedTiles(self).emit_whole({**point, s.transposed: first}, low, end)
            if not even:
                with f.loop(first, f.add(first, lanes)) as row:
                    at = {**point, s.transposed: row}
                    self._vectors(end, high, False, lambda i, mask: self.rows([{**at, s.vector: i}], mask))
        if tiled < extent:
            with f.loop(tiled, extent) as row:
                self._vector_axis({**point, s.transposed: row}, low)

    def _general_units(self, begin: Value, end: Value) -> None:
        """The units of a nest with run-time extents. A vector axis shorter than a vector has one mask for all units."""
        f, s = self.f, self.s
        if not s.narrow:
            self._count_units(begin, end)
            return
        n = self.eval.extent(s.vector)
        assert isinstance(n, Value)

        def one_vector() -> tuple[()]:
            self.mask = f.rest_mask(f.const(I64, 0), n, s.lanes)
            self._count_units(begin, end)
            self.mask = None
            return ()

        def many_vectors() -> tuple[()]:
            self._count_units(begin, end)
            return ()

        f.branch(f.cmp("le", n, s.lanes), one_vector, many_vectors)

    def _count_units(self, begin: Value, end: Value) -> None:
        """Loop over units and increment their indices: to divide for each unit would cost as much as a short row."""
        f, s = self.f, self.s
        extents = [self._unit_extent(axis) for axis in reversed(s.units)]
        blocked = s.blocks == 0 and self.mask is None
        if blocked:
            self.block = self._block(self.eval.extent(s.vector))
            last = self.eval.plus(self.eval.plus(self.eval.extent(s.vector), self.block), -1)
            extents.insert(0, f.udiv(last, self.block))
        starts: list[Value] = []
        rest = begin
        for extent in extents[:-1]:
            starts.append(f.urem(rest, extent))
            rest = f.udiv(rest, extent)
        starts += [rest] * bool(extents)
        with f.carry_loop(begin, end, starts) as loop:
            digits = list(loop.values)
            low: Operand = f.mul(digits.pop(0), self.block) if blocked else 0
            point: Point = dict(zip(reversed(s.units), digits, strict=True))
            if s.transposed:
                assert isinstance(low, Value)
                TransposedTiles(self).emit(point, low)
            else:
                self._vector_axis(point, low)
            loop.next(*self._next_unit(loop.values, extents))

    def _block(self, width: Operand) -> Operand:
        """The elements of a vector axis of run-time extent in one unit: `column_block` if rows are read together."""
        f, s = self.f, self.s
        if s.rows == 1:
            return s.block
        if isinstance(width, int):
            return column_block(width, s.lanes)
        assert isinstance(width, Value)
        vectors = COLUMN_PARTS * s.lanes
        part = f.mul(f.udiv(f.add(width, vectors - 1), vectors), s.lanes)
        return f.smax(f.smin(part, COLUMNS), LEAST_COLUMNS)

    def _unit_extent(self, axis: str) -> Operand:
        extent = self.eval.extent(axis)
        if axis != self.s.transposed:
            return extent
        return self.f.udiv(self.eval.plus(extent, self.s.lanes - 1), self.s.lanes)

    def _next_unit(self, digits: Sequence[Value], extents: Sequence[Operand]) -> list[Value]:
        """The indices of the next unit, starting with the fastest; the slowest never wraps."""
        f = self.f
        following: list[Value] = []
        carry: Operand = 1
        for digit, extent in zip(digits[:-1], extents, strict=False):
            up = f.add(digit, carry)
            wraps = f.cmp("eq", up, extent)
            following.append(f.select(wraps, f.const(I64, 0), up))
            carry = f.convert(wraps, "i64", signed=False)
        return [*following, *(f.add(digit, carry) for digit in digits[-1:])]

    def _vector_axis(self, point: Point, low: Operand) -> None:
        """Emit the row at every vector of a parallel vector axis, or at one scalar point if the vector axis is
        reduced."""
        if self.vector_reduced or not self.s.vector:
            self.rows([point], None)
            return
        if self.mask is not None:
            self.rows([{**point, self.s.vector: 0}], self.mask)
            return
        f, s = self.f, self.s
        n = self.eval.extent(s.vector)
        high: Operand = f.smin(f.add(low, self.block), n) if s.is_split else n
        even = isinstance(n, int) and n % s.lanes == 0 and (not s.is_split or s.block % s.lanes == 0)
        if s.rows > 1:
            low = ColumnBlocks(self).emit(point, low, high)
        elif s.interleave > 1:
            low = self._interleaved(point, low, high)
        self._vectors(low, high, even, lambda at, mask: self.rows([{**point, s.vector: at}], mask))

    def _interleaved(self, point: Point, low: Operand, high: Operand) -> Operand:
        """Emit rows with several interleaved vectors; returns the index of the remaining vectors."""
        f, s = self.f, self.s
        step = s.interleave * s.lanes
        if isinstance(low, int) and isinstance(high, int):
            rest: Operand = high - (high - low) % step
        else:
            rest = f.sub(high, f.urem(f.sub(high, low), step))
        with f.loop(low, rest, step) as at:
            self.rows([{**point, s.vector: f.add(at, i * s.lanes)} for i in range(s.interleave)], None)
        return rest

    def _vectors(self, low: Operand, high: Operand, even: bool, body: VectorBody) -> None:
        """Emit body(index, mask) for each vector in [low, high). The last one is masked unless it is full."""
        f, lanes = self.f, self.s.lanes
        if self.s.masked:
            with f.loop(low, high, lanes) as at:
                body(at, f.rest_mask(at, high, lanes))
            return
        if isinstance(low, int) and isinstance(high, int):
            self._known_vectors(low, high, body)
            return
        whole = high if even else self.eval.plus(high, 1 - lanes)
        with f.loop(low, whole, lanes) as at:
            body(at, None)
        if even:
            return
        tail = f.sub(high, f.urem(f.sub(high, low), lanes))
        with f.when(f.cmp("lt", tail, high)):
            body(tail, f.lane_mask(tail, high, lanes))

    def _known_vectors(self, low: int, high: int, body: VectorBody) -> None:
        f, lanes = self.f, self.s.lanes
        tail = high - (high - low) % lanes
        if tail == low + lanes:
            body(f.const(I64, low), None)
        elif tail > low:
            with f.loop(low, tail, lanes) as at:
                body(at, None)
        if tail < high:
            start = f.const(I64, tail)
            body(start, f.lane_mask(start, high, lanes))
