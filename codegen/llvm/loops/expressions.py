"""Emits kernel expressions at a point of a loop nest: scalars if all lanes are equal, vectors if they differ."""

from __future__ import annotations

from collections.abc import Sequence

from ....ir.kernel import (
    AxisValue,
    Cast,
    Const,
    Expr,
    Extent,
    Index,
    Kernel,
    Load,
    Local,
    Reduce,
    Ref,
    Scalar,
    ScalarParameter,
    Store,
)
from ....ir.scalar import ScalarOp, result_dtype
from ....ir.symbolic import is_symbolic
from ....ir.types import DType
from ...nest import Access, Bound, Nest
from ..arithmetic import Operand, Value
from ..emitter import FunctionBuilder
from ..scalars import emit_cast, emit_scalar
from ..schedule.loops import LoopSchedule, clippable_bounds
from ..schedule.vector_axis import SHUFFLED
from ..types import I64, Type, memory_type_of, type_of
from .common import Common

Point = dict[str, Operand]  # index along each axis; along the vector axis, the index of lane 0
Locals = dict[str, tuple[Value, DType]]


def compute_dtype(dtype: DType) -> DType:
    """The dtype in which a kernel computes with elements of `dtype`: 16-bit floats are converted to float32 on load."""
    return DType.F32 if dtype in (DType.F16, DType.BF16) else dtype


