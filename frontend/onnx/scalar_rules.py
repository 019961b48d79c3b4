"""Translation of scalar operations to ONNX operators, or to formulas of them."""

from __future__ import annotations

import math
from collections.abc import Callable

from ...ir.graph import Node
from ...ir.scalar import ScalarOp
from ...ir.types import DType
from .writer import Writer, unsupported

_S = ScalarOp

NAMES: dict[ScalarOp, str] = {
    _S.EXP: "Exp",
    _S.LOG: "Log",
    _S.SQRT: "Sqrt",
    _S.SIN: "Sin",
    _S.COS: "Cos",
    _S.TAN: "Tan",
    _S.ASIN: "Asin",
    _S.ACOS: "Acos",
    _S.ATAN: "Atan",
    _S.SINH: "Sinh",
    _S.COSH: "Cosh",
    _S.TANH: "Tanh",
    _S.ASINH: "Asinh",
    _S.ACOSH: "Acosh",
    _S.ATANH: "Atanh",
    _S.SIGMOID: "Sigmoid",
    _S.ERF: "Erf",
    _S.NEG: "Neg",
    _S.ABS: "Abs",
    _S.SIGN: "Sign",
    _S.RECTIFY: "Relu",
    _S.FLOOR: "Floor",
    _S.CEIL: "Ceil",
    _S.RINT: "Round",
    _S.IS_NAN: "IsNaN",
    _S.IS_INF: "IsInf",
    _S.ADD: "Add",
    _S.SUB: "Sub",
    _S.MUL: "Mul",
    _S.DIV: "Div",
    _S.POW: "Pow",
    _S.MAX: "Max",
    _S.MIN: "Min",
    _S.EQ: "Equal",
    _S.LT: "Less",
    _S.LE: "LessOrEqual",
    _S.GT: "Greater",
    _S.GE: "GreaterOrEqual",
    _S.SELECT: "Where",
}
"""Operations with an equivalent ONNX operator."""

Formula = Callable[[Writer, DType, str, str], str]


def _rsqrt(w: Writer, dtype: DType, x: str, _: str) -> str:
    return w.op("Reciprocal", w.op("Sqrt", x))


def _expm1(w: Writer, dtype: DType, x: str, _: str) -> str:
    """2 exp(x / 2) sinh(x / 2), which is accurate for small x."""
    half = w.op("Mul", x, w.scalar(0.5, dtype))
    product = w.op("Mul", w.op("Exp", half), w.op("Sinh", half))
    return w.op("Mul", product, w.scalar(2.0, dtype))


def _log1p(w: Writer, dtype: DType, x: str, _: str) -> str:
    """2 atanh(x / (2 + x)), which is accurate for small x."""
    ratio = w.op("Div", x, w.op("Add", x, w.scalar(2.0, dtype)))
    return w.op("Mul", w.op("Atanh", ratio), w.scalar(2.0, dtype))


def _log(base: float) -> Formula:
    def formula(w: Writer, dtype: DType, x: str, _: str) -> str:
        return w.op("Mul", w.op("Log", x), w.scalar(1 / math.log(base), dtype))

    return formula


def _with_sign(w: Writer, x: str, magnitude: str) -> str:
    return w.op("Mul", w.op("Sign", x), magnitude)


def _cbrt(w: Writer, dtype: DType, x: str, _: str) -> str:
    return _with_sign(w, x, w.op("Pow", w.op("Abs", x), w.scalar(1 / 3, dtype)))


def _round(w: Writer, dtype: DType, x: str, _: str) -> str:
    """Rounds half away from zero."""
    return _with_sign(w, x, w.op("Floor", w.op("Add", w.op("Abs", x), w.scalar(0.5, dtype))))


def _trunc(w: Writer, dtype: DType, x: str, _: str) -> str:
    return _with_sign(w, x, w.op("Floor", w.op("Abs", x)))


