"""Emits expressions of the kernel grammar as Triton expressions over a tile."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

from ...ir.kernel import (
    Affine,
    AxisValue,
    Cast,
    Const,
    Contract,
    Expr,
    Kernel,
    Load,
    Reduce,
    ReduceOp,
    Ref,
    Scalar,
    ScalarParameter,
    Store,
    dtype_of,
    local,
    walk,
)
from ...ir.scalar import ScalarOp, result_dtype
from ...ir.symbolic import concrete, is_symbolic
from ...ir.types import DType
from .accesses import Access, Bound, access, chains
from .numbers import bits_at_run_time, is_fixed
from .scalars import convert_to_integer, emit_scalar, takes_literals
from .schedule import TritonSchedule
from .sizes import Size, product, size
from .source import Source, Value, bare
from .types import NAMES, SHORT_FLOATS, is_plain_float, literal, register

NOTHING: frozenset[str] = frozenset()
_WITH_FLOATS = (ScalarOp.SELECT, ScalarOp.MAX, ScalarOp.MIN)  # convert a Python number to float32


class Expressions:
    """Expressions of one kernel. `frame` names the dimensions of the tile, in order; values broadcast along them."""

    def __init__(self, kernel: Kernel, schedule: TritonSchedule, source: Source, frame: tuple[str, ...]) -> None:
        self.kernel, self.schedule, self.source, self.frame = kernel, schedule, source, frame
        self.chains = chains(kernel)
        self.dim_of = {a: d.name for d in schedule.dims for a in d.axes}
        self.variables: dict[str, str] = {}  # dimension -> its index, a vector or a scalar
        self.counters: dict[str, str] = {}  # last axis of a run of flattened axes -> the index of the run
        self.scalars: set[str] = set()  # indices that are the same in all of a block
        self.neutral = _neutral_loads(kernel)

    # -- indices

    def total(self, dim: str) -> Size:
        """Points along a dimension."""
        return product(size(self.kernel.axis(a).extent) for a in self.schedule.dim(dim).axes)

    def define(self, dim: str, text: str) -> None:
        """Define the index along `dim` as `text`, and split it into indices of axes that cannot be flattened."""
        self._define(dim, text, "")

    def define_block(self, dim: str, start: str, *, scalars: bool = False) -> None:
        """Define the index along `dim` as the points of a block from `start` on, a multiple of the block. `scalars`:
        axes whose index is the same in all of the block have a scalar index.
        """
        wide = ".to(tl.int64)" if self.schedule.wide else ""
        if not start.isidentifier():
            start = self.source.let(f"{dim}_start", start, frozenset((dim,)))
        self._define(dim, f"{start} + tl.arange(0, {dim.upper()}_BLOCK){wide}", start if scalars else "")

    def _define(self, dim: str, text: str, start: str) -> None:
        dims, block = frozenset((dim,)), self.schedule.dim(dim).block
        base = self.source.let(dim, text, dims)
        self.variables[dim] = base
        inner = size(1)
        runs = self._runs(self.schedule.dim(dim).axes)
        for position, run in reversed(list(enumerate(runs))):
            extent = product(size(self.kernel.axis(a).extent) for a in run)
            is_scalar = bool(start) and inner != size(1) and inner.divisible_by(block)
            point = start if is_scalar else base
            quotient = point if inner == size(1) else f"{point} // {inner}"
            part = quotient if position == 0 else f"{quotient} % {extent}"
            name = base if part == base else self.source.let(run[-1], part, dims)
            self.counters[run[-1]] = name
            self.scalars |= {name} if is_scalar else set()
            inner = inner * extent

    def _runs(self, axes: tuple[str, ...]) -> list[tuple[str, ...]]:
        """The axes of a dimension in runs that every access can flatten; axes of extent 1 are left out."""
        follows = {b: a for c in self.chains for a, b in pairwise(c)}
        runs: list[tuple[str, ...]] = []
        for axis in axes:
            if self.kernel.axis(axis).extent == 1:
                continue
            if runs and follows.get(axis) == runs[-1][-1]:
                runs[-1] = (*runs[-1], axis)
            else:
                runs.append((axis,))
        return runs

    def expand(self, name: str, dim: str) -> str:
        """An index along `dim` with the rank of the frame."""
        if self.schedule.dim(dim).block == 1 or len(self.frame) == 1 or name in self.scalars:
            return name
        return f"{name}[:, None]" if self.frame[0] == dim else f"{name}[None, :]"

    def dim_mask(self, dim: str) -> str:
        """The test that a point of a block is within the extent; "" if all points are."""
        block, total = self.schedule.dim(dim).block, self.total(dim)
        if block == 1 or (total != size(0) and total.divisible_by(block)):
            return ""
        return f"{self.expand(self.variables[dim], dim)} < {total}"

    def _steps(self, at: Access) -> list[tuple[str, str, Size]]:
        """(index, dimension, stride) of each term of an address.

        A dimension that the access can flatten is one term, so that Triton recognizes contiguous elements.
        """
        steps: list[tuple[str, str, Size]] = []
        for dim in self.schedule.dims:
            runs = self._runs(dim.axes)
            strides = [at.stride(run[-1]) for run in runs]
            extents = [product(size(self.kernel.axis(a).extent) for a in run) for run in runs]
            names = self.counters
            if runs and all(a == b * n for a, b, n in zip(strides, strides[1:], extents[1:], strict=False)):
                runs, strides, names = [(dim.name,)], strides[-1:], self.variables
            steps += [(names[run[-1]], dim.name, s) for run, s in zip(runs, strides, strict=True) if s.terms]
        return steps

    def _vector(self, dim: str) -> frozenset[str]:
        """The dimension as a set; empty if its block is a scalar that no loop changes."""
        return frozenset((dim,)) if self.schedule.dim(dim).block > 1 or dim == "r" else NOTHING

    def _axis(self, axis: str) -> tuple[str, frozenset[str]]:
        dim = self.dim_of[axis]
        return self.expand(self.counters[axis], dim), self._vector(dim)

    # -- memory

    def _address(self, at: Access, needed: frozenset[str]) -> tuple[str, frozenset[str]]:
        """The pointer of an access, and the dimensions along which it varies, at least `needed`."""
        terms: list[str] = []
        dims = NOTHING
        for name, dim, stride in self._steps(at):
            terms.append(_times(self.expand(name, dim), stride))
            dims |= self._vector(dim)
        for expr, stride in at.gathers:
            value = self.value(expr)
            terms.append(_times(value.text, stride))
            dims |= value.dims
        terms += [f"{self.expand(self.variables[d], d)} * 0" for d in self.frame if d in needed - dims]
        if at.offset.terms:
            terms.append(str(at.offset))
        return " + ".join((f"{at.buffer}_ptr", *terms)), dims | needed

    def _mask(self, dims: frozenset[str], bounds: tuple[Bound, ...] = ()) -> str:
        tests = [m for d in self.frame if d in dims and (m := self.dim_mask(d))]
        for bound in bounds:
            at = self._index(bound.index)
            tests += [f"{at} >= 0", f"{at} < {bound.extent}"]
        return tests[0] if len(tests) == 1 else " & ".join(f"({t})" for t in tests)

    def _index(self, index: Affine | Expr) -> str:
        if not isinstance(index, Affine):
            return self.value(index).text
        terms = [_times(self._axis(a)[0], size(c)) for a, c in index.terms if self.kernel.axis(a).extent != 1]
        return f"({' + '.join([*terms, *([str(size(index.offset))] if index.offset or not terms else [])])})"

    def load(self, expr: Load, *, raw: bool = False) -> Value:
        """A loaded element, in a variable; `raw` keeps 16-bit floats instead of converting them to float32."""
        key = (self.frame, expr, raw)
        known = self.source.find(key)
        if known is not None:
            return known
        dtype = self.kernel.buffer(expr.buffer).dtype
        at = access(self.kernel, expr.buffer, expr.index, padded=expr.other is not None)
        pointer, dims = self._address(at, NOTHING)
        mask = self._mask(dims, at.bounds)
        other = expr.other or self.neutral.get(expr) or Const(0, dtype)
        text = f"tl.load({pointer}, mask={mask}, other={_stored(other)})" if mask else f"tl.load({pointer})"
        if dtype is DType.BOOL:
            text += " != 0"
        elif dtype in SHORT_FLOATS and not raw:
            text += ".to(tl.float32)"
        return self.source.remember(key, Value(self.source.let(expr.buffer, text, dims), dims, dtype))

    def store(self, stage: Store, needed: frozenset[str], value: Value | None = None) -> None:
        """Store a result at every point of the dimensions `needed` and of those of its index. `value` is the result if
        it is already emitted.
        """
        value = value or self.value(stage.value)
        pointer, dims = self._address(access(self.kernel, stage.buffer, stage.index), needed)
        mask = self._mask(dims)
        self.source.line(f"tl.store({pointer}, {bare(value.text)}{', mask=' + mask if mask else ''})", dims)

    # -- values

    def value(self, expr: Expr) -> Value:
        """`expr` at every point of the tile."""
        match expr:
            case Const(value=number, dtype=dtype):
                return _symbolic(number, dtype) if is_symbolic(number) else constant(number, dtype)
            case ScalarParameter(name=name, dtype=dtype):
                return number_in(name, dtype)
            case AxisValue(axis=axis):
                return self._axis_value(axis)
            case Load():
                return self.load(expr)
            case Ref(local=name):
                return self._reference(name)
            case Scalar(op=op, operands=operands):
                return self._scalar(op, [self.value(e) for e in operands])
            case Cast(dtype=dtype, operand=operand):
                return self._cast(as_tensor(self.value(operand)), dtype)
            case Reduce():
                return self._reduce(expr, "t")
            case Contract():
                known = self.source.find(expr)
                assert known is not None, "the GEMM emitter computes contractions first"
                return known

    def _axis_value(self, axis: str) -> Value:
        if self.kernel.axis(axis).extent == 1:
            return constant(0, DType.I64)
        name, dims = self._axis(axis)
        return Value(f"{name}.to(tl.int64)", dims, DType.I64)

    def _reference(self, name: str) -> Value:
        """A Local as a Python variable, computed before its first use."""
        key = (self.frame, Ref(name))
        known = self.source.find(key)
        if known is not None:
            return known
        stage = local(self.kernel, name)
        value = self._reduce(stage.value, name) if isinstance(stage.value, Reduce) else self.value(stage.value)
        if not value.literal and not value.text.isidentifier():
            value = Value(self.source.let(name, value.text, value.dims), value.dims, value.dtype)
        return self.source.remember(key, value)

    def _scalar(self, op: ScalarOp, operands: list[Value]) -> Value:
        dtype = operands[-1].dtype
        loose = takes_literals(op) or (op in _WITH_FLOATS and register(dtype) is DType.F32)
        values = operands[1:] if op is ScalarOp.SELECT else operands
        if not loose or all(v.literal for v in values) or dtype is DType.BOOL:
            operands = [as_tensor(v) for v in operands]
        operands = [self.source.short(v) for v in operands]
        text = emit_scalar(op, [v.text for v in operands], dtype)
        dims = frozenset[str]().union(*(v.dims for v in operands))
        return Value(text, dims, result_dtype(op, *(v.dtype for v in operands)))

    def _cast(self, value: Value, dtype: DType) -> Value:
        if dtype is DType.BOOL:
            text = f"({value.text} != 0)"
        elif dtype in SHORT_FLOATS:
            single = value.text if register(value.dtype) is DType.F32 else f"{value.text}.to(tl.float32)"
            text = value.text if value.dtype is dtype else f"{single}.to({NAMES[dtype]}).to(tl.float32)"
        elif register(value.dtype) is dtype:
            text = value.text
        elif value.dtype.is_float and dtype.is_integer:
            text = convert_to_integer(value.text, dtype)
        else:
            text = f"{value.text}.to({NAMES[dtype]})"
        return Value(text, value.dims, dtype)

    # -- reductions

    def _reduce(self, expr: Reduce, name: str) -> Value:
        """A reduction of the whole row, in variable `name`."""
        reduced = self.schedule.dims[-1]
        return self.collapse(expr.op, self.masked(expr.op, expr.operand, reduced.name), reduced.name, name)

    def masked(self, op: ReduceOp, operand: Expr, dim: str) -> Value:
        """The operand of a reduction along `dim`, with the neutral element where the block extends beyond the row."""
        value = as_tensor(self.value(operand))
        dims = value.dims | {dim}
        dtype = value.dtype
        mask = self.dim_mask(dim)
        load = operand if dim in value.dims and isinstance(operand, Load) and operand.other is None else None
        if load is not None and _same(self.neutral.get(load), op, dtype):
            mask = ""  # the load already returns the neutral element there
        if mask:
            fill = constant(op.neutral(dtype), dtype)
            fill = fill if register(dtype) is DType.F32 else as_tensor(fill)
            return Value(f"tl.where({mask}, {value.text}, {fill.text})", dims, dtype)
        if dim not in value.dims and dim in self.frame:
            return Value(f"tl.broadcast_to({value.text}, {self.shape()})", dims, dtype)
        return value

    def shape(self) -> str:
        """The tile's shape."""
        blocks = ", ".join(f"{d.upper()}_BLOCK" for d in self.frame)
        return f"({blocks},)" if len(self.frame) == 1 else f"({blocks})"

    def collapse(self, op: ReduceOp, value: Value, dim: str, name: str) -> Value:
        """The reduction of a tile along its last dimension; the same if that is a scalar."""
        if self.schedule.dim(dim).block == 1:
            return replace(value, dims=value.dims - {dim})
        axis, keep = ("0", "") if len(self.frame) == 1 else ("1", ", keep_dims=True")
        text = value.text if value.dtype is not DType.BOOL else f"({value.text}).to(tl.int32)"
        if op is ReduceOp.ADD:
            total = f"tl.sum({text}, {axis}{keep})"
        else:
            total = f"tl.reduce({text}, {axis}, _{op.value}{keep})"
        if value.dtype is DType.BOOL:
            total += " != 0"
        elif not value.dtype.is_float:
            total += f".to({NAMES[value.dtype]})"
        dims = value.dims - {dim}
        return Value(self.source.let(name, total, dims), dims, value.dtype)

    def combine(self, op: ReduceOp, a: Value, b: Value) -> str:
        """op(a, b) point by point."""
        return self._scalar(op.scalar, [a, b]).text


