"""Rules of operators on single elements."""

from __future__ import annotations

from functools import partial, reduce
from math import pi, sqrt
from typing import Any

from ....ir.dialects.core.builder import CoreBuilder
from ....ir.graph import Value
from ....ir.scalar import ScalarOp
from ....ir.types import DType
from .node import RULES, OnnxNode, Unsupported, dtype_of, rule

UNARY = {
    "Abs": ScalarOp.ABS,
    "Neg": ScalarOp.NEG,
    "Exp": ScalarOp.EXP,
    "Log": ScalarOp.LOG,
    "Sqrt": ScalarOp.SQRT,
    "Sin": ScalarOp.SIN,
    "Cos": ScalarOp.COS,
    "Tan": ScalarOp.TAN,
    "Asin": ScalarOp.ASIN,
    "Acos": ScalarOp.ACOS,
    "Atan": ScalarOp.ATAN,
    "Sinh": ScalarOp.SINH,
    "Cosh": ScalarOp.COSH,
    "Tanh": ScalarOp.TANH,
    "Asinh": ScalarOp.ASINH,
    "Acosh": ScalarOp.ACOSH,
    "Atanh": ScalarOp.ATANH,
    "Sigmoid": ScalarOp.SIGMOID,
    "Erf": ScalarOp.ERF,
    "Floor": ScalarOp.FLOOR,
    "Ceil": ScalarOp.CEIL,
    "Round": ScalarOp.RINT,
    "Sign": ScalarOp.SIGN,
    "Not": ScalarOp.NOT,
    "BitwiseNot": ScalarOp.NOT,
    "IsNaN": ScalarOp.IS_NAN,
}

BINARY = {
    "Add": ScalarOp.ADD,
    "Sub": ScalarOp.SUB,
    "Mul": ScalarOp.MUL,
    "Div": ScalarOp.DIV,
    "Equal": ScalarOp.EQ,
    "Less": ScalarOp.LT,
    "Greater": ScalarOp.GT,
    "LessOrEqual": ScalarOp.LE,
    "GreaterOrEqual": ScalarOp.GE,
    "And": ScalarOp.AND,
    "Or": ScalarOp.OR,
    "Xor": ScalarOp.XOR,
    "BitwiseAnd": ScalarOp.AND,
    "BitwiseOr": ScalarOp.OR,
    "BitwiseXor": ScalarOp.XOR,
}

VARIADIC = {"Max": ScalarOp.MAX, "Min": ScalarOp.MIN, "Sum": ScalarOp.ADD, "Mean": ScalarOp.ADD}


def _unary(op: ScalarOp, n: OnnxNode) -> Value:
    return n.b.scalar(op, n[0])


def _binary(op: ScalarOp, n: OnnxNode) -> Value:
    return n.b.scalar(op, *n.b.broadcast_pair(n[0], n[1]))


def _variadic(op: ScalarOp, n: OnnxNode) -> Value:
    total = reduce(lambda x, y: n.b.scalar(op, *n.b.broadcast_pair(x, y)), n.operands())
    return n.b.div(total, len(n.names)) if n.op_type == "Mean" else total


for _table, _make in ((UNARY, _unary), (BINARY, _binary), (VARIADIC, _variadic)):
    RULES.update({_name: partial(_make, _op) for _name, _op in _table.items()})


@rule("IsInf")
def is_inf(n: OnnxNode) -> Value:
    x, b = n[0], n.b
    wanted = [sign for sign, name in ((1, "detect_positive"), (-1, "detect_negative")) if n.attr(name, 1)]
    if len(wanted) == 2:
        return b.is_inf(x)
    side = b.gt(x, 0) if wanted == [1] else b.lt(x, 0)
    return b.and_(b.is_inf(x), side) if wanted else b.and_(b.is_inf(x), b.is_nan(x))


