"""Scatters: a copy of the tensor, then the updates in order, so that the last update of an element wins.

If the coordinates are those of neighbouring axes, the tensor is batches x outer positions x rows x elements, and they
select a row. The function for such tensors is the same for all shapes. Its units are batches, outer positions and
pieces of the rows: a unit visits all updates of its batch and applies those of its own rows, so their order does not
depend on the number of threads.
"""

from __future__ import annotations

from functools import partial
from math import prod
from typing import NamedTuple

from ....ir.dialects.core import Scatter
from ....ir.graph import Op
from ....ir.scalar import ReduceOp
from ....ir.symbolic import deferred
from ....ir.types import DType, TensorType
from ...emission import Emission, LaunchSpec
from ..arithmetic import Value
from ..cpu import Cpu
from ..emitter import FunctionBuilder, ModuleBuilder
from ..scalars import emit_scalar
from ..shared import LOOPS
from ..types import I1, I64, Type, memory_type_of
from .matrix import Rows
from .rows import Functions, computing, kernel_function, numbers_after, pointers, read, write

_GRAIN = 16384
"""Bytes of the result in a chunk of units."""


class _Numbers(NamedTuple):
    """The arguments of the function after its operands; the extents and steps of the coordinates' axes follow."""

    outer: Value
    rows: Value
    elements: Value
    points: Value
    pieces: Value


def scatter_launches(
    op: Op, inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...], target: Cpu
) -> tuple[Emission, Functions] | None:
    """The emission of a `Scatter` along neighbouring axes, and its function; None for other axes."""
    assert isinstance(op, Scatter)
    x, indices, _ = inputs
    first, end = min(op.axes, default=0), max(op.axes, default=0) + 1
    if sorted(op.axes) != list(range(first, end)):
        return None
    if not x.size:
        return Emission(()), {}
    batches, outer = prod(x.shape[: op.batch]), prod(x.shape[op.batch : first])
    rows, elements = prod(x.shape[first:end]), prod(x.shape[end:])
    points = prod(indices.shape[op.batch : -1])
    pieces = deferred(_pieces, batches * outer, rows, target.threads)
    steps = [n for a in op.axes for n in (x.shape[a], prod(x.shape[a + 1 : end]))]
    numbers = outer, rows, elements, points, pieces, *steps
    symbol = f"{LOOPS}scatter_{op.op}_{x.dtype.value}_{indices.dtype.value}_{len(op.axes)}"
    units = batches * outer * pieces
    launch = LaunchSpec(symbol, units, deferred(_grain, x.nbytes, units))
    emit = partial(_emit_rows, symbol=symbol, op=op.op, dtype=x.dtype, index=indices.dtype, axes=len(op.axes))
    return Emission((launch,), extents=numbers), {symbol: emit}


def _pieces(units: int, rows: int, threads: int) -> int:
    """Into how many pieces rows are divided, so that each thread has a unit."""
    return 1 if units >= threads else min(threads, rows)


