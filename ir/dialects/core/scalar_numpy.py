"""The NumPy meaning of every scalar operation: one table over ScalarOp."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...scalar import BITWISE, COMPARISONS, TESTS, ScalarOp
from . import numerics
from .primitive import Array


def evaluate_scalar(op: ScalarOp, *arrays: Array) -> Array:
    """`op` on arrays of one shape, in their dtype.

    Arithmetic on BOOL counts with 0 and 1 and asks whether the result is not 0.
    """
    last = arrays[-1].dtype
    boolean = op in COMPARISONS or op in TESTS or last == np.bool_
    if last == np.bool_ and op not in BITWISE and op is not ScalarOp.SELECT:
        arrays = tuple(a.astype(np.int8) for a in arrays)
    with np.errstate(all="ignore"):
        result = np.asarray(NUMPY[op](*arrays))
        return np.asarray(result != 0) if boolean else np.asarray(result, last)


def _keep_integers(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """`function` on floats; integers are their own rounding."""
    return lambda x: function(x) if x.dtype.kind == "f" else x


def _round(x: Array) -> Array:
    """Half away from zero."""
    whole = np.trunc(x)
    return np.where(np.abs(x - whole) >= 0.5, whole + np.copysign(1, x), whole)


def _rsqrt(x: Array) -> Array:
    return 1 / np.sqrt(x)


def _sigmoid(x: Array) -> Array:
    e = np.exp(-np.abs(x))
    return np.where(np.isnan(x), x, np.where(x >= 0, 1, e) / (1 + e))


def _div(x: Array, y: Array) -> Array:
    """Integers: truncated towards zero; a divisor of zero gives zero."""
    if x.dtype.kind == "f":
        return x / y
    floored = np.floor_divide(x, y)
    return np.where((np.remainder(x, y) != 0) & ((x < 0) != (y < 0)), floored + 1, floored)


def _mod(x: Array, y: Array) -> Array:
    return np.where(y == 0, np.zeros_like(x), np.mod(x, y))


def _pow(x: Array, y: Array) -> Array:
    """Integers go through float64, as MXNet's do."""
    if x.dtype.kind == "f":
        return np.power(x, np.array(y))  # a copy: for a repeated 0.5 NumPy takes square roots, which differ at -inf
    return np.power(x.astype(np.float64), y.astype(np.float64))


def _shift(
    shift: Callable[[Array, Array], Array], overflow: Callable[[Array], Array]
) -> Callable[[Array, Array], Array]:
    """Shifts by the width or more give `overflow`: zeros, or for a signed right shift the sign."""

    def shifted(x: Array, y: Array) -> Array:
        width = x.dtype.itemsize * 8
        inside = (y >= 0) & (y < width)
        return np.where(inside, shift(x, np.where(inside, y, 0)), overflow(x))

    return shifted


NUMPY: dict[ScalarOp, Callable[..., Array]] = {
    ScalarOp.EXP: np.exp,
    ScalarOp.EXPM1: np.expm1,
    ScalarOp.LOG: np.log,
    ScalarOp.LOG1P: np.log1p,
    ScalarOp.LOG2: np.log2,
    ScalarOp.LOG10: np.log10,
    ScalarOp.SQRT: np.sqrt,
    ScalarOp.RSQRT: _rsqrt,
    ScalarOp.CBRT: np.cbrt,
    ScalarOp.SIN: np.sin,
    ScalarOp.COS: np.cos,
    ScalarOp.TAN: np.tan,
    ScalarOp.ASIN: np.arcsin,
    ScalarOp.ACOS: np.arccos,
    ScalarOp.ATAN: np.arctan,
    ScalarOp.SINH: np.sinh,
    ScalarOp.COSH: np.cosh,
    ScalarOp.TANH: np.tanh,
    ScalarOp.ASINH: np.arcsinh,
    ScalarOp.ACOSH: np.arccosh,
    ScalarOp.ATANH: np.arctanh,
    ScalarOp.SIGMOID: _sigmoid,
    ScalarOp.ERF: numerics.erf,
    ScalarOp.ERFINV: numerics.erfinv,
    ScalarOp.GAMMA: numerics.gamma,
    ScalarOp.LGAMMA: numerics.lgamma,
    ScalarOp.DIGAMMA: numerics.digamma,
    ScalarOp.NEG: np.negative,
    ScalarOp.ABS: np.abs,
    ScalarOp.SIGN: np.sign,
    ScalarOp.FLOOR: _keep_integers(np.floor),
    ScalarOp.CEIL: _keep_integers(np.ceil),
    ScalarOp.ROUND: _keep_integers(_round),
    ScalarOp.RINT: _keep_integers(np.rint),
    ScalarOp.TRUNC: _keep_integers(np.trunc),
    ScalarOp.IS_NAN: np.isnan,
    ScalarOp.IS_INF: np.isinf,
    ScalarOp.IS_FINITE: np.isfinite,
    ScalarOp.ADD: np.add,
    ScalarOp.SUB: np.subtract,
    ScalarOp.MUL: np.multiply,
    ScalarOp.DIV: _div,
    ScalarOp.MOD: _mod,
    ScalarOp.POW: _pow,
    ScalarOp.MAX: np.maximum,
    ScalarOp.MIN: np.minimum,
    ScalarOp.ATAN2: np.arctan2,
    ScalarOp.HYPOT: np.hypot,
    ScalarOp.NOT: np.invert,
    ScalarOp.AND: np.bitwise_and,
    ScalarOp.OR: np.bitwise_or,
    ScalarOp.XOR: np.bitwise_xor,
    ScalarOp.SHIFT_LEFT: _shift(np.left_shift, np.zeros_like),
    ScalarOp.SHIFT_RIGHT: _shift(np.right_shift, lambda x: np.where(x < 0, -1, 0).astype(x.dtype)),
    ScalarOp.EQ: np.equal,
    ScalarOp.NE: np.not_equal,
    ScalarOp.LT: np.less,
    ScalarOp.LE: np.less_equal,
    ScalarOp.GT: np.greater,
    ScalarOp.GE: np.greater_equal,
    ScalarOp.SELECT: np.where,
}
