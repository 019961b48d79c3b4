"""The scalar operations of `core` in StableHLO and CHLO. A test proves the table total."""

from __future__ import annotations

from collections.abc import Callable
from math import log

from ...ir.scalar import ScalarOp as S
from ...ir.types import DType, TensorType
from .text import Text
from .writer import Val

Rule = Callable[..., Val]
"""A function of the text and the operands."""


def _named(name: str) -> Rule:
    def rule(t: Text, *xs: Val) -> Val:
        return t.one(name, xs, xs[0].type)

    return rule


def _precise(rule: Rule, dtype: DType = DType.F32) -> Rule:
    """A rule of several operations, whose intermediate results are of `dtype` at least."""

    def wide(t: Text, *xs: Val) -> Val:
        narrow = xs[0].type.dtype
        if narrow.bits >= dtype.bits:
            return rule(t, *xs)
        return cast(t, rule(t, *(t.convert(x, dtype) for x in xs)), narrow)

    return wide


def _floats(name: str) -> Rule:
    """An operation of floats that leaves integers as they are."""

    def rule(t: Text, x: Val) -> Val:
        return t.one(name, (x,), x.type) if x.type.dtype.is_float else x

    return rule


def _arithmetic(name: str, of_booleans: Rule) -> Rule:
    """An operation with another one for booleans, which StableHLO lacks, or MLIR takes for one of 1-bit integers."""

    def rule(t: Text, *xs: Val) -> Val:
        return of_booleans(t, *xs) if xs[0].type.dtype is DType.BOOL else t.one(name, xs, xs[0].type)

    return rule


def _comparison(direction: str) -> Rule:
    def rule(t: Text, x: Val, y: Val) -> Val:
        return t.compare(direction, x, y)

    return rule


def _scaled_log(base: int) -> Rule:
    def rule(t: Text, x: Val) -> Val:
        return t.one("stablehlo.divide", (t.one("stablehlo.log", (x,), x.type), t.fill(log(base), x.type)), x.type)

    return rule


def _atan(t: Text, x: Val) -> Val:
    return t.one("stablehlo.atan2", (x, t.fill(1, x.type)), x.type)


def _sinh(t: Text, x: Val) -> Val:
    """CHLO's for small numbers."""
    small = t.compare("LT", _abs(t, x), t.fill(1, x.type))
    grows, falls = _half_exponentials(t, x)
    return t.select(small, t.one("chlo.sinh", (x,), x.type), t.one("stablehlo.subtract", (grows, falls), x.type))


def _cosh(t: Text, x: Val) -> Val:
    return t.one("stablehlo.add", _half_exponentials(t, x), x.type)


def _half_exponentials(t: Text, x: Val) -> tuple[Val, Val]:
    """exp(x) / 2 and exp(-x) / 2 by the root of exp(x), so that none overflows before its result; CHLO adds the
    logarithm of 1 / 2 to x, which loses digits of large numbers."""
    half = t.fill(0.5, x.type)
    root = t.one("stablehlo.exponential", (t.one("stablehlo.multiply", (x, half), x.type),), x.type)
    grows = t.one("stablehlo.multiply", (t.one("stablehlo.multiply", (root, half), x.type), root), x.type)
    return grows, t.one("stablehlo.divide", (t.one("stablehlo.divide", (half, root), x.type), root), x.type)


def _gamma(t: Text, x: Val) -> Val:
    """The exponential of its logarithm, with the sign of (-1)^floor(x) below 0. It is infinite at 0, and NaN at other
    poles."""
    zero, below = t.fill(0, x.type), t.one("stablehlo.floor", (x,), x.type)
    size = t.one("stablehlo.exponential", (t.one("chlo.lgamma", (x,), x.type),), x.type)
    half = t.one("stablehlo.multiply", (below, t.fill(0.5, x.type)), x.type)
    odd = t.compare("NE", t.one("stablehlo.floor", (half,), x.type), half)
    negative = t.compare("LT", x, zero)
    signed = t.select(
        t.one("stablehlo.and", (odd, negative), odd.type), t.one("stablehlo.negate", (size,), x.type), size
    )
    pole = t.one("stablehlo.and", (negative, t.compare("EQ", below, x)), odd.type)
    inverse = t.one("stablehlo.divide", (t.fill(1, x.type), x), x.type)
    return t.select(t.compare("EQ", x, zero), inverse, t.select(pole, t.fill(float("nan"), x.type), signed))


def _digamma(t: Text, x: Val) -> Val:
    """It is infinite at its poles."""
    integer = t.compare("EQ", t.one("stablehlo.floor", (x,), x.type), x)
    pole = t.one("stablehlo.and", (integer, t.compare("LE", x, t.fill(0, x.type))), integer.type)
    return t.select(pole, t.fill(float("inf"), x.type), t.one("chlo.digamma", (x,), x.type))