class Evaluator:
    """Emits expressions of one kernel. `pointers` are the buffers' addresses; `numbers` the run-time extents, strides
    and scalar parameters."""

    def __init__(
        self,
        f: FunctionBuilder,
        kernel: Kernel,
        nest: Nest,
        schedule: LoopSchedule,
        pointers: dict[str, Value],
        numbers: dict[str, Value],
    ) -> None:
        self.numbers = numbers
        self.f, self.kernel, self.nest, self.s, self.pointers = f, kernel, nest, schedule, pointers
        self.buffers = {b.name: b for b in kernel.buffers}
        self.stages = {s.name: s for s in nest.stages if isinstance(s, Local)}
        self.dtypes: dict[str, DType] = {}
        self.transposed: dict[tuple[str, Index], Value] = {}  # vectors of operands that are read in transposed tiles
        self.common = Common()

    # -- dtypes

    def local_dtype(self, name: str) -> DType:
        dtype = self.dtypes.get(name)
        if dtype is None:
            dtype = self.dtypes[name] = self.dtype(self.stages[name].value)
        return dtype

    def dtype(self, expr: Expr) -> DType:
        """The dtype in which `expr` is computed."""
        match expr:
            case Const(dtype=dtype) | ScalarParameter(dtype=dtype) | Cast(dtype=dtype):
                return compute_dtype(dtype)
            case AxisValue():
                return DType.I64
            case Load(buffer=buffer):
                return compute_dtype(self.buffers[buffer].dtype)
            case Ref(local=local):
                return self.local_dtype(local)
            case Scalar(op=op, operands=operands):
                return result_dtype(op, *(self.dtype(e) for e in operands))
            case Reduce(operand=operand):
                return self.dtype(operand)
            case _:
                raise ValueError(f"kernel {self.kernel.name}: {type(expr).__name__} inside a loop kernel")

    # -- values

    def value(self, expr: Expr, point: Point, mask: Value | None, seen: Locals) -> tuple[Value, DType]:
        """`expr` at `point`, with its dtype."""
        common = self.common.values.get(id(expr))
        return self._computed(expr, point, mask, seen) if common is None else common

    def _computed(self, expr: Expr, point: Point, mask: Value | None, seen: Locals) -> tuple[Value, DType]:
        match expr:
            case Const(value=number, dtype=dtype):
                dtype = compute_dtype(dtype)
                return self.f.const(type_of(dtype), number), dtype
            case ScalarParameter(name=name, dtype=dtype):
                return self.numbers[name], compute_dtype(dtype)
            case AxisValue(axis=axis):
                return self._index(self.nest.values[axis], 0, point), DType.I64
            case Ref(local=local):
                if local not in seen:  # a full Local that does not fit the scratch memory is computed again
                    return self.value(self.stages[local].value, point, mask, seen)
                return seen[local]
            case Load():
                return self._load(expr, point, mask, seen)
            case Cast(dtype=dtype, operand=operand):
                return self._cast(dtype, *self.value(operand, point, mask, seen))
            case Scalar(op=op, operands=operands):
                return self._scalar(op, [self.value(e, point, mask, seen) for e in operands])
            case _:
                raise ValueError(f"kernel {self.kernel.name}: {type(expr).__name__} inside an expression")

    def _cast(self, dtype: DType, value: Value, source: DType) -> tuple[Value, DType]:
        value = emit_cast(self.f, value, source, dtype)
        wide = compute_dtype(dtype)
        return (value, dtype) if wide is dtype else (emit_cast(self.f, value, dtype, wide), wide)

    def _scalar(self, op: ScalarOp, operands: Sequence[tuple[Value, DType]]) -> tuple[Value, DType]:
        lanes = max(v.type.lanes for v, _ in operands)
        values = [self.wide(v, lanes) for v, _ in operands]
        dtypes = [d for _, d in operands]
        return emit_scalar(self.f, op, values, dtypes[-1]), result_dtype(op, *dtypes)

    def wide(self, value: Value, lanes: int) -> Value:
        """`value` with `lanes` lanes: itself, or a splat of a scalar."""
        if value.type.lanes == lanes:
            return value
        known = self.common.splats.get(value)
        return (
            known if known is not None and lanes == self.s.lanes else self.f.splat(value, value.type.with_lanes(lanes))
        )

    # -- indices

    def sum_terms(self, terms: Sequence[tuple[str, Extent]], offset: Extent, point: Point) -> Value:
        """sum(coefficient * index) + offset as a scalar i64."""
        total: Operand = self.number(offset)
        for axis, c in terms:
            at = point.get(axis, 0)
            total = self.plus(total, self.times(at, c))
        return total if isinstance(total, Value) else self.f.const(I64, total)

    def plus(self, a: Operand, b: Operand) -> Operand:
        """a + b, computed in Python if both are numbers."""
        if not isinstance(a, Value):
            a, b = b, a
        if not isinstance(a, Value):
            return a + b
        return a if not isinstance(b, Value) and b == 0 else self.f.add(a, b)

    def extent(self, axis: str) -> Operand:
        """The extent of an axis: a number, or a run-time value."""
        return self.number(self.nest.extent(axis))

    def number(self, extent: Extent) -> Operand:
        """A constant, or a run-time value."""
        if not isinstance(extent, int):
            return self.numbers[extent]
        return self.f.const(I64, extent) if is_symbolic(extent) else extent

    def times(self, a: Operand, factor: Extent) -> Operand:
        """a * factor, computed in Python if both are numbers."""
        if isinstance(a, int) and a == 0:
            return 0
        if (a, factor) in self.common.products:
            return self.common.products[a, factor]
        if isinstance(factor, str):
            return self.f.mul(self.numbers[factor], a)
        if not isinstance(a, Value):
            return a * factor
        return a if factor == 1 else self.f.mul(a, factor)

    def _index(self, terms: Sequence[tuple[str, int]], offset: int, point: Point) -> Value:
        """`sum_terms`, but with one number per lane if the sum contains the vector axis."""
        scalar = self.sum_terms(terms, offset, point)
        step = sum(c for a, c in terms if a == self.s.vector)
        return scalar if not step else self._ramp(scalar, step)

    def _ramp(self, first: Value, step: Extent) -> Value:
        """first + step * lane."""
        type = I64.with_lanes(self.s.lanes)
        return self.f.splat(first, type) + self._lanes(step, type)

    def _lanes(self, step: Extent, type: Type) -> Value:
        """step * lane."""
        if isinstance(step, int):
            return self.f.iota(type, 0, step)
        return self.f.splat(self.numbers[step], type) * self.f.iota(type)

    # -- memory

    def _load(self, load: Load, point: Point, mask: Value | None, seen: Locals) -> tuple[Value, DType]:
        access = self.nest.accesses[load.buffer, load.index]
        buffer = self.buffers[load.buffer]
        clipped = self._clipped(load)
        inside = self._inside(access, clipped, point, mask)
        other = load.other.value if load.other is not None else 0
        key = load.buffer, load.index
        raw = self.common.loads.get(key, self.transposed.get(key))
        if raw is None:
            raw = self._read(access, memory_type_of(buffer.dtype), point, inside, other, seen, mask)
        value = self.f.convert(raw, "i1") if buffer.dtype is DType.BOOL else raw
        wide = compute_dtype(buffer.dtype)
        return (value if wide is buffer.dtype else emit_cast(self.f, value, buffer.dtype, wide)), wide

    def _clipped(self, load: Load) -> list[Bound]:
        """Bounds of a padded load that the ranges of the loops already satisfy."""
        stage = next((s for s in self.nest.stages if isinstance(s.value, Reduce) and s.value.operand is load), None)
        return clippable_bounds(self.nest, self.s, [stage]) if stage is not None else []

    def _inside(self, access: Access, clipped: list[Bound], point: Point, mask: Value | None) -> Value | None:
        """The test, per lane or for all lanes, that a load is within its bounds; None if it always is."""
        bounds = [b for b in access.bounds if b not in clipped]
        guard = self.nest.guard
        if guard is not None and not access.in_blocks and self._moves_with(access, guard):
            bounds = [*bounds, guard]
        varies = access.stride(self.s.vector) or access.gathers
        test = mask if varies else None
        for bound in bounds:
            test = self._both(test, self.holds(bound, point))
        return test

    def _moves_with(self, access: Access, guard: Bound) -> bool:
        return bool(access.gathers) or any(access.stride(a) for a, _ in guard.terms)

    def holds(self, bound: Bound, point: Point) -> Value:
        """0 <= index < extent as one unsigned comparison."""
        return self.f.cmp("ult", self._index(bound.terms, bound.offset, point), bound.extent)

    def _both(self, a: Value | None, b: Value) -> Value:
        if a is None:
            return b
        lanes = max(a.type.lanes, b.type.lanes)
        return self.f.and_(self.wide(a, lanes), self.wide(b, lanes))

    def _read(
        self,
        access: Access,
        element: Type,
        point: Point,
        inside: Value | None,
        other: float | int,
        seen: Locals,
        mask: Value | None,
    ) -> Value:
        f, lanes = self.f, self.s.lanes
        base = self.pointers[access.buffer]
        at = self.sum_terms(access.strides, access.offset, point)
        for index, step, extent in access.gathers:
            position, _ = self.value(index, point, mask, seen)
            if extent is not None:
                inside = self._both(inside, f.cmp("ult", position, self._spread(extent, position)))
            scaled = position if step == 1 else f.mul(position, self._spread(step, position))
            width = max(at.type.lanes, scaled.type.lanes)
            at = f.add(self.wide(at, width), self.wide(scaled, width))
        step = access.stride(self.s.vector) if self.s.vector else 0
        if step in SHUFFLED and at.type.lanes == 1 and inside is None:
            return self._read_shuffled(base, at, element.with_lanes(lanes), step)
        if step and at.type.lanes == 1 and step != 1:
            at = self._ramp(at, step)
        elif step and at.type.lanes > 1:
            at = at + self._lanes(step, at.type)
        if at.type.lanes > 1:
            wide = None if inside is None else self.wide(inside, lanes)
            return f.gather(base, at, element, wide, other)
        if step == 1:
            return self._read_row(f.gep(base, at, element), element.with_lanes(lanes), inside, other)
        return self._read_one(base, at, element, inside, other)

    def _spread(self, extent: Extent, like: Value) -> Operand:
        """A number with as many lanes as `like`."""
        number = self.number(extent)
        return self.wide(number, like.type.lanes) if isinstance(number, Value) else number

    def _read_row(self, pointer: Value, type: Type, inside: Value | None, other: float | int) -> Value:
        if inside is None:
            return self.f.load(pointer, type)
        mask = self.wide(inside, type.lanes)
        return self.f.masked_load(pointer, type, mask, self.f.const(type, other))

    def _read_shuffled(self, base: Value, at: Value, type: Type, step: Extent) -> Value:
        """Every second element, or elements in reverse order: loads of whole vectors between the first and the last."""
        f, lanes = self.f, type.lanes
        if step == -1:
            row = f.load(f.gep(base, f.sub(at, lanes - 1), type.scalar), type)
            return f.shuffle(row, row, range(lanes)[::-1])
        low = f.load(f.gep(base, at, type.scalar), type)
        high = f.load(f.gep(base, f.add(at, lanes - 1), type.scalar), type)
        return f.shuffle(low, high, [2 * i if 2 * i < lanes else 2 * i + 1 for i in range(lanes)])

    def _read_one(self, base: Value, at: Value, element: Type, inside: Value | None, other: float | int) -> Value:
        """One element for all lanes. A scalar test decides about the element itself; a test per lane (a tail mask) only
        selects lanes.
        """
        f = self.f
        if inside is None or inside.type.lanes > 1:
            value = f.load(f.gep(base, self._safe(at, inside), element), element)
            if inside is None:
                return value
            return f.select(
                inside, self.wide(value, inside.type.lanes), f.const(element.with_lanes(inside.type.lanes), other)
            )
        value = f.load(f.gep(base, f.select(inside, at, 0), element), element)
        return f.select(inside, value, f.const(element, other))

    def _safe(self, at: Value, inside: Value | None) -> Value:
        """An index that can always be read: 0 if no lane is inside."""
        return at if inside is None else self.f.select(self.f.any(inside), at, 0)

    def store(self, stage: Store, value: Value, dtype: DType, point: Point, mask: Value | None) -> None:
        """Store a stage's result; padding channels of a block become zeros."""
        f = self.f
        access = self.nest.accesses[stage.buffer, stage.index]
        value = self._stored(stage, value, dtype)
        step = access.stride(self.s.vector) if self.s.vector else 0
        value = self.wide(value, self.s.lanes) if step else value
        value, mask = self._guarded(value, mask, point, access)
        at = self.sum_terms(access.strides, access.offset, point)
        pointer = f.gep(self.pointers[stage.buffer], at, value.type.scalar)
        if step not in (0, 1):
            self._scatter(pointer, value, step, mask)
        elif mask is None or value.type.lanes == 1:
            self._store_plain(pointer, value, mask)
        else:
            self._store_lanes(pointer, value, self.wide(mask, value.type.lanes))

    def _stored(self, stage: Store, value: Value, dtype: DType) -> Value:
        """A value in the type of the buffer's memory."""
        buffer = self.buffers[stage.buffer]
        value = emit_cast(self.f, value, dtype, buffer.dtype) if dtype is not buffer.dtype else value
        return self.f.convert(value, "i8", signed=False) if buffer.dtype is DType.BOOL else value

    def store_woven(
        self, stage: Store, values: Sequence[Value], dtype: DType, point: Point, mask: Value | None
    ) -> None:
        """Store a stage's results at all elements of the woven axis, of which `point` is the first."""
        f = self.f
        access = self.nest.accesses[stage.buffer, stage.index]
        wide = [self.wide(self._stored(stage, value, dtype), self.s.lanes) for value in values]
        pointer = f.gep(
            self.pointers[stage.buffer], self.sum_terms(access.strides, access.offset, point), wide[0].type.scalar
        )
        row = f.interleave(wide)
        if mask is None:
            f.store(row, pointer)
        else:
            self._store_lanes(pointer, row, f.interleave([self.wide(mask, self.s.lanes)] * len(values)))

    def _store_lanes(self, pointer: Value, value: Value, mask: Value) -> None:
        """A masked store. If every vector has a mask, most masks are full, and a branch to a plain store is several
        times faster."""
        f = self.f
        if not self.s.masked:
            f.masked_store(value, pointer, mask)
            return
        f.branch(f.all(mask), lambda: f.store(value, pointer) or (), lambda: f.masked_store(value, pointer, mask) or ())

    def _guarded(self, value: Value, mask: Value | None, point: Point, access: Access) -> tuple[Value, Value | None]:
        guard = self.nest.guard
        if guard is None or not any(access.stride(a) for a, _ in guard.terms):
            return value, mask
        real = self.holds(guard, point)
        if not access.in_blocks:
            return value, self._both(mask, real)
        lanes = max(value.type.lanes, real.type.lanes)
        type = value.type.with_lanes(lanes)
        real = self.wide(real, lanes)
        return self.f.select(real, self.wide(value, lanes), self.f.const(type, 0)), mask

    def _store_plain(self, pointer: Value, value: Value, mask: Value | None) -> None:
        if mask is not None and mask.type.lanes == 1:
            with self.f.when(mask):
                self.f.store(value, pointer)
        else:
            self.f.store(value, pointer)

    def _scatter(self, pointer: Value, value: Value, step: Extent, mask: Value | None) -> None:
        """Store lanes one by one, `step` elements apart."""
        f = self.f
        for lane in range(value.type.lanes):
            one = f.extract(value, lane)
            target = f.gep(pointer, self.times(f.const(I64, lane), step), value.type.scalar)
            if mask is None:
                f.store(one, target)
                continue
            with f.when(f.extract(mask, lane) if mask.type.lanes > 1 else mask):
                f.store(one, target)
