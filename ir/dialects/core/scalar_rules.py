"""The rules of scalar operations: one table over ScalarOp.

An operation is a member of `ScalarOp` and an entry in this table. With an expansion it runs on every target. Without
one, each target has its own rule.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ...graph import Value
from ...lazy_dataclass import dataclass
from ...scalar import BITWISE, COMPARISONS, TESTS, ScalarOp
from . import numerics
from . import scalar_gradients as gradients
from . import scalar_numpy as meaning
from .primitive import Array
from .scalar_gradients import Gradient


@dataclass(frozen=True, slots=True)
class ScalarRule:
    """The rules of an operation.

    `evaluate` is the operation in NumPy. `gradient` returns the cotangents of the operands, see `scalar_gradients`.
    `expansion(builder, *operands)` computes it with other operations.
    """

    evaluate: Callable[..., Array]
    gradient: Gradient
    expansion: Callable[..., Value] | None = None


def evaluate_scalar(op: ScalarOp, *arrays: Array) -> Array:
    """`op` on arrays of one shape, in their dtype.

    BOOL operands count as 0 and 1, and a result is true unless it is 0.
    """
    last = arrays[-1].dtype
    boolean = op in COMPARISONS or op in TESTS or last == np.bool_
    if last == np.bool_ and op not in BITWISE and op is not ScalarOp.SELECT:
        arrays = tuple(a.astype(np.int8) for a in arrays)
    with np.errstate(all="ignore"):
        result = np.asarray(SCALAR_RULES[op].evaluate(*arrays))
        if boolean:
            return np.asarray(result != 0)
        if result.dtype.kind == "f" and last.kind != "f":
            return numerics.to_integers(result, last)
        return np.asarray(result, last)


SCALAR_RULES: dict[ScalarOp, ScalarRule] = {
    ScalarOp.EXP: ScalarRule(np.exp, gradients.times(lambda b, x, y: y)),
    ScalarOp.EXPM1: ScalarRule(np.expm1, gradients.times(lambda b, x, y: b.add(y, 1))),
    ScalarOp.LOG: ScalarRule(np.log, gradients.over(lambda b, x, y: x)),
    ScalarOp.LOG1P: ScalarRule(np.log1p, gradients.over(lambda b, x, y: b.add(x, 1))),
    ScalarOp.LOG2: ScalarRule(np.log2, gradients.over(lambda b, x, y: b.mul(x, math.log(2)))),
    ScalarOp.LOG10: ScalarRule(np.log10, gradients.over(lambda b, x, y: b.mul(x, math.log(10)))),
    ScalarOp.SQRT: ScalarRule(np.sqrt, gradients.over(lambda b, x, y: b.mul(y, 2))),
    ScalarOp.RSQRT: ScalarRule(meaning.rsqrt, gradients.times(lambda b, x, y: b.mul(b.div(y, x), -0.5))),
    ScalarOp.CBRT: ScalarRule(np.cbrt, gradients.over(lambda b, x, y: b.mul(b.square(y), 3))),
    ScalarOp.SIN: ScalarRule(np.sin, gradients.times(lambda b, x, y: b.cos(x))),
    ScalarOp.COS: ScalarRule(np.cos, gradients.times(lambda b, x, y: b.neg(b.sin(x)))),
    ScalarOp.TAN: ScalarRule(np.tan, gradients.times(lambda b, x, y: b.add(b.square(y), 1))),
    ScalarOp.ASIN: ScalarRule(np.arcsin, gradients.over(lambda b, x, y: b.sqrt(gradients.one_minus_square(b, x)))),
    ScalarOp.ACOS: ScalarRule(
        np.arccos, gradients.over(lambda b, x, y: b.neg(b.sqrt(gradients.one_minus_square(b, x))))
    ),
    ScalarOp.ATAN: ScalarRule(np.arctan, gradients.over(lambda b, x, y: b.add(b.square(x), 1))),
    ScalarOp.SINH: ScalarRule(np.sinh, gradients.times(lambda b, x, y: b.cosh(x))),
    ScalarOp.COSH: ScalarRule(np.cosh, gradients.times(lambda b, x, y: b.sinh(x))),
    ScalarOp.TANH: ScalarRule(np.tanh, gradients.times(lambda b, x, y: gradients.one_minus_square(b, y))),
    ScalarOp.ASINH: ScalarRule(np.arcsinh, gradients.over(lambda b, x, y: b.sqrt(b.add(b.square(x), 1)))),
    ScalarOp.ACOSH: ScalarRule(np.arccosh, gradients.over(lambda b, x, y: b.sqrt(b.mul(b.sub(x, 1), b.add(x, 1))))),
    ScalarOp.ATANH: ScalarRule(np.arctanh, gradients.over(lambda b, x, y: gradients.one_minus_square(b, x))),
    ScalarOp.SIGMOID: ScalarRule(meaning.sigmoid, gradients.times(lambda b, x, y: b.mul(y, b.sub(1, y)))),
    ScalarOp.ERF: ScalarRule(numerics.erf, gradients.times(gradients.erf)),
    ScalarOp.ERFINV: ScalarRule(numerics.erfinv, gradients.times(gradients.erfinv)),
    ScalarOp.GAMMA: ScalarRule(numerics.gamma, gradients.times(lambda b, x, y: b.mul(y, b.digamma(x)))),
    ScalarOp.LGAMMA: ScalarRule(numerics.lgamma, gradients.times(lambda b, x, y: b.digamma(x))),
    ScalarOp.DIGAMMA: ScalarRule(numerics.digamma, gradients.times(lambda b, x, y: gradients.trigamma(b, x))),
    ScalarOp.RECTIFY: ScalarRule(meaning.rectify, gradients.rectify),
    ScalarOp.NEG: ScalarRule(np.negative, gradients.neg),
    ScalarOp.ABS: ScalarRule(np.abs, gradients.times(lambda b, x, y: b.sign(x))),
    ScalarOp.SIGN: ScalarRule(meaning.sign, gradients.none),
    ScalarOp.FLOOR: ScalarRule(meaning.keep_integers(np.floor), gradients.none),
    ScalarOp.CEIL: ScalarRule(meaning.keep_integers(np.ceil), gradients.none),
    ScalarOp.ROUND: ScalarRule(meaning.keep_integers(meaning.round), gradients.none),
    ScalarOp.RINT: ScalarRule(meaning.keep_integers(np.rint), gradients.none),
    ScalarOp.TRUNC: ScalarRule(meaning.keep_integers(np.trunc), gradients.none),
    ScalarOp.IS_NAN: ScalarRule(np.isnan, gradients.none),
    ScalarOp.IS_INF: ScalarRule(np.isinf, gradients.none),
    ScalarOp.IS_FINITE: ScalarRule(np.isfinite, gradients.none),
    ScalarOp.ADD: ScalarRule(np.add, gradients.add),
    ScalarOp.SUB: ScalarRule(np.subtract, gradients.sub),
    ScalarOp.MUL: ScalarRule(np.multiply, gradients.mul),
    ScalarOp.DIV: ScalarRule(meaning.div, gradients.div),
    ScalarOp.MOD: ScalarRule(meaning.mod, gradients.mod),
    ScalarOp.POW: ScalarRule(meaning.pow, gradients.pow),
    ScalarOp.MAX: ScalarRule(np.maximum, gradients.extremum(ScalarOp.GE)),
    ScalarOp.MIN: ScalarRule(np.minimum, gradients.extremum(ScalarOp.LE)),
    ScalarOp.ATAN2: ScalarRule(np.arctan2, gradients.atan2),
    ScalarOp.HYPOT: ScalarRule(np.hypot, gradients.hypot),
    ScalarOp.NOT: ScalarRule(np.invert, gradients.none),
    ScalarOp.AND: ScalarRule(np.bitwise_and, gradients.none),
    ScalarOp.OR: ScalarRule(np.bitwise_or, gradients.none),
    ScalarOp.XOR: ScalarRule(np.bitwise_xor, gradients.none),
    ScalarOp.SHIFT_LEFT: ScalarRule(meaning.shift(np.left_shift, np.zeros_like), gradients.none),
    ScalarOp.SHIFT_RIGHT: ScalarRule(
        meaning.shift(np.right_shift, lambda x: np.where(x < 0, -1, 0).astype(x.dtype)), gradients.none
    ),
    ScalarOp.EQ: ScalarRule(np.equal, gradients.none),
    ScalarOp.NE: ScalarRule(np.not_equal, gradients.none),
    ScalarOp.LT: ScalarRule(np.less, gradients.none),
    ScalarOp.LE: ScalarRule(np.less_equal, gradients.none),
    ScalarOp.GT: ScalarRule(np.greater, gradients.none),
    ScalarOp.GE: ScalarRule(np.greater_equal, gradients.none),
    ScalarOp.SELECT: ScalarRule(np.where, gradients.select),
}
"""Total over the enum."""

EXPANDED = frozenset(op for op, rule in SCALAR_RULES.items() if rule.expansion is not None)
"""The operations that have an expansion, and so no rules in targets."""

INTEGER_GRADIENTS = frozenset(
    (
        ScalarOp.ABS,
        ScalarOp.ADD,
        ScalarOp.DIV,
        ScalarOp.MAX,
        ScalarOp.MIN,
        ScalarOp.MOD,
        ScalarOp.MUL,
        ScalarOp.NEG,
        ScalarOp.POW,
        ScalarOp.SELECT,
        ScalarOp.SUB,
    )
)
"""The operations whose rules hold for integers, with cotangents in integers."""