def _rectify(t: Text, x: Val) -> Val:
    zero = t.fill(0, x.type)
    return t.select(t.compare("GT", x, zero), x, zero)


def _abs(t: Text, x: Val) -> Val:
    signed = x.type.dtype.is_float or x.type.dtype.is_signed
    return t.one("stablehlo.abs", (x,), x.type) if signed else x


def _sign(t: Text, x: Val) -> Val:
    if x.type.dtype.is_float or x.type.dtype.is_signed:
        return t.one("stablehlo.sign", (x,), x.type)
    return t.convert(t.compare("NE", x, t.fill(0, x.type)), x.type.dtype)


def _trunc(t: Text, x: Val) -> Val:
    if not x.type.dtype.is_float:
        return x
    down, up = (t.one(f"stablehlo.{name}", (x,), x.type) for name in ("floor", "ceil"))
    return t.select(t.compare("LT", x, t.fill(0, x.type)), up, down)


def _same(t: Text, x: Val) -> Val:
    return x


def _is_nan(t: Text, x: Val) -> Val:
    return t.compare("NE", x, x) if x.type.dtype.is_float else _answer(t, x, False)


def _is_finite(t: Text, x: Val) -> Val:
    answer = TensorType(x.type.shape, DType.BOOL)
    return t.one("stablehlo.is_finite", (x,), answer) if x.type.dtype.is_float else _answer(t, x, True)


def _is_inf(t: Text, x: Val) -> Val:
    infinity = float("inf")
    return t.compare("EQ", _abs(t, x), t.fill(infinity, x.type)) if x.type.dtype.is_float else _answer(t, x, False)


def _answer(t: Text, x: Val, answer: bool) -> Val:
    return t.fill(answer, TensorType(x.type.shape, DType.BOOL))


def _div(t: Text, x: Val, y: Val) -> Val:
    """Division of integers by zero is zero."""
    if x.type.dtype.is_float:
        return t.one("stablehlo.divide", (x, y), x.type)
    if x.type.dtype is DType.BOOL:
        return t.one("stablehlo.and", (x, y), x.type)
    return _unless_zero(t, x, y, lambda divisor: t.one("stablehlo.divide", (x, divisor), x.type))


def _mod(t: Text, x: Val, y: Val) -> Val:
    """The remainder with the sign of the divisor; zero for a divisor of zero."""
    if x.type.dtype is DType.BOOL:
        return t.fill(False, x.type)

    def remainder(divisor: Val) -> Val:
        zero, rest = t.fill(0, x.type), t.one("stablehlo.remainder", (x, divisor), x.type)
        if not x.type.dtype.is_float and not x.type.dtype.is_signed:
            return rest
        differs = t.compare("NE", t.compare("LT", rest, zero), t.compare("LT", divisor, zero))
        wrong = t.one("stablehlo.and", (t.compare("NE", rest, zero), differs), differs.type)
        return t.select(wrong, t.one("stablehlo.add", (rest, divisor), x.type), rest)

    return _unless_zero(t, x, y, remainder)


def _unless_zero(t: Text, x: Val, y: Val, compute: Callable[[Val], Val]) -> Val:
    """A function of the divisor y; zero where y is."""
    zero = t.fill(0, x.type)
    is_zero = t.compare("EQ", y, zero)
    return t.select(is_zero, zero, compute(t.select(is_zero, t.fill(1, x.type), y)))


def _pow(t: Text, x: Val, y: Val) -> Val:
    """Integers are converted to float64."""
    if x.type.dtype.is_float:
        return t.one("stablehlo.power", (x, y), x.type)
    wide = TensorType(x.type.shape, DType.F64)
    power = t.one("stablehlo.power", (t.convert(x, DType.F64), t.convert(y, DType.F64)), wide)
    return cast(t, power, x.type.dtype)


def _hypot(t: Text, x: Val, y: Val) -> Val:
    """The larger one times sqrt(1 + ratio ^ 2), so that squares do not overflow."""
    a, b = _abs(t, x), _abs(t, y)
    large, small = t.one("stablehlo.maximum", (a, b), x.type), t.one("stablehlo.minimum", (a, b), x.type)
    ratio = t.one("stablehlo.divide", (small, large), x.type)
    square = t.one("stablehlo.multiply", (ratio, ratio), x.type)
    root = t.one("stablehlo.sqrt", (t.one("stablehlo.add", (square, t.fill(1, x.type)), x.type),), x.type)
    special = t.compare("EQ", large, t.fill(0, x.type))
    infinite = t.one("stablehlo.or", (_is_inf(t, a), _is_inf(t, b)), special.type)
    product = t.select(special, large, t.one("stablehlo.multiply", (large, root), x.type))
    return t.select(infinite, t.fill(float("inf"), x.type), product)