def _grain(nbytes: int, units: int) -> int:
    return max(1, _GRAIN * units // nbytes)


def _emit_rows(module: ModuleBuilder, symbol: str, op: str, dtype: DType, index: DType, axes: int) -> None:
    f = kernel_function(module, symbol)
    source, indices, updates, result = pointers(f, 4)
    count = len(_Numbers._fields)
    n, steps = _Numbers(*numbers_after(f, 4, count)), numbers_after(f, 4 + count, 2 * axes)
    element = memory_type_of(dtype)
    r = Rows(f, element, module.target.lanes(element.bits))
    with f.loop(f.args[1], f.args[2]) as unit:
        position, piece = f.udiv(unit, n.pieces), f.urem(unit, n.pieces)
        batch, outer = f.udiv(position, n.outer), f.urem(position, n.outer)
        low, high = (f.udiv(f.mul(n.rows, k), n.pieces) for k in (piece, piece + 1))
        own = f.mul(f.mul(position, n.rows), n.elements)
        start, count = own + f.mul(low, n.elements), f.mul(f.sub(high, low), n.elements)
        with f.when(f.cmp("ne", source, result)):  # else the result replaces the tensor
            _each(r, dtype, "set", r.at(source, start), r.at(result, start), count)
        with f.loop(0, n.points) as point:
            group = f.mul(batch, n.points) + point
            row, inside = f.const(I64, 0), f.const(I1, 1)
            for j in range(axes):
                at = f.convert(read(f, indices, f.mul(group, axes) + j, index), "i64", signed=index.is_signed)
                inside = inside & f.cmp("ult", at, steps[2 * j])
                row = row + f.mul(at, steps[2 * j + 1])
            with f.when(inside & f.cmp("ult", f.sub(row, low), f.sub(high, low))):
                update = f.mul(f.mul(group, n.outer) + outer, n.elements)
                _each(r, dtype, op, r.at(updates, update), r.at(result, own + f.mul(row, n.elements)), n.elements)
    f.ret()


def _each(r: Rows, dtype: DType, op: str, new: Value, old: Value, count: Value) -> None:
    """Combine the elements of a row with new ones, in place."""
    f = r.f

    def step(type: Type, i: Value) -> None:
        before, after = (read(f, row, i, dtype, type.lanes) for row in (old, new))
        write(f, emit_scalar(f, ReduceOp(op).scalar, (before, after), computing(dtype)), old, i, dtype)

    if op == "set":
        r.copy(new, old, count)
    else:
        r.each(count, step)


def emit_scatter(
    op: Op,
    inputs: tuple[TensorType, ...],
    outputs: tuple[TensorType, ...],
    module: ModuleBuilder,
    symbol: str,
) -> Emission:
    """Two launches for any axes: threads share the copy, but not the updates."""
    assert isinstance(op, Scatter)
    x = inputs[0]
    _emit_copy(module, f"{symbol}_copy", x)
    _Updates(op, inputs, module, symbol).emit()
    return Emission((LaunchSpec(f"{symbol}_copy", x.size, 16384), LaunchSpec(symbol, 1, 1)))


def _emit_copy(module: ModuleBuilder, symbol: str, x: TensorType) -> None:
    f = kernel_function(module, symbol)
    source, _, _, result = pointers(f, 4)
    with f.loop(f.args[1], f.args[2]) as i:
        write(f, read(f, source, i, x.dtype), result, i, x.dtype)
    f.ret()


class _Updates:
    """Stores, for each group of coordinates, its slice of the updates: the axes that are not indexed."""

    def __init__(self, op: Scatter, inputs: tuple[TensorType, ...], module: ModuleBuilder, symbol: str) -> None:
        self.op, self.module, self.symbol = op, module, symbol
        self.x, self.indices, self.updates = inputs
        shape = self.x.shape
        self.strides = [prod(shape[k + 1 :]) for k in range(len(shape))]
        self.rest = [k for k in range(op.batch, len(shape)) if k not in op.axes]
        self.points = prod(self.indices.shape[op.batch : -1])

    def emit(self) -> None:
        f = kernel_function(self.module, self.symbol)
        _, indices, updates, result = pointers(f, 4)
        batches = prod(self.x.shape[: self.op.batch])
        with f.loop(f.args[1], f.args[2]), f.loop(0, batches) as batch, f.loop(0, self.points) as point:
            group = f.mul(batch, self.points) + point
            base, inside = self._target(f, indices, batch, group)
            with f.when(inside):
                self._piece(f, updates, result, base, group)
        f.ret()

    def _target(self, f: FunctionBuilder, indices: Value, batch: Value, group: Value) -> tuple[Value, Value]:
        """The position of a group's slice in the result, and whether all its coordinates are inside."""
        count = len(self.op.axes)
        block = self.strides[self.op.batch - 1] if self.op.batch else 0
        base, inside = f.mul(batch, block), f.const(I1, 1)
        for j, axis in enumerate(self.op.axes):
            raw = read(f, indices, f.mul(group, count) + j, self.indices.dtype)
            at = f.convert(raw, "i64", signed=self.indices.dtype.is_signed)
            inside = inside & f.cmp("ult", at, self.x.shape[axis])
            base = base + at * self.strides[axis]
        return base, inside

    def _piece(self, f: FunctionBuilder, updates: Value, result: Value, base: Value, group: Value) -> None:
        size = prod(self.x.shape[k] for k in self.rest)
        with f.loop(0, size) as i:
            target, left = base, i
            for k in reversed(self.rest):
                target = target + f.urem(left, self.x.shape[k]) * self.strides[k]
                left = f.udiv(left, self.x.shape[k])
            new = read(f, updates, f.mul(group, size) + i, self.x.dtype)
            write(f, self._combined(f, result, target, new), result, target, self.x.dtype)

    def _combined(self, f: FunctionBuilder, result: Value, target: Value, new: Value) -> Value:
        if self.op.op == "set":
            return new
        old = read(f, result, target, self.x.dtype)
        return emit_scalar(f, ReduceOp(self.op.op).scalar, (old, new), computing(self.x.dtype))
