"""Cumulative operations along an axis: one pass over each row; threads share the rows."""

from __future__ import annotations

from ....ir.dialects.core import Cumulative
from ....ir.graph import Op
from ....ir.types import TensorType
from ...emission import Emission, LaunchSpec
from ..emitter import ModuleBuilder
from ..scalars import emit_scalar
from ..types import type_of
from .rows import computing, kernel_function, pointers, read, rows_along, write


def emit_cumulative(
    op: Op,
    inputs: tuple[TensorType, ...],
    outputs: tuple[TensorType, ...],
    module: ModuleBuilder,
    symbol: str,
) -> Emission:
    assert isinstance(op, Cumulative)
    (x,) = inputs
    rows, wide = rows_along(x, op.axis), computing(x.dtype)
    f = kernel_function(module, symbol)
    source, result = pointers(f, 2)
    neutral = f.const(type_of(wide), op.op.neutral(wide))
    with f.loop(f.args[1], f.args[2]) as row:
        first = rows.first(f, row)
        with f.carry_loop(0, rows.length, [neutral]) as loop:
            index = f.neg(loop.index) + (rows.length - 1) if op.reverse else loop.index
            at = rows.at(f, first, index)
            total = emit_scalar(f, op.op.scalar, (loop.values[0], read(f, source, at, x.dtype)), wide)
            write(f, total, result, at, x.dtype)
            loop.next(total)
    f.ret()
    return Emission((LaunchSpec(symbol, rows.count, max(1, 8192 // max(1, rows.length))),))
