"""Emits the rows of a loop kernel: its stages in order, and loops over reduced axes with accumulators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from math import prod

from ....ir.kernel import Kernel, Local, Reduce, ReduceOp, Stage, Store
from ....ir.lazy_dataclass import dataclass
from ....ir.symbolic import is_symbolic
from ....ir.types import DType
from ...nest import Bound, Nest
from ..arithmetic import Operand, Value
from ..emitter import FunctionBuilder
from ..scalars import emit_scalar
from ..schedule.loops import STACK_ELEMENTS, LoopSchedule, clippable_bounds
from ..schedule.steps import LoopGroup, is_reduction, plan_steps, scratch_rows
from ..types import I64, Type, type_of
from .expressions import Evaluator, Point

_PIECE, _SHORT_PIECE = 256, 32  # elements that are summed before they are added to a longer sum
PassBody = Callable[[Point, Sequence[Value]], list[Value]]


@dataclass
class Row:
    """The position of a row, and the values that its stages share: values of row Locals, and addresses of the scratch
    rows of full Locals."""

    point: Point
    locals: dict[str, tuple[Value, DType]] = field(default_factory=dict[str, tuple[Value, DType]])
    scratch: dict[str, tuple[Value, DType]] = field(default_factory=dict[str, tuple[Value, DType]])


class RowEmitter:
    """Emits the rows of one kernel. Subclasses set `f` and `eval` when they create the function."""

    f: FunctionBuilder
    eval: Evaluator

    def __init__(self, kernel: Kernel, nest: Nest, schedule: LoopSchedule) -> None:
        self.kernel, self.nest, self.s = kernel, nest, schedule
        self.steps = plan_steps(nest)
        self.vector_reduced = schedule.vector in schedule.reductions
        self.scratch: dict[str, Value] = {}
        self.mask: Value | None = None  # the mask of the only vector, if the vector axis is shorter than a vector

    # -- scratch rows

    def make_scratch(self) -> None:
        """Allocate stack memory for full Locals that a later loop reads, if it suffices; else they are computed
        again."""
        names = scratch_rows(self.steps)
        if not names:
            return
        if is_symbolic(self._room(1)) and len(self.s.reductions) > 1:  # rows of images: most would not fit
            return
        fits = self.s.scratch if self.kernel.extents else self._room(1) * len(names) <= STACK_ELEMENTS
        for name in names if fits else ():
            self.scratch[name] = self.f.alloca(type_of(self.eval.local_dtype(name)), self._room(len(names)))

    def _room(self, rows: int) -> int:
        """The number of elements of a scratch row, rounded up to whole vectors. Rows of several axes are stored one
        after another, in whole vectors, of which the last can begin anywhere."""
        if self.kernel.extents:
            n = STACK_ELEMENTS // rows
        else:
            n = prod(map(self.nest.known_extent, self.s.reductions)) * (1 if self.vector_reduced else self.s.lanes)
        beyond = self.s.lanes if self.vector_reduced and len(self.s.reductions) > 1 else 0
        return -(-n // self.s.lanes) * self.s.lanes + beyond

    # -- one row: its steps in order

    def rows(self, points: Sequence[Point], mask: Value | None) -> None:
        """Emit the rows at these points; each step for all points before the next step."""
        scratch = {n: (p, self.eval.local_dtype(n)) for n, p in self.scratch.items()}
        if self.s.woven:
            points = [{**point, self.s.woven: i} for point in points for i in range(self.s.woven_extent)]
        rows = [Row(point, scratch=scratch) for point in points]
        for step in self.steps:
            if isinstance(step, LoopGroup):
                self._loop(step, rows, mask)
            elif isinstance(step, Store) and self.s.woven:
                for first in range(0, len(rows), self.s.woven_extent):
                    self._store_woven(step, rows[first : first + self.s.woven_extent], mask)
            else:
                for row in rows:
                    self.point_stage(step, row, mask)

    def _store_woven(self, stage: Store, rows: Sequence[Row], mask: Value | None) -> None:
        """Store the values at all elements of the woven axis, interleaved."""
        values = [self.eval.value(stage.value, row.point, mask, row.locals) for row in rows]
        self.eval.store_woven(stage, [v for v, _ in values], values[0][1], rows[0].point, mask)

    def point_stage(self, stage: Stage, row: Row, mask: Value | None) -> None:
        value, dtype = self.eval.value(stage.value, row.point, mask, row.locals)
        if isinstance(stage, Local):
            row.locals[stage.name] = value, dtype
        else:
            self.eval.store(stage, value, dtype, row.point, mask)

    # -- loops over the reduced axes

    def _loop(self, group: LoopGroup, rows: Sequence[Row], mask: Value | None) -> None:
        """One loop over the reduced axes that computes all stages of `group`. The results of reductions are stored in
        `Row.locals`.
        """
        reductions = [s for s in group.stages if is_reduction(s)]
        dtypes = [self._reduction_dtype(s) for s in reductions]
        start = self.neutral_values(group)
        if self.vector_reduced:
            totals = self._vector_loop(group, rows[0], rows[0].point, start)
            totals = [self._across(s, v, d) for s, v, d in zip(reductions, totals, dtypes, strict=True)]
        else:
            totals = self._nest(list(self.s.reductions), group, rows, {}, mask, start * len(rows))
        results = iter(totals)
        for row in rows:
            for stage, dtype in zip(reductions, dtypes, strict=True):
                assert isinstance(stage, Local)
                row.locals[stage.name] = next(results), dtype

    def _reduction_dtype(self, stage: Stage) -> DType:
        assert isinstance(stage.value, Reduce)
        return self.eval.dtype(stage.value.operand)

    def neutral_values(self, group: LoopGroup) -> list[Value]:
        """The initial accumulators of a group."""
        lanes = self.s.lanes if self.s.vector else 1
        return [self._neutral(s, self._reduction_dtype(s), lanes) for s in group.stages if is_reduction(s)]

    def vector_type(self, dtype: DType) -> Type:
        """The type of a vector of values of a dtype."""
        return type_of(dtype, self.s.lanes)

    def _neutral(self, stage: Stage, dtype: DType, lanes: int) -> Value:
        assert isinstance(stage.value, Reduce)
        return self.f.const(type_of(dtype, lanes), stage.value.op.neutral(dtype))

    def _across(self, stage: Stage, value: Value, dtype: DType) -> Value:
        assert isinstance(stage.value, Reduce)
        return combine_lanes(self.f, stage.value.op, value, dtype)

    def _nest(
        self,
        axes: list[str],
        group: LoopGroup,
        rows: Sequence[Row],
        at: Point,
        mask: Value | None,
        carry: Sequence[Value],
    ) -> list[Value]:
        """Scalar loops over `axes`, clipped to the range where padded loads are inside. Lanes are different rows."""
        if not axes:
            k = len(carry) // len(rows)
            parts = (carry[i * k : i * k + k] for i in range(len(rows)))
            later = (self.iteration(group, r, {**r.point, **at}, mask, c) for r, c in zip(rows, parts, strict=True))
            return [value for part in later for value in part]
        axis, *inner = axes
        low, high = self._clip(axis, axes, group, {**rows[0].point, **at})
        if not inner and self.s.unroll > 1 and carry and isinstance(low, int) and isinstance(high, int):
            return self._partial_sums(group, rows[0], at, mask, carry, range(low, high))
        with self.f.carry_loop(low, high, list(carry)) as loop:
            loop.next(*self._nest(inner, group, rows, {**at, axis: loop.index}, mask, loop.values))
        return list(loop.results)

    def _partial_sums(
        self, group: LoopGroup, row: Row, at: Point, mask: Value | None, carry: Sequence[Value], along: range
    ) -> list[Value]:
        """`carry` combined with the reductions along the innermost axis. Pieces of the axis have accumulators of their
        own: they hide latency, and sums of fewer elements round less."""
        piece = _piece_of(len(along))
        if piece == len(along):
            low = self.f.const(I64, along.start)
            return self._joined(group, [list(carry), self._piece_sums(group, row, at, mask, low, piece)])
        with self.f.carry_loop(along.start, along.stop, list(carry), piece) as loop:
            sums = self._piece_sums(group, row, at, mask, loop.index, piece)
            loop.next(*self._joined(group, [loop.values, sums]))
        return list(loop.results)

    def _piece_sums(
        self, group: LoopGroup, row: Row, at: Point, mask: Value | None, low: Value, piece: int
    ) -> list[Value]:
        """The reductions of `piece` elements from `low` on along the innermost axis."""
        f, unroll = self.f, self.s.unroll
        start = self.neutral_values(group)
        k, rest = len(start), piece - piece % unroll

        def body(offset: Operand, sums: Sequence[Value]) -> list[Value]:
            point = {**row.point, **at, self.s.reductions[-1]: f.add(low, offset)}
            return self.iteration(group, row, point, mask, sums)

        if piece < 2 * unroll:  # the loop would run once
            parts = [body(u, start) for u in range(min(unroll, piece))]
            rest = len(parts)
        else:
            with f.carry_loop(0, rest, start * unroll, unroll) as loop:
                later = [body(f.add(loop.index, u), loop.values[u * k : u * k + k]) for u in range(unroll)]
                loop.next(*[v for values in later for v in values])
            parts = [list(loop.results[u * k : u * k + k]) for u in range(unroll)]
        for u, offset in enumerate(range(rest, piece)):
            parts[u] = body(offset, parts[u])
        return self._joined(group, parts)

    def _clip(self, axis: str, open_axes: list[str], group: LoopGroup, point: Point) -> tuple[Operand, Operand]:
        """The range of a reduced axis in which the group's padded loads are inside, so that they need no mask."""
        low: Operand = 0
        high: Operand = self.eval.extent(axis)
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

    def _vector_loop(self, group: LoopGroup, row: Row, point: Point, start: Sequence[Value]) -> list[Value]:
        """Loops over the reduced axes with the vector axis innermost; returns accumulators whose lanes must be
        combined."""
        outer = list(self.s.reductions[:-1])

        def inner(at: Point, carry: Sequence[Value]) -> list[Value]:
            return self._vector_pass(group, row, at, carry)

        return self._outer(outer, point, start, inner)

    def _outer(self, axes: list[str], point: Point, carry: Sequence[Value], inner: PassBody) -> list[Value]:
        if not axes:
            return inner(point, carry)
        with self.f.carry_loop(0, self.eval.extent(axes[0]), list(carry)) as loop:
            loop.next(*self._outer(axes[1:], {**point, axes[0]: loop.index}, loop.values, inner))
        return list(loop.results)

    def _vector_pass(self, group: LoopGroup, row: Row, point: Point, carry: Sequence[Value]) -> list[Value]:
        f, s = self.f, self.s
        n, lanes = self.eval.extent(s.vector), s.lanes
        if isinstance(n, Value):
            return self._general_pass(group, row, point, n, list(carry))
        unroll = s.unroll if any(is_reduction(x) for x in group.stages) else 1
        values = list(carry)
        done = n // (lanes * unroll) * lanes * unroll
        if unroll > 1:
            values = self._unrolled(group, row, point, values, done, unroll)
        whole = n // lanes * lanes
        low = done if unroll > 1 else 0
        if low < whole:
            with f.carry_loop(low, whole, values, lanes) as loop:
                loop.next(*self.iteration(group, row, {**point, s.vector: loop.index}, None, loop.values))
            values = list(loop.results)
        if whole < n:
            at = f.const(I64, whole)
            values = self.iteration(group, row, {**point, s.vector: at}, f.lane_mask(at, n, lanes), values)
        return values

    def _general_pass(self, group: LoopGroup, row: Row, point: Point, n: Value, carry: list[Value]) -> list[Value]:
        """`_vector_pass` over a run-time extent: whole vectors, several at a time, then masked vectors."""
        f, s = self.f, self.s
        if self.mask is not None:
            return self.iteration(group, row, {**point, s.vector: 0}, self.mask, carry)
        done: Operand = 0
        if not s.masked:
            unroll = s.unroll if any(is_reduction(x) for x in group.stages) else 1
            done = f.sub(n, f.urem(n, s.lanes * unroll))
            carry = self._unrolled(group, row, point, carry, done, unroll)
        with f.carry_loop(done, n, carry, s.lanes) as loop:
            at, mask = {**point, s.vector: loop.index}, f.rest_mask(loop.index, n, s.lanes)
            loop.next(*self.iteration(group, row, at, mask, loop.values))
        return list(loop.results)

    def _unrolled(
        self, group: LoopGroup, row: Row, point: Point, carry: Sequence[Value], done: Operand, unroll: int
    ) -> list[Value]:
        """Several vectors at a time, each with its own accumulators, which are joined after the loop."""
        f, s = self.f, self.s
        k = len(carry)
        fresh = self.neutral_values(group)
        with f.carry_loop(0, done, [*carry, *fresh * (unroll - 1)], s.lanes * unroll) as loop:
            later: list[Value] = []
            for u in range(unroll):
                at = f.add(loop.index, u * s.lanes)
                later += self.iteration(group, row, {**point, s.vector: at}, None, loop.values[u * k : u * k + k])
            loop.next(*later)
        return self._joined(group, [list(loop.results[u * k : u * k + k]) for u in range(unroll)])

    def _joined(self, group: LoopGroup, parts: Sequence[Sequence[Value]]) -> list[Value]:
        """The reductions of a group from several accumulators of each."""
        reductions = [s for s in group.stages if is_reduction(s)]
        return [self._join(s, [p[i] for p in parts]) for i, s in enumerate(reductions)]

    def _join(self, stage: Stage, parts: list[Value]) -> Value:
        assert isinstance(stage.value, Reduce)
        op, dtype = stage.value.op.scalar, self._reduction_dtype(stage)
        while len(parts) > 1:
            odd = parts[len(parts) // 2 * 2 :]
            pairs = zip(parts[::2], parts[1::2], strict=False)
            parts = [*(emit_scalar(self.f, op, pair, dtype) for pair in pairs), *odd]
        return parts[0]

    def iteration(
        self, group: LoopGroup, row: Row, point: Point, mask: Value | None, carry: Sequence[Value]
    ) -> list[Value]:
        """The stages in order at one point (vector) of the reduced axes; returns the accumulators."""
        seen = dict(row.locals)
        accumulators = iter(carry)
        later: list[Value] = []
        for name, (address, dtype) in row.scratch.items():
            if name not in seen and name not in {s.name for s in group.stages if isinstance(s, Local)}:
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
            if self._is_one_vector():
                row.locals[stage.name] = value, dtype
            elif stage.name in row.scratch:
                self._scratch_store(row.scratch[stage.name][0], value, point)
        return later

    def _is_one_vector(self) -> bool:
        """True if the reduced axes are one vector, so that full Locals stay in registers."""
        return self.mask is not None and self.vector_reduced and len(self.s.reductions) == 1

    def _accumulate(
        self, reduce: Reduce, total: Value, point: Point, mask: Value | None, seen: dict[str, tuple[Value, DType]]
    ) -> Value:
        f = self.f
        value, dtype = self.eval.value(reduce.operand, point, mask, seen)
        value = self.eval.wide(value, total.type.lanes)
        if mask is not None and self.vector_reduced:
            value = f.select(mask, value, f.const(value.type, reduce.op.neutral(dtype)))
        guard = self.nest.guard
        if guard is not None and any(axis in self.s.reductions for axis, _ in guard.terms):
            real = self.eval.wide(self.eval.holds(guard, point), value.type.lanes)
            value = f.select(real, value, f.const(value.type, reduce.op.neutral(dtype)))
        return emit_scalar(f, reduce.op.scalar, (total, value), dtype)

    def _scratch_index(self, point: Point) -> Value:
        """The element of a scratch row at a point of the reduced axes."""
        position: Operand = 0
        for axis in self.s.reductions:
            position = self.eval.plus(self.eval.times(position, self.nest.extent(axis)), point[axis])
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


def _piece_of(n: int) -> int:
    """The length of equal pieces of n elements, at most `_PIECE` unless they would be short."""
    piece = next(k for k in range(min(n, _PIECE), 0, -1) if n % k == 0)
    return piece if piece >= _SHORT_PIECE else n


def combine_lanes(f: FunctionBuilder, op: ReduceOp, value: Value, dtype: DType) -> Value:
    """All lanes of a vector combined to a scalar: its two halves, until one lane is left."""
    while value.type.lanes > 1:
        half = value.type.lanes // 2
        low, high = f.slice_lanes(value, 0, half), f.slice_lanes(value, half, half)
        value = emit_scalar(f, op.scalar, (low, high), dtype)
    return value
