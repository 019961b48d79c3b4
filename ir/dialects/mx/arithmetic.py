"""Functions shared by the elementwise, scalar and broadcasting operators: each operation in core."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import pi
from typing import TYPE_CHECKING

from ...graph import Value
from ...types import DType
from ..core.gradient import pull_back
from .nn_activation import relu, softsign

if TYPE_CHECKING:
    from .builder import MxBuilder

Unary = Callable[["MxBuilder", Value], Value]
Binary = Callable[["MxBuilder", Value, Value], Value]


def _compare(name: str) -> Binary:
    """A comparison with MXNet's result: 0 or 1 in the operands' dtype."""
    return lambda b, x, y: b.cast(getattr(b, name)(x, y), x.type.dtype)


def truth(b: MxBuilder, x: Value) -> Value:
    """BOOL: true if the element is not zero."""
    return x if x.type.dtype is DType.BOOL else b.ne(x, 0)


def _logical(name: str) -> Binary:
    return lambda b, x, y: b.cast(getattr(b, name)(truth(b, x), truth(b, y)), x.type.dtype)


def _of_floats(function: Callable[..., Value], wide: DType, b: MxBuilder, *operands: Value) -> Value:
    """`function` of integers: computed in `wide` and truncated. As in MXNet, its derivatives are truncated too, before
    they are multiplied by the cotangent."""
    return b.custom_gradient(partial(_truncated, function, wide), partial(_slopes, function, wide), *operands)[0]


def _truncated(function: Callable[..., Value], wide: DType, b: MxBuilder, *operands: Value) -> Value:
    return b.cast(function(b, *(b.cast(x, wide) for x in operands)), operands[0].type.dtype)


def _slopes(
    function: Callable[..., Value],
    wide: DType,
    b: MxBuilder,
    operands: Sequence[Value],
    results: object,
    cotangents: Sequence[Value],
) -> list[Value]:
    g = cotangents[0]
    widened = [b.cast(x, wide) for x in operands]
    first = len(b.nodes)
    result = function(b, *widened)
    slopes = pull_back(b, b.nodes[first:], {result: b.full_like(result, 1)}, widened)
    return [b.mul(g, b.cast(slope, g.type.dtype)) for slope in slopes]


def _in_float(function: Binary) -> Binary:
    """A function of floats; integers are converted to float64 and the result is truncated."""

    def apply(b: MxBuilder, x: Value, y: Value) -> Value:
        return function(b, x, y) if x.type.dtype.is_float else _of_floats(function, DType.F64, b, x, y)

    return apply


def _quotient(b: MxBuilder, x: Value, y: Value) -> Value:
    return b.div(x, y)


def _divide(b: MxBuilder, x: Value, y: Value) -> Value:
    """The quotient; for integers the truncated one, whose derivatives 1 / y and -x / y^2 are truncated as in MXNet."""
    if x.type.dtype.is_float:
        return b.div(x, y)
    return b.custom_gradient(_quotient, partial(_slopes, _quotient, DType.F64), x, y)[0]


def _modulo(b: MxBuilder, x: Value, y: Value) -> Value:
    """The remainder with the sign of y; that of integers has no gradient."""
    return b.mod(x, y) if x.type.dtype.is_float else b.stop_gradient(b.mod(x, y))


BINARY: dict[str, Binary] = {
    "add": lambda b, x, y: b.add(x, y),
    "sub": lambda b, x, y: b.sub(x, y),
    "mul": lambda b, x, y: b.mul(x, y),
    "div": _divide,
    "div_by_number": _quotient,  # the cotangent of an integer is divided, as in MXNet
    "mod": _modulo,
    "power": _in_float(lambda b, x, y: b.pow(x, y)),
    "maximum": lambda b, x, y: b.maximum(x, y),
    "minimum": lambda b, x, y: b.minimum(x, y),
    "hypot": _in_float(lambda b, x, y: b.hypot(x, y)),
    "equal": _compare("eq"),
    "not_equal": _compare("ne"),
    "greater": _compare("gt"),
    "greater_equal": _compare("ge"),
    "lesser": _compare("lt"),
    "lesser_equal": _compare("le"),
    "logical_and": _logical("and_"),
    "logical_or": _logical("or_"),
    "logical_xor": _logical("xor"),
}


FORMULAS = {
    "add": "{x} + {y}",
    "sub": "{x} - {y}",
    "mul": "{x} * {y}",
    "div": "{x} / {y}, truncated for integers",
    "div_by_number": "{x} / {y}, truncated for integers",
    "mod": "{x} - {y} * floor({x} / {y}), with the sign of {y}",
    "power": "{x} ^ {y}",
    "maximum": "max({x}, {y})",
    "minimum": "min({x}, {y})",
    "hypot": "sqrt({x}^2 + {y}^2)",
    "equal": "1 if {x} == {y} else 0",
    "not_equal": "1 if {x} != {y} else 0",
    "greater": "1 if {x} > {y} else 0",
    "greater_equal": "1 if {x} >= {y} else 0",
    "lesser": "1 if {x} < {y} else 0",
    "lesser_equal": "1 if {x} <= {y} else 0",
    "logical_and": "1 if {x} != 0 and {y} != 0 else 0",
    "logical_or": "1 if {x} != 0 or {y} != 0 else 0",
    "logical_xor": "1 if exactly one of {x}, {y} is not 0 else 0",
}
"""The functions of `BINARY` as formulas of x and y, for docstrings."""


def _float_function(name: str) -> Unary:
    return _through_float(lambda b, x: getattr(b, name)(x))


def _through_float(function: Unary) -> Unary:
    """A function of floats; integers are converted to float32 and the result is truncated, as in MXNet. No booleans."""

    def apply(b: MxBuilder, x: Value) -> Value:
        dtype = x.type.dtype
        if dtype is DType.BOOL:
            raise TypeError("is not defined on booleans")
        return function(b, x) if dtype.is_float else _of_floats(function, DType.F32, b, x)

    return apply


def _rounding(name: str) -> Unary:
    """A function without gradient that does not change integers."""
    return lambda b, x: getattr(b, name)(x) if x.type.dtype.is_float else b.stop_gradient(x)


def round_half_down(b: MxBuilder, x: Value) -> Value:
    """MXNet's rint: to the nearest integer, halves towards minus infinity."""
    if not x.type.dtype.is_float:
        return b.stop_gradient(x)
    low, high = b.floor(x), b.ceil(x)
    return b.select(b.le(b.sub(x, low), b.sub(high, x)), low, high)