def _shift_right(t: Text, x: Val, y: Val) -> Val:
    name = "shift_right_arithmetic" if x.type.dtype.is_signed else "shift_right_logical"
    return t.one(f"stablehlo.{name}", (x, y), x.type)


def cast(t: Text, x: Val, dtype: DType) -> Val:
    """See `core.cast`. StableHLO leaves open what floats outside of the range of integers become."""
    if dtype is DType.BOOL:
        return x if x.type.dtype is dtype else t.compare("NE", x, t.fill(0, x.type))
    if not x.type.dtype.is_float or dtype.is_float:
        narrow = x.type.dtype is DType.F64 and dtype.bits == 16
        return t.convert(t.convert(x, DType.F32) if narrow else x, dtype)
    bits = 32 if dtype is DType.I32 or dtype.bits < 32 else 64
    limit = TensorType(x.type.shape, DType.F64)
    wide = t.convert(x, DType.F64)
    fits = t.compare("LT", t.one("stablehlo.abs", (wide,), limit), t.fill(2.0 ** (bits - 1), limit))
    inside = t.select(fits, wide, t.fill(-(2.0 ** (bits - 1)), limit))
    return t.convert(t.convert(inside, DType.I32 if bits == 32 else DType.I64), dtype)


SCALARS: dict[S, Rule] = {
    S.EXP: _named("stablehlo.exponential"),
    S.EXPM1: _named("stablehlo.exponential_minus_one"),
    S.LOG: _named("stablehlo.log"),
    S.LOG1P: _named("stablehlo.log_plus_one"),
    S.LOG2: _precise(_scaled_log(2)),
    S.LOG10: _precise(_scaled_log(10)),
    S.SQRT: _named("stablehlo.sqrt"),
    S.RSQRT: _named("stablehlo.rsqrt"),
    S.CBRT: _named("stablehlo.cbrt"),
    S.SIN: _named("stablehlo.sine"),
    S.COS: _named("stablehlo.cosine"),
    S.TAN: _named("stablehlo.tan"),
    S.ASIN: _precise(_named("chlo.asin")),
    S.ACOS: _precise(_named("chlo.acos")),
    S.ATAN: _precise(_atan),
    S.SINH: _precise(_sinh),
    S.COSH: _precise(_cosh),
    S.TANH: _named("stablehlo.tanh"),
    S.ASINH: _precise(_named("chlo.asinh")),
    S.ACOSH: _precise(_named("chlo.acosh")),
    S.ATANH: _precise(_named("chlo.atanh")),
    S.SIGMOID: _named("stablehlo.logistic"),
    S.ERF: _precise(_named("chlo.erf")),
    S.ERFINV: _precise(_named("chlo.erf_inv")),
    S.GAMMA: _precise(_gamma, DType.F64),  # an error of a logarithm grows in its exponential
    S.LGAMMA: _precise(_named("chlo.lgamma")),
    S.DIGAMMA: _precise(_digamma),
    S.RECTIFY: _rectify,
    S.NEG: _arithmetic("stablehlo.negate", _same),
    S.ABS: _abs,
    S.SIGN: _sign,
    S.FLOOR: _floats("stablehlo.floor"),
    S.CEIL: _floats("stablehlo.ceil"),
    S.ROUND: _floats("stablehlo.round_nearest_afz"),
    S.RINT: _floats("stablehlo.round_nearest_even"),
    S.TRUNC: _trunc,
    S.IS_NAN: _is_nan,
    S.IS_INF: _is_inf,
    S.IS_FINITE: _is_finite,
    S.ADD: _arithmetic("stablehlo.add", _named("stablehlo.or")),
    S.SUB: _arithmetic("stablehlo.subtract", _named("stablehlo.xor")),
    S.MUL: _arithmetic("stablehlo.multiply", _named("stablehlo.and")),
    S.DIV: _div,
    S.MOD: _mod,
    S.POW: _pow,
    S.MAX: _named("stablehlo.maximum"),
    S.MIN: _named("stablehlo.minimum"),
    S.ATAN2: _named("stablehlo.atan2"),
    S.HYPOT: _precise(_hypot),
    S.NOT: _named("stablehlo.not"),
    S.AND: _named("stablehlo.and"),
    S.OR: _named("stablehlo.or"),
    S.XOR: _named("stablehlo.xor"),
    S.SHIFT_LEFT: _named("stablehlo.shift_left"),
    S.SHIFT_RIGHT: _shift_right,
    S.EQ: _comparison("EQ"),
    S.NE: _comparison("NE"),
    S.LT: _comparison("LT"),
    S.LE: _comparison("LE"),
    S.GT: _comparison("GT"),
    S.GE: _comparison("GE"),
    S.SELECT: Text.select,
}