def _is_finite(w: Writer, dtype: DType, x: str, _: str) -> str:
    return w.op("Not", w.op("Or", w.op("IsNaN", x), w.op("IsInf", x)))


def _mod(w: Writer, dtype: DType, x: str, y: str) -> str:
    """x - y floor(x / y), and 0 where y is 0."""
    zero = w.scalar(0, dtype)
    is_zero = w.op("Equal", y, zero)
    divisor = w.op("Where", is_zero, w.scalar(1, dtype), y)
    if dtype.is_float:
        rest = w.op("Sub", x, w.op("Mul", divisor, w.op("Floor", w.op("Div", x, divisor))))
    else:
        rest = w.op("Mod", x, divisor)
    return w.op("Where", is_zero, zero, rest)


def _hypot(w: Writer, dtype: DType, x: str, y: str) -> str:
    return w.op("Sqrt", w.op("Add", w.op("Mul", x, x), w.op("Mul", y, y)))


def _atan2(w: Writer, dtype: DType, y: str, x: str) -> str:
    """atan(y / x), plus pi with y's sign where x is negative; pi / 2 with y's sign where x is 0."""
    zero, pi = w.scalar(0, dtype), w.scalar(math.pi, dtype)
    angle = w.op("Atan", w.op("Div", y, x))
    offset = w.op("Where", w.op("Less", y, zero), w.op("Neg", pi), pi)
    shifted = w.op("Where", w.op("Less", x, zero), w.op("Add", angle, offset), angle)
    right_angle = w.op("Mul", w.op("Sign", y), w.scalar(math.pi / 2, dtype))
    return w.op("Where", w.op("Equal", x, zero), right_angle, shifted)


def _not_equal(w: Writer, dtype: DType, x: str, y: str) -> str:
    return w.op("Not", w.op("Equal", x, y))


def _bits(logical: str) -> Formula:
    def formula(w: Writer, dtype: DType, x: str, y: str) -> str:
        return w.op(logical if dtype is DType.BOOL else f"Bitwise{logical}", *filter(None, (x, y)))

    return formula


def _shift(direction: str) -> Formula:
    def formula(w: Writer, dtype: DType, x: str, y: str) -> str:
        return w.op("BitShift", x, y, direction=direction)

    return formula


FORMULAS: dict[ScalarOp, Formula] = {
    _S.RSQRT: _rsqrt,
    _S.EXPM1: _expm1,
    _S.LOG1P: _log1p,
    _S.LOG2: _log(2),
    _S.LOG10: _log(10),
    _S.CBRT: _cbrt,
    _S.ROUND: _round,
    _S.TRUNC: _trunc,
    _S.IS_FINITE: _is_finite,
    _S.MOD: _mod,
    _S.HYPOT: _hypot,
    _S.ATAN2: _atan2,
    _S.NE: _not_equal,
    _S.NOT: _bits("Not"),
    _S.AND: _bits("And"),
    _S.OR: _bits("Or"),
    _S.XOR: _bits("Xor"),
    _S.SHIFT_LEFT: _shift("LEFT"),
    _S.SHIFT_RIGHT: _shift("RIGHT"),
}
"""Operations that are written as formulas. Operands have the result's shape; the second is "" for unary operations."""

UNSUPPORTED = frozenset((_S.ERFINV, _S.GAMMA, _S.LGAMMA, _S.DIGAMMA))
"""Operations that ONNX cannot express."""


def write_scalar(w: Writer, node: Node, op: ScalarOp, operands: list[str]) -> str:
    """Write an elementwise operation on tensors of equal shape. Raises MXNetError if ONNX cannot express it."""
    if op in NAMES:
        return w.op(NAMES[op], *operands, hint=node.name)
    if op in UNSUPPORTED:
        raise unsupported(node, f"ONNX has no {op.value}")
    return FORMULAS[op](w, node.inputs[0].type.dtype, *[*operands, ""][:2])