def sign(b: MxBuilder, x: Value) -> Value:
    """-1, 0 or 1; 0 for NaN, as in MXNet."""
    return b.sub(b.cast(b.gt(x, 0), x.type.dtype), b.cast(b.lt(x, 0), x.type.dtype))


_FLOAT_FUNCTIONS: dict[str, Unary] = {
    name: _float_function(name)
    for name in (
        "acos acosh asin asinh atan atanh cbrt cos cosh erf erfinv exp expm1 gamma lgamma log log10 log1p log2 rsqrt "
        "sigmoid sin sinh sqrt tan tanh"
    ).split()
}
_FUNCTIONS: dict[str, Unary] = {
    "identity": lambda b, x: x,
    "abs": lambda b, x: x if x.type.dtype.is_unsigned else b.abs(x),
    "neg": lambda b, x: b.neg(x),
    "sign": sign,
    "square": lambda b, x: b.mul(x, x),
    "reciprocal": lambda b, x: b.div(b.full_like(x, 1), x),
    "rcbrt": _through_float(lambda b, x: b.div(b.full_like(x, 1), b.cbrt(x))),
    "relu": relu,
    "softsign": _through_float(softsign),
    "degrees": _through_float(lambda b, x: b.mul(x, 180 / pi)),
    "radians": _through_float(lambda b, x: b.mul(x, pi / 180)),
    "logical_not": lambda b, x: b.cast(b.eq(x, 0), x.type.dtype),
    "ceil": _rounding("ceil"),
    "floor": _rounding("floor"),
    "trunc": _rounding("trunc"),
    "round": _rounding("round"),
    "rint": round_half_down,
    "ones": lambda b, x: b.full_like(x, 1),
    "zeros": lambda b, x: b.full_like(x, 0),
}
UNARY = {**_FLOAT_FUNCTIONS, **_FUNCTIONS}