@rule("Cast")
def cast(n: OnnxNode) -> Value:
    return n.b.cast(n[0], dtype_of(n.attr("to")))


@rule("CastLike")
def cast_like(n: OnnxNode) -> Value:
    return n.b.cast(n[0], n[1].type.dtype)


@rule("Pow")
def power(n: OnnxNode) -> Value:
    """The result has the base's dtype; mixed operands are computed in the wider floating dtype."""
    x, y = n[0], n[1]
    wide = x.type.dtype
    if y.type.dtype.is_float and not wide.is_float:
        wide = DType.F64
    result = n.b.pow(*n.b.broadcast_pair(n.b.cast(x, wide), n.b.cast(y, wide)))
    return n.b.cast(result, x.type.dtype)


@rule("Mod")
def modulo(n: OnnxNode) -> Value:
    b = n.b
    x, y = b.broadcast_pair(n[0], n[1])
    if not n.attr("fmod", 0):
        rest = b.mod(x, y)
        return b.select(b.eq(y, 0), float("nan"), rest) if x.type.dtype.is_float else rest
    if not x.type.dtype.is_float:
        return b.sub(x, b.mul(b.div(x, y), y))
    wide = DType.F32 if x.type.dtype.bits < 32 else x.type.dtype
    p, q = b.cast(x, wide), b.abs(b.cast(y, wide))
    rest = b.select(b.eq(q, 0), float("nan"), b.mod(b.abs(p), q))
    return b.cast(b.select(b.lt(p, 0), b.neg(rest), rest), x.type.dtype)


@rule("BitShift")
def bit_shift(n: OnnxNode) -> Value:
    op = ScalarOp.SHIFT_LEFT if n.attr("direction") == "LEFT" else ScalarOp.SHIFT_RIGHT
    x, y = n.b.broadcast_pair(n[0], n[1])
    return n.b.scalar(op, x, y)


@rule("Where")
def where(n: OnnxNode) -> Value:
    condition, x = n.b.broadcast_pair(n[0], n[1])
    x, y = n.b.broadcast_pair(x, n[2])
    return n.b.select(n.b.broadcast_to(condition, x.type.shape), x, y)


@rule("Clip")
def clip(n: OnnxNode) -> Value:
    x, b = n[0], n.b
    for position, name, bound in ((1, "min", b.maximum), (2, "max", b.minimum)):
        if name in n.attributes:
            x = bound(x, n.attributes[name])
        elif n.has(position):
            x = bound(x, b.broadcast_to(b.reshape(n[position], ()), x.type.shape))
    return x


@rule("Reciprocal")
def reciprocal(n: OnnxNode) -> Value:
    return n.b.div(1, n[0])


# --- activations: functions of a builder, a tensor and attributes, which recurrent layers have too --------------------


def relu(b: CoreBuilder, x: Value) -> Value:
    return b.maximum(x, 0)


def leaky_relu(b: CoreBuilder, x: Value, alpha: float = 0.01) -> Value:
    return b.select(b.lt(x, 0), b.mul(x, alpha), x)


def elu(b: CoreBuilder, x: Value, alpha: float = 1.0) -> Value:
    return b.select(b.lt(x, 0), b.mul(b.expm1(x), alpha), x)


def selu(b: CoreBuilder, x: Value, alpha: float = 1.67326319217681884765625, gamma: float = 1.05070102214813232421875):
    return b.mul(elu(b, x, alpha), gamma)


def celu(b: CoreBuilder, x: Value, alpha: float = 1.0) -> Value:
    return b.add(b.maximum(x, 0), b.minimum(b.mul(b.expm1(b.div(x, alpha)), alpha), 0))


def hard_sigmoid(b: CoreBuilder, x: Value, alpha: float = 0.2, beta: float = 0.5) -> Value:
    return b.minimum(b.maximum(b.add(b.mul(x, alpha), beta), 0), 1)


