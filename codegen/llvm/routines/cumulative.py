"""Cumulative operations along an axis, for tensors of any shape: one pass over memory.

Along the last axis, or one with few elements after it, a row is a chain of scalar steps. Otherwise vectors hold
neighbouring columns: each step combines a block of totals with a block of the next elements.
"""

from __future__ import annotations

from functools import partial

from ....ir.dialects.core import Cumulative
from ....ir.graph import Op
from ....ir.types import DType, TensorType
from ...emission import Emission, LaunchSpec
from ..arithmetic import Value
from ..cpu import Cpu
from ..emitter import FunctionBuilder, ModuleBuilder
from ..scalars import emit_scalar
from ..shared import LOOPS
from ..types import I64, memory_type_of, type_of
from .rows import Functions, computing, kernel_function, numbers_after, pointers, read, rows_along, write

_BLOCK = 256  # columns whose totals a unit keeps
_GRAIN = 8192


def cumulative_launches(
    op: Op, inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...], target: Cpu
) -> tuple[Emission, Functions]:
    """The emission of a `Cumulative` and its function. Arguments after the tensors: length and stride of a row."""
    assert isinstance(op, Cumulative)
    (x,) = inputs
    if not x.size:
        return Emission(()), {}
    rows = rows_along(x, op.axis)
    in_columns = rows.stride >= target.lanes(32)
    symbol = f"{LOOPS}cumulative_{op.op.value}_{x.dtype}_{int(op.reverse)}{int(in_columns)}"
    emit = partial(_emit_columns if in_columns else _emit_rows, symbol=symbol, op=op, dtype=x.dtype)
    units = rows.count // rows.stride * -(-rows.stride // _BLOCK) if in_columns else rows.count
    grain = 1 if in_columns else -(-_GRAIN // rows.length)
    return Emission((LaunchSpec(symbol, units, grain),), extents=(rows.length, rows.stride)), {symbol: emit}


def _emit_rows(module: ModuleBuilder, symbol: str, op: Cumulative, dtype: DType) -> None:
    """A unit is a row."""
    wide = computing(dtype)
    f = kernel_function(module, symbol)
    source, result = pointers(f, 2)
    length, stride = numbers_after(f, 2, 2)
    with f.loop(f.args[1], f.args[2]) as row:
        outer = f.udiv(row, stride)
        first = f.add(f.mul(f.mul(outer, length), stride), f.urem(row, stride))
        with f.carry_loop(0, length, [f.const(type_of(wide), op.op.neutral(wide))]) as loop:
            at = first + f.mul(_place(f, op, loop.index, length), stride)
            total = emit_scalar(f, op.op.scalar, (loop.values[0], read(f, source, at, dtype)), wide)
            write(f, total, result, at, dtype)
            loop.next(total)
    f.ret()


def _emit_columns(module: ModuleBuilder, symbol: str, op: Cumulative, dtype: DType) -> None:
    """A unit is a block of columns of one matrix [length, stride]. Its totals are on the stack."""
    wide = computing(dtype)
    f = kernel_function(module, symbol)
    source, result = pointers(f, 2)
    length, stride = numbers_after(f, 2, 2)
    lanes = module.target.lanes(type_of(wide).bits if wide is not DType.BOOL else 32)
    totals = f.alloca(memory_type_of(wide), _BLOCK)
    blocks = f.udiv(f.add(stride, _BLOCK - 1), _BLOCK)
    with f.loop(f.args[1], f.args[2]) as unit:
        column = f.mul(f.urem(unit, blocks), _BLOCK)
        width = f.smin(f.sub(stride, column), _BLOCK)
        base = f.add(f.mul(f.mul(f.udiv(unit, blocks), length), stride), column)
        with f.loop(0, _BLOCK, lanes) as j:
            write(f, f.const(type_of(wide, lanes), op.op.neutral(wide)), totals, j, wide)
        full = f.mul(f.udiv(width, lanes), lanes)
        with f.loop(0, length) as i:
            row = base + f.mul(_place(f, op, i, length), stride)
            for begin, end, step in ((f.const(I64, 0), full, lanes), (full, width, 1)):
                with f.loop(begin, end, step) as j:
                    operands = read(f, totals, j, wide, step), read(f, source, row + j, dtype, step)
                    total = emit_scalar(f, op.op.scalar, operands, wide)
                    write(f, total, totals, j, wide)
                    write(f, total, result, row + j, dtype)
    f.ret()


def _place(f: FunctionBuilder, op: Cumulative, index: Value, length: Value) -> Value:
    """The position in a row of step `index`."""
    return f.sub(length, index) - 1 if op.reverse else index
