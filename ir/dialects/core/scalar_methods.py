"""One builder method for each scalar operation: `b.exp(x)`, `b.add(x, 1)`, `b.select(c, x, y)`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np

from ...graph import GraphBuilder, Value
from ...scalar import ScalarOp
from ...symbolic import is_symbolic
from ...types import DType, TensorType
from .creation import Constant, Size
from .pointwise import Pointwise
from .primitive import storage
from .shape import Broadcast

Number = int | float | bool | np.generic
Unary = Callable[[Any, Value], Value]
Binary = Callable[[Any, Value | Number, Value | Number], Value]

_OPS = {op: Pointwise(op) for op in ScalarOp}


def splat(b: GraphBuilder, type: TensorType, number: Number) -> Value:
    """A tensor with this type's shape and dtype; every element is `number`."""
    if is_symbolic(number):
        scalar = b.node(Size(cast("int", number), type.dtype)).outputs[0]
    else:
        scalar = b.node(Constant(np.asarray(number).astype(storage(type.dtype)), type.dtype)).outputs[0]
    return b.node(Broadcast(type.shape, ()), scalar).outputs[0] if type.shape else scalar


def _unary(op: ScalarOp) -> Unary:
    primitive = _OPS[op]

    def method(self: GraphBuilder, x: Value) -> Value:
        return self.node(primitive, x).outputs[0]

    method.__doc__ = f"{op.value} of each element."
    return method


def _binary(op: ScalarOp) -> Binary:
    primitive = _OPS[op]

    def method(self: GraphBuilder, x: Value | Number, y: Value | Number) -> Value:
        if not isinstance(x, Value):
            if not isinstance(y, Value):
                raise TypeError(f"{op.value} requires at least one tensor")
            x = splat(self, y.type, x)
        elif not isinstance(y, Value):
            y = splat(self, x.type, y)
        return self.node(primitive, x, y).outputs[0]

    method.__doc__ = f"{op.value} of two tensors of one type, or of a tensor and a number."
    return method


class ScalarMethods(GraphBuilder):
    """The scalar part of `CoreBuilder`. A number on either side becomes a tensor of the other side's type."""

    exp, expm1, log, log1p = _unary(ScalarOp.EXP), _unary(ScalarOp.EXPM1), _unary(ScalarOp.LOG), _unary(ScalarOp.LOG1P)
    log2, log10 = _unary(ScalarOp.LOG2), _unary(ScalarOp.LOG10)
    sqrt, rsqrt, cbrt = _unary(ScalarOp.SQRT), _unary(ScalarOp.RSQRT), _unary(ScalarOp.CBRT)
    sin, cos, tan = _unary(ScalarOp.SIN), _unary(ScalarOp.COS), _unary(ScalarOp.TAN)
    asin, acos, atan = _unary(ScalarOp.ASIN), _unary(ScalarOp.ACOS), _unary(ScalarOp.ATAN)
    sinh, cosh, tanh = _unary(ScalarOp.SINH), _unary(ScalarOp.COSH), _unary(ScalarOp.TANH)
    asinh, acosh, atanh = _unary(ScalarOp.ASINH), _unary(ScalarOp.ACOSH), _unary(ScalarOp.ATANH)
    sigmoid, erf, erfinv = _unary(ScalarOp.SIGMOID), _unary(ScalarOp.ERF), _unary(ScalarOp.ERFINV)
    gamma, lgamma, digamma = _unary(ScalarOp.GAMMA), _unary(ScalarOp.LGAMMA), _unary(ScalarOp.DIGAMMA)
    rectify = _unary(ScalarOp.RECTIFY)
    neg, abs, sign = _unary(ScalarOp.NEG), _unary(ScalarOp.ABS), _unary(ScalarOp.SIGN)
    floor, ceil, trunc = _unary(ScalarOp.FLOOR), _unary(ScalarOp.CEIL), _unary(ScalarOp.TRUNC)
    round, rint = _unary(ScalarOp.ROUND), _unary(ScalarOp.RINT)
    is_nan, is_inf, is_finite = _unary(ScalarOp.IS_NAN), _unary(ScalarOp.IS_INF), _unary(ScalarOp.IS_FINITE)
    not_ = logical_not = _unary(ScalarOp.NOT)
    add, sub, mul, div = _binary(ScalarOp.ADD), _binary(ScalarOp.SUB), _binary(ScalarOp.MUL), _binary(ScalarOp.DIV)
    mod, pow = _binary(ScalarOp.MOD), _binary(ScalarOp.POW)
    maximum, minimum = _binary(ScalarOp.MAX), _binary(ScalarOp.MIN)
    atan2, hypot = _binary(ScalarOp.ATAN2), _binary(ScalarOp.HYPOT)
    and_ = logical_and = _binary(ScalarOp.AND)
    or_ = logical_or = _binary(ScalarOp.OR)
    xor = logical_xor = _binary(ScalarOp.XOR)
    shift_left, shift_right = _binary(ScalarOp.SHIFT_LEFT), _binary(ScalarOp.SHIFT_RIGHT)
    eq, ne = _binary(ScalarOp.EQ), _binary(ScalarOp.NE)
    lt, le, gt, ge = _binary(ScalarOp.LT), _binary(ScalarOp.LE), _binary(ScalarOp.GT), _binary(ScalarOp.GE)

    def select(self, condition: Value, x: Value | Number, y: Value | Number) -> Value:
        """x where the condition is true, else y; at least one of x and y is a tensor."""
        tensor = x if isinstance(x, Value) else y
        if not isinstance(tensor, Value):
            raise TypeError("select requires at least one tensor")
        chosen = [v if isinstance(v, Value) else splat(self, tensor.type, v) for v in (x, y)]
        return self.node(_OPS[ScalarOp.SELECT], condition, *chosen).outputs[0]

    where = select

    def scalar(self, op: ScalarOp, *operands: Value) -> Value:
        """Any scalar operation on tensors of one shape."""
        return self.node(_OPS[op], *operands).outputs[0]

    def square(self, x: Value) -> Value:
        """x * x."""
        return self.node(_OPS[ScalarOp.MUL], x, x).outputs[0]

    def full(self, shape: tuple[int, ...], value: Number, dtype: DType = DType.F32) -> Value:
        """A tensor of this shape; every element is `value`: a broadcast scalar constant."""
        return splat(self, TensorType(tuple(shape), dtype), value)

    def full_like(self, x: Value, value: Number) -> Value:
        """A tensor of x's shape and dtype; every element is `value`."""
        return splat(self, x.type, value)