def hard_swish(b: CoreBuilder, x: Value) -> Value:
    return b.mul(x, hard_sigmoid(b, x, 1 / 6, 0.5))


def softplus(b: CoreBuilder, x: Value) -> Value:
    return b.add(b.maximum(x, 0), b.log1p(b.exp(b.neg(b.abs(x)))))


def softsign(b: CoreBuilder, x: Value) -> Value:
    return b.div(x, b.add(b.abs(x), 1))


def thresholded_relu(b: CoreBuilder, x: Value, alpha: float = 1.0) -> Value:
    return b.select(b.gt(x, alpha), x, 0)


def affine(b: CoreBuilder, x: Value, alpha: float = 1.0, beta: float = 0.0) -> Value:
    return b.add(b.mul(x, alpha), beta)


def scaled_tanh(b: CoreBuilder, x: Value, alpha: float = 1.0, beta: float = 1.0) -> Value:
    return b.mul(b.tanh(b.mul(x, beta)), alpha)


def mish(b: CoreBuilder, x: Value) -> Value:
    return b.mul(x, b.tanh(softplus(b, x)))


def swish(b: CoreBuilder, x: Value, alpha: float = 1.0) -> Value:
    return b.mul(x, b.sigmoid(b.mul(x, alpha)))


ACTIVATIONS: dict[str, Any] = {
    "Relu": relu,
    "LeakyRelu": leaky_relu,
    "Elu": elu,
    "Selu": selu,
    "Celu": celu,
    "HardSigmoid": hard_sigmoid,
    "HardSwish": hard_swish,
    "Softplus": softplus,
    "Softsign": softsign,
    "ThresholdedRelu": thresholded_relu,
    "Mish": mish,
    "Swish": swish,
}


def _activation(function: Any, n: OnnxNode) -> Value:
    return function(n.b, n[0], **n.attributes)


RULES.update({_name: partial(_activation, _function) for _name, _function in ACTIVATIONS.items()})
ACTIVATIONS |= {
    "Tanh": lambda b, x: b.tanh(x),
    "Sigmoid": lambda b, x: b.sigmoid(x),
    "Affine": affine,
    "ScaledTanh": scaled_tanh,
}


@rule("Gelu")
def gelu(n: OnnxNode) -> Value:
    x, b = n[0], n.b
    if n.attr("approximate", "none") == "tanh":
        cube = b.mul(b.mul(x, x), x)
        inner = b.tanh(b.mul(b.add(x, b.mul(cube, 0.044715)), sqrt(2 / pi)))
    else:
        inner = b.erf(b.mul(x, 1 / sqrt(2)))
    return b.mul(b.mul(x, 0.5), b.add(inner, 1))


@rule("PRelu")
def prelu(n: OnnxNode) -> Value:
    x, slope = n[0], n[1]
    return n.b.select(n.b.lt(x, 0), n.b.mul(x, n.b.broadcast_to(slope, x.type.shape)), x)


@rule("Shrink")
def shrink(n: OnnxNode) -> Value:
    x, b = n[0], n.b
    limit, bias = n.attr("lambd", 0.5), n.attr("bias", 0.0)
    low = b.select(b.lt(x, -limit), b.add(x, bias), 0)
    return b.select(b.gt(x, limit), b.sub(x, bias), low)


@rule("Dropout")
def dropout(n: OnnxNode) -> list[Value]:
    """The identity: a model is read for inference, in which nothing is dropped."""
    if n.has(2) and bool(n.known(2)) and not (n.has(1) and float(n.known(1)) == 0):
        raise Unsupported("the node drops random elements (training_mode)")
    x = n[0]
    return [x, n.b.full(x.type.shape, True, DType.BOOL)][: len(n.results)]


@rule("Identity")
def identity(n: OnnxNode) -> Value:
    return n[0]


@rule("BitCast")
def bit_cast(n: OnnxNode) -> Value:
    raise Unsupported("bits cannot be read as another dtype")
