"""The primitives of `core` in StableHLO, one rule for each. A test proves the table total."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...ir.dialects.core import (
    LQ,
    LU,
    ArgSort,
    Broadcast,
    Cast,
    Cholesky,
    Concat,
    Constant,
    Conv,
    ConvWeightGradient,
    Cumulative,
    Dot,
    Gather,
    Iota,
    Pad,
    Pointwise,
    Primitive,
    RandomBits,
    Reduce,
    ReduceWindow,
    Relayout,
    Reshape,
    Reverse,
    Scatter,
    SelectAndScatter,
    Size,
    Slice,
    Sort,
    SymmetricEigen,
    Transpose,
    TriangularSolve,
)
from ...ir.symbolic import is_symbolic
from ...ir.types import TensorType
from .contractions import conv, conv_weight_gradient, dot
from .positions import argsort, gather, scatter, sort
from .random_bits import random_bits
from .reductions import cumulative, reduce, reduce_window, select_and_scatter
from .scalars import SCALARS, cast
from .text import Text
from .writer import Val, integers

Rule = Callable[..., Sequence[Val]]
"""A function of the text, the primitive, its result types and its operands, which returns the results."""


# -- moves


def _broadcast(t: Text, op: Broadcast, types: Sequence[TensorType], x: Val) -> Sequence[Val]:
    return [t.broadcast(x, types[0], op.axes)]


def _reshape(t: Text, op: Reshape, types: Sequence[TensorType], x: Val) -> Sequence[Val]:
    return [t.reshape(x, types[0])]


def _transpose(t: Text, op: Transpose, types: Sequence[TensorType], x: Val) -> Sequence[Val]:
    return [t.one("stablehlo.transpose", (x,), types[0], {"permutation": integers(op.permutation)})]


def _slice(t: Text, op: Slice, types: Sequence[TensorType], x: Val) -> Sequence[Val]:
    return [t.slice(x, types[0], op.start, op.stop, op.step)]


def _reverse(t: Text, op: Reverse, types: Sequence[TensorType], x: Val) -> Sequence[Val]:
    return [t.one("stablehlo.reverse", (x,), types[0], {"dimensions": integers(op.axes)})]


def _concat(t: Text, op: Concat, types: Sequence[TensorType], *xs: Val) -> Sequence[Val]:
    return [t.one("stablehlo.concatenate", xs, types[0], {"dimension": f"{op.axis} : i64"})]


def _pad(t: Text, op: Pad, types: Sequence[TensorType], x: Val, value: Val) -> Sequence[Val]:
    return [t.pad(x, value, types[0], (op.low, op.high, op.interior))]


def _relayout(t: Text, op: Relayout, types: Sequence[TensorType], x: Val) -> Sequence[Val]:
    """Layouts are no part of StableHLO."""
    return [x]


# -- creation


def _constant(t: Text, op: Constant, types: Sequence[TensorType]) -> Sequence[Val]:
    return [t.constant(op.value, types[0].dtype)]


def _size(t: Text, op: Size, types: Sequence[TensorType]) -> Sequence[Val]:
    return [t.convert(t.number(op.value), op.dtype) if is_symbolic(op.value) else t.fill(op.value, types[0])]


def _iota(t: Text, op: Iota, types: Sequence[TensorType]) -> Sequence[Val]:
    return [t.iota(types[0], op.axis)]


# -- elementwise


def _pointwise(t: Text, op: Pointwise, types: Sequence[TensorType], *xs: Val) -> Sequence[Val]:
    return [SCALARS[op.op](t, *xs)]


def _cast(t: Text, op: Cast, types: Sequence[TensorType], x: Val) -> Sequence[Val]:
    return [cast(t, x, op.dtype)]


# -- factorizations


def _cholesky(t: Text, op: Cholesky, types: Sequence[TensorType], x: Val) -> Sequence[Val]:
    return [t.one("stablehlo.cholesky", (x,), types[0], {"lower": "true"})]


def _triangular_solve(t: Text, op: TriangularSolve, types: Sequence[TensorType], a: Val, y: Val) -> Sequence[Val]:
    attributes = {
        "left_side": "true",
        "lower": "true" if op.lower else "false",
        "unit_diagonal": "false",
        "transpose_a": f"#stablehlo<transpose {'TRANSPOSE' if op.transpose else 'NO_TRANSPOSE'}>",
    }
    return [t.one("stablehlo.triangular_solve", (a, y), types[0], attributes)]


def _custom_call(t: Text, op: Primitive, types: Sequence[TensorType], *xs: Val) -> Sequence[Val]:
    """A factorization that StableHLO does not have: a call of the function of this name."""
    target = f'"mxforge.{op.name.partition(".")[2]}"'
    return t.op("stablehlo.custom_call", xs, types, {"call_target_name": target, "api_version": "4 : i32"})


RULES: dict[type[Primitive], Rule] = {
    Broadcast: _broadcast,
    Reshape: _reshape,
    Transpose: _transpose,
    Slice: _slice,
    Reverse: _reverse,
    Concat: _concat,
    Pad: _pad,
    Relayout: _relayout,
    Constant: _constant,
    Size: _size,
    Iota: _iota,
    RandomBits: random_bits,
    Pointwise: _pointwise,
    Cast: _cast,
    Reduce: reduce,
    ReduceWindow: reduce_window,
    Cumulative: cumulative,
    SelectAndScatter: select_and_scatter,
    Dot: dot,
    Conv: conv,
    ConvWeightGradient: conv_weight_gradient,
    Gather: gather,
    Scatter: scatter,
    ArgSort: argsort,
    Sort: sort,
    Cholesky: _cholesky,
    TriangularSolve: _triangular_solve,
    LU: _custom_call,
    LQ: _custom_call,
    SymmetricEigen: _custom_call,
}