def constant(number: float | int | bool, dtype: DType) -> Value:
    """A number: a Python literal if Triton gives the literal the right type, else a tensor of rank 0."""
    value = Value(literal(number, dtype), NOTHING, dtype, literal=True)
    return as_tensor(value) if register(dtype) is DType.F32 and not is_plain_float(number) else value


def _symbolic(number: Any, dtype: DType) -> Value:
    """A symbolic number: a constant, or an argument of the launch."""
    if is_fixed(number):
        return constant(concrete(number), dtype)
    return number_in(bits_at_run_time(number, dtype), dtype)


def number_in(word: str, dtype: DType) -> Value:
    """The number that an argument of 64 bits holds; see `generalize.bits_of`."""
    if not dtype.is_float:
        return Value(f"{word}.to({NAMES[dtype]})", NOTHING, dtype)
    bits = word if dtype is DType.F64 else f"{word}.to(tl.int32)"
    return Value(f"{bits}.to({NAMES[register(dtype)]}, bitcast=True)", NOTHING, dtype)


def as_tensor(value: Value) -> Value:
    """A Python number as a tensor of rank 0 with the type of the value; other values unchanged."""
    if not value.literal:
        return value
    return Value(f"tl.full((), {value.text}, {NAMES[register(value.dtype)]})", value.dims, value.dtype)


def _times(text: str, stride: Size) -> str:
    return text if stride == size(1) else f"{text} * {stride}"


def _stored(value: Const) -> str:
    """The literal of `value` as stored in memory: booleans are bytes."""
    return str(int(value.value)) if value.dtype is DType.BOOL else literal(value.value, value.dtype)


def _same(known: Const | None, op: ReduceOp, dtype: DType) -> bool:
    return known is not None and known.value == op.neutral(dtype)


def _neutral_loads(kernel: Kernel) -> dict[Load, Const]:
    """For loads that are directly the operand of a reduction: the neutral element of the first such reduction."""
    neutral: dict[Load, Const] = {}
    for stage in kernel.stages:
        for expr in walk(stage.value):
            if isinstance(expr, Reduce) and isinstance(expr.operand, Load):
                dtype = dtype_of(kernel, expr.operand)
                neutral.setdefault(expr.operand, Const(expr.op.neutral(dtype), dtype))
    return neutral
