"""Emits kernels without contractions as loops: pointwise work, reductions, rows, windows, index maps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from ....ir.kernel import Kernel, Local, Reduce, ReduceOp, Ref, Stage, Store, walk
from ....ir.target import CpuTarget
from ....ir.types import DType
from ...emission import Emission, LaunchSpec
from ..arithmetic import Operand, Value
from ..emitter import FunctionBuilder, ModuleBuilder
from ..scalars import emit_scalar
from ..types import I32, I64, PTR, type_of
from .expressions import Evaluator, Point
from .nest import Bound, Nest, build_nest, hoist_reductions
from .plan import LoopGroup, LoopSchedule, clippable_bounds, is_reduction, plan_steps, schedule_general, schedule_nest

_STACK_ELEMENTS = 1 << 15  # rows kept on the stack; longer ones are computed again where they are read


def emit_loops(
    kernel: Kernel, target: CpuTarget, module: ModuleBuilder | None, symbol: str, extents: tuple[int, ...] = ()
) -> Emission:
    """A kernel without Contract as one function over units of its parallel axes; ValueError says what has no emission.

    `extents` are the numbers of `kernel.extents`: the code does not depend on them, the launch does. Without a module
    only the launch is made, for code that exists already.
    """
    nest = build_nest(hoist_reductions(kernel))
    dtypes = {b.name: b.dtype for b in kernel.buffers}
    if kernel.extents:
        schedule = schedule_general(nest, dtypes, target, dict(zip(kernel.extents, extents, strict=True)))
    else:
        schedule = schedule_nest(nest, dtypes, target)
    if module is not None:
        _Emitter(kernel, nest, schedule, module, symbol).emit()
    grain = max(1, min(schedule.count, schedule.grain))
    return Emission((LaunchSpec(symbol, schedule.count, grain),))


VectorBody = Callable[[Value, Value | None], None]
PassBody = Callable[[Point, Sequence[Value]], list[Value]]


@dataclass
class _Row:
    """What the stages of one row share: values of row Locals, and addresses of scratch rows of full ones."""

    locals: dict[str, tuple[Value, DType]] = field(default_factory=dict[str, tuple[Value, DType]])
    scratch: dict[str, tuple[Value, DType]] = field(default_factory=dict[str, tuple[Value, DType]])


class _Emitter:
    def __init__(self, kernel: Kernel, nest: Nest, schedule: LoopSchedule, module: ModuleBuilder, symbol: str) -> None:
        self.kernel, self.nest, self.s = kernel, nest, schedule
        parameters = (("args", PTR, "noalias"), ("begin", I64, ""), ("end", I64, ""), ("worker", I32, ""))
        self.module, self.symbol, self.parameters = module, symbol, parameters
        self.steps = plan_steps(nest)
        self.reduces = bool(schedule.reductions)
        self.vector_reduced = schedule.vector in schedule.reductions

    def emit(self) -> None:
        f = self.module.function(self.symbol, None, self.parameters)
        self.f = f
        args, begin, end, _ = f.args
        pointers = {b.name: f.load(f.gep(args, i, PTR), PTR, 8) for i, b in enumerate(self.kernel.buffers)}
        first = len(pointers)
        numbers = {n: f.load(f.gep(args, first + i, I64), I64, 8) for i, n in enumerate(self.kernel.extents)}
        self.eval = Evaluator(f, self.kernel, self.nest, self.s, pointers, numbers)
        self.scratch = {name: f.alloca(type_of(dtype), self._row_elements()) for name, dtype in self._scratch_rows()}
        with f.loop(begin, end) as unit:
            self._unit(unit)
        f.ret()

    # -- scratch rows

    def _row_elements(self) -> int:
        n = 1
        for a in self.s.reductions:
            n *= self.nest.known_extent(a)
        return n if self.vector_reduced else n * self.s.lanes

    def _scratch_rows(self) -> list[tuple[str, DType]]:
        """Full Locals that a later loop reads, while they fit the stack; others are computed again."""
        made: dict[str, int] = {}
        rows: dict[str, DType] = {}
        for number, step in enumerate(self.steps):
            stages = step.stages if isinstance(step, LoopGroup) else [step]
            for stage in stages:
                for e in walk(stage.value):
                    if isinstance(e, Ref) and made.get(e.local, number) != number:
                        rows[e.local] = self.eval.local_dtype(e.local)
            if isinstance(step, LoopGroup):
                made.update((s.name, number) for s in stages if isinstance(s, Local) and not is_reduction(s))
        return list(rows.items()) if self._row_elements() * max(1, len(rows)) <= _STACK_ELEMENTS else []

    # -- parallel axes

    def _unit(self, unit: Value) -> None:
        f, s = self.f, self.s
        point: Point = {}
        rest: Operand = unit
        low: Operand = 0
        if s.blocks != 1:
            blocks = s.blocks or f.udiv(self.eval.plus(self.eval.extent(s.vector), s.block - 1), s.block)
            low = f.urem(rest, blocks) * s.block
            rest = f.udiv(rest, blocks)
        for axis in reversed(s.units):
            extent = self.eval.extent(axis)
            if axis == s.units[0]:
                point[axis] = rest
            else:
                point[axis] = f.urem(rest, extent)
                rest = f.udiv(rest, extent)
        with ExitStack() as stack:
            for axis in s.loops:
                point[axis] = stack.enter_context(f.loop(0, self.nest.known_extent(axis)))
            self._vector_axis(point, low)

    def _vector_axis(self, point: Point, low: Operand) -> None:
        """Run the row at every vector of a parallel vector axis; at one scalar point when the vector runs along the
        reduction.
        """
        if self.vector_reduced or not self.s.vector:
            self._row(point, None)
            return
        f, s = self.f, self.s
        n = self.eval.extent(s.vector)
        high: Operand = n if s.blocks == 1 else f.smin(f.add(low, s.block), n)
        even = isinstance(n, int) and n % s.lanes == 0 and (s.blocks == 1 or s.block % s.lanes == 0)
        self._vectors(low, high, even, lambda at, mask: self._row({**point, s.vector: at}, mask))

    def _vectors(self, low: Operand, high: Operand, even: bool, body: VectorBody) -> None:
        """body(index, mask) for each vector in [low, high), the last one masked unless it is full."""
        f, lanes = self.f, self.s.lanes
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

    # -- one row: its steps in order

    def _row(self, point: Point, mask: Value | None) -> None:
        row = _Row(scratch={n: (p, self.eval.local_dtype(n)) for n, p in self.scratch.items()})
        for step in self.steps:
            if isinstance(step, LoopGroup):
                self._loop(step, row, point, mask)
            else:
                self._point_stage(step, row, point, mask)

    def _point_stage(self, stage: Stage, row: _Row, point: Point, mask: Value | None) -> None:
        value, dtype = self.eval.value(stage.value, point, mask, row.locals)
        if isinstance(stage, Local):
            row.locals[stage.name] = value, dtype
        else:
            self.eval.store(stage, value, dtype, point, mask)

    # -- loops over the reduced axes

    def _loop(self, group: LoopGroup, row: _Row, point: Point, mask: Value | None) -> None:
        """One pass over the reduced axes that computes all stages of `group`; reductions leave their results in
        `row`.
        """
        reductions = [s for s in group.stages if is_reduction(s)]
        dtypes = [self._reduction_dtype(s) for s in reductions]
        lanes = self.s.lanes if self.s.vector else 1
        start = [self._neutral(s, d, lanes) for s, d in zip(reductions, dtypes, strict=True)]
        if self.vector_reduced:
            totals = self._vector_loop(group, row, point, start)
            totals = [self._across(s, v, d) for s, v, d in zip(reductions, totals, dtypes, strict=True)]
        else:
            totals = self._nest(list(self.s.reductions), group, row, point, mask, start)
        for stage, total, dtype in zip(reductions, totals, dtypes, strict=True):
            assert isinstance(stage, Local)
            row.locals[stage.name] = total, dtype

    def _reduction_dtype(self, stage: Stage) -> DType:
        assert isinstance(stage.value, Reduce)
        return self.eval.dtype(stage.value.operand)

    def _neutral(self, stage: Stage, dtype: DType, lanes: int) -> Value:
        assert isinstance(stage.value, Reduce)
        return self.f.const(type_of(dtype, lanes), stage.value.op.neutral(dtype))

    def _across(self, stage: Stage, value: Value, dtype: DType) -> Value:
        assert isinstance(stage.value, Reduce)
        return combine_lanes(self.f, stage.value.op, value, dtype)

    def _nest(
        self, axes: list[str], group: LoopGroup, row: _Row, point: Point, mask: Value | None, carry: Sequence[Value]
    ) -> list[Value]:
        """Scalar loops over `axes`, clipped to where padded loads stay inside; lanes are different rows."""
        if not axes:
            return self._iteration(group, row, point, mask, carry)
        axis, *inner = axes
        low, high = self._clip(axis, axes, group, point)
        with self.f.carry_loop(low, high, list(carry)) as loop:
            loop.next(*self._nest(inner, group, row, {**point, axis: loop.index}, mask, loop.values))
        return list(loop.results)

    def _clip(self, axis: str, open_axes: list[str], group: LoopGroup, point: Point) -> tuple[Operand, Operand]:
        """The range of a reduced axis within which the group's padded load is inside: its bounds need no mask then."""
        low: Operand = 0
        high: Operand = self.nest.known_extent(axis)
        for bound in clippable_bounds(self.nest, self.s, group.stages):
            names = [a for a, _ in bound.terms]
            if axis not in names or any(a in open_axes and a != axis for a in names):
                continue
            low, high = self._clip_to(bound, axis, point, low, high)
        return low, high

    def _clip_to(self, bound: Bound, axis: str, point: Point, low: Operand, high: Operand) -> tuple[Operand, Operand]:
        f = self.f
        scale = next(c for a, c in bound.terms if a == axis)
        rest = self.eval.sum_terms([(a, c) for a, c in bound.terms if a != axis], bound.offset, point)
        first = f.neg(rest)  # scale * k >= first and scale * k < extent + first
        beyond = first + bound.extent
        if scale != 1:
            first = f.div(f.add(f.smax(first, 0), scale - 1), scale)
            beyond = f.div(f.add(f.smax(beyond, 0), scale - 1), scale)
        return f.smax(first, low), f.smin(beyond, high)

    def _vector_loop(self, group: LoopGroup, row: _Row, point: Point, start: Sequence[Value]) -> list[Value]:
        """Loops over the reduced axes with the vector axis innermost; returns lanes to be combined."""
        outer = list(self.s.reductions[:-1])

        def inner(at: Point, carry: Sequence[Value]) -> list[Value]:
            return self._vector_pass(group, row, at, carry)

        return self._outer(outer, point, start, inner)

    def _outer(self, axes: list[str], point: Point, carry: Sequence[Value], inner: PassBody) -> list[Value]:
        if not axes:
            return inner(point, carry)
        with self.f.carry_loop(0, self.nest.known_extent(axes[0]), list(carry)) as loop:
            loop.next(*self._outer(axes[1:], {**point, axes[0]: loop.index}, loop.values, inner))
        return list(loop.results)

    def _vector_pass(self, group: LoopGroup, row: _Row, point: Point, carry: Sequence[Value]) -> list[Value]:
        f, s = self.f, self.s
        n, lanes = self.nest.known_extent(s.vector), s.lanes
        unroll = s.unroll if any(is_reduction(x) for x in group.stages) else 1
        values = list(carry)
        done = n // (lanes * unroll) * lanes * unroll
        if unroll > 1:
            values = self._unrolled(group, row, point, values, done, unroll)
        whole = n // lanes * lanes
        low = done if unroll > 1 else 0
        if low < whole:
            with f.carry_loop(low, whole, values, lanes) as loop:
                loop.next(*self._iteration(group, row, {**point, s.vector: loop.index}, None, loop.values))
            values = list(loop.results)
        if whole < n:
            at = f.const(I64, whole)
            values = self._iteration(group, row, {**point, s.vector: at}, f.lane_mask(at, n, lanes), values)
        return values

    def _unrolled(
        self, group: LoopGroup, row: _Row, point: Point, carry: Sequence[Value], done: int, unroll: int
    ) -> list[Value]:
        """Several vectors at a time, each with accumulators of its own, joined behind the loop."""
        f, s = self.f, self.s
        reductions = [x for x in group.stages if is_reduction(x)]
        k = len(reductions)
        fresh = [self._neutral(x, self._reduction_dtype(x), s.lanes) for x in reductions]
        with f.carry_loop(0, done, [*carry, *fresh * (unroll - 1)], s.lanes * unroll) as loop:
            later: list[Value] = []
            for u in range(unroll):
                at = f.add(loop.index, u * s.lanes)
                later += self._iteration(group, row, {**point, s.vector: at}, None, loop.values[u * k : u * k + k])
            loop.next(*later)
        parts = [list(loop.results[u * k : u * k + k]) for u in range(unroll)]
        return [self._join(x, [p[i] for p in parts]) for i, x in enumerate(reductions)]

    def _join(self, stage: Stage, parts: list[Value]) -> Value:
        assert isinstance(stage.value, Reduce)
        op, dtype = stage.value.op.scalar, self._reduction_dtype(stage)
        while len(parts) > 1:
            parts = [emit_scalar(self.f, op, pair, dtype) for pair in zip(parts[::2], parts[1::2], strict=True)]
        return parts[0]

    def _iteration(
        self, group: LoopGroup, row: _Row, point: Point, mask: Value | None, carry: Sequence[Value]
    ) -> list[Value]:
        """One point (vector) of the reduced axes: the stages in order; returns the accumulators."""
        seen = dict(row.locals)
        accumulators = iter(carry)
        later: list[Value] = []
        for name, (address, dtype) in row.scratch.items():
            if name not in {s.name for s in group.stages if isinstance(s, Local)}:
                seen[name] = self._scratch_load(address, dtype, point), dtype
        for stage in group.stages:
            if isinstance(stage.value, Reduce):
                later.append(self._accumulate(stage.value, next(accumulators), point, mask, seen))
                continue
            value, dtype = self.eval.value(stage.value, point, mask, seen)
            if isinstance(stage, Store):
                self.eval.store(stage, value, dtype, point, mask)
                continue
            seen[stage.name] = value, dtype
            if stage.name in row.scratch:
                self._scratch_store(row.scratch[stage.name][0], value, point)
        return later

    def _accumulate(
        self, reduce: Reduce, total: Value, point: Point, mask: Value | None, seen: dict[str, tuple[Value, DType]]
    ) -> Value:
        f = self.f
        value, dtype = self.eval.value(reduce.operand, point, mask, seen)
        value = self.eval.wide(value, total.type.lanes)
        if mask is not None and self.vector_reduced:
            value = f.select(mask, value, f.const(value.type, reduce.op.neutral(dtype)))
        return emit_scalar(f, reduce.op.scalar, (total, value), dtype)

    def _scratch_index(self, point: Point) -> Value:
        """The element of a scratch row at a point of the reduced axes."""
        position: Operand = 0
        for axis in self.s.reductions:
            position = self.eval.plus(self.eval.times(position, self.nest.known_extent(axis)), point[axis])
        index = position if isinstance(position, Value) else self.f.const(I64, position)
        return index if self.vector_reduced else self.f.mul(index, self.s.lanes)

    def _scratch_load(self, base: Value, dtype: DType, point: Point) -> Value:
        f = self.f
        at = self._scratch_index(point)
        return f.load(f.gep(base, at, type_of(dtype)), type_of(dtype, self.s.lanes))

    def _scratch_store(self, base: Value, value: Value, point: Point) -> None:
        f = self.f
        at = self._scratch_index(point)
        value = self.eval.wide(value, self.s.lanes)
        f.store(value, f.gep(base, at, value.type.scalar))


def combine_lanes(f: FunctionBuilder, op: ReduceOp, value: Value, dtype: DType) -> Value:
    """All lanes of a vector combined, pairwise: the two halves until one lane is left."""
    while value.type.lanes > 1:
        half = value.type.lanes // 2
        low, high = f.slice_lanes(value, 0, half), f.slice_lanes(value, half, half)
        value = emit_scalar(f, op.scalar, (low, high), dtype)
    return value
