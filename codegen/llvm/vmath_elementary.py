"""Float32 exponentials, logarithms, hyperbolic functions, erf and rounding, written over any number of lanes.

Each function emits code without branches into `f`, for an argument of float lanes. Its error is at most 2 ulp unless
its docstring gives another bound. Infinities, NaN, denormals and signed zeros are handled as in C. There are no library
calls and no fast-math. Range reductions follow Cody and Waite with fma; log1p, expm1 and erf are split as in N. Juffa's
public notes. Clamps are `select(x > hi, hi, x)`, which propagates a NaN.
"""

from __future__ import annotations

import math

from . import vmath_coefficients as K
from .arithmetic import Value
from .emitter import FunctionBuilder

_MAGIC = 12582912.0  # 1.5 * 2^23: adding it rounds to an integer, which is then in the low bits
_MAGIC_BITS = 0x4B400000
_LOG2E = 1.4426950408889634
_LOG10E = 0.4342944819032518
_LOG10_2 = 0.3010299956639812
INFINITY, NAN = math.inf, math.nan


def polynomial(f: FunctionBuilder, x: Value, coefficients: tuple[float, ...]) -> Value:
    """Horner's rule with fma; constant term first."""
    p = f.const(x.type, coefficients[-1])
    for c in reversed(coefficients[:-1]):
        p = f.fma(p, x, c)
    return p


def at_most(f: FunctionBuilder, x: Value, limit: float) -> Value:
    """min(x, limit); NaN for NaN."""
    return f.select(f.cmp("gt", x, limit), limit, x)


def at_least(f: FunctionBuilder, x: Value, limit: float) -> Value:
    """max(x, limit); NaN for NaN."""
    return f.select(f.cmp("lt", x, limit), limit, x)


def split(value: float) -> tuple[float, float]:
    """A constant as the sum of a number with 20 bits of fraction and the rest."""
    bits = float.hex(value)
    high = float.fromhex(bits[: bits.index(".") + 6] + bits[bits.index("p") :])
    return high, value - high


def round_to_integer(f: FunctionBuilder, x: Value, scale: float) -> tuple[Value, Value]:
    """n = round(x * scale) as float and as i32, for |n| < 2^22."""
    t = f.fma(x, scale, _MAGIC)
    return t - _MAGIC, f.bitcast(t, "i32") - _MAGIC_BITS


def power_of_two(f: FunctionBuilder, i: Value) -> Value:
    """2^i for the i32 i in [-126, 127]."""
    return f.bitcast((i + 127) << 23, "float")


def scale(f: FunctionBuilder, x: Value, i: Value) -> Value:
    """x * 2^i in two steps, so that results can be denormal and overflow gives infinity."""
    half = i >> 1
    return x * power_of_two(f, half) * power_of_two(f, i - half)


def _reduce_exp(f: FunctionBuilder, x: Value) -> tuple[Value, Value, Value]:
    """(r, n, n as i32) with x = n ln 2 + r and |r| <= ln 2 / 2."""
    n, i = round_to_integer(f, x, _LOG2E)
    r = f.fma(n, -K.LN2[1], f.fma(n, -K.LN2[0], x))
    return r, n, i


def _exp_tail(f: FunctionBuilder, r: Value) -> Value:
    """e^r - 1 with an absolute error that is small compared to 1."""
    return f.fma(r * r, polynomial(f, r, K.EXP), r)


def exp_in_range(f: FunctionBuilder, x: Value) -> Value:
    """e^x for x in [-87, 88], where one scaling step is enough."""
    return _scaled_exp(f, x, 0)


def exp_of_negative(f: FunctionBuilder, x: Value) -> Value:
    """e^x for x <= 0. It is computed 2^24 times as large, so that the last product alone rounds to a denormal."""
    return _scaled_exp(f, at_least(f, x, -104.0), 24) * 2.0**-24


def _scaled_exp(f: FunctionBuilder, x: Value, more: int) -> Value:
    """e^x 2^more, for a normal result. With x = n ln 2 + r, the lowest bits of t are the exponent of 2^(n + more)."""
    magic = _MAGIC + 127 + more
    t = f.fma(x, _LOG2E, magic)
    n = t - magic
    r = f.fma(n, -K.LN2[1], f.fma(n, -K.LN2[0], x))
    return (_exp_tail(f, r) + 1.0) * f.bitcast(f.bitcast(t, "i32") << 23, "float")


def exp(f: FunctionBuilder, x: Value) -> Value:
    r, _, i = _reduce_exp(f, at_least(f, at_most(f, x, 89.0), -104.0))
    return scale(f, _exp_tail(f, r) + 1.0, i)


def exp2(f: FunctionBuilder, x: Value) -> Value:
    x = at_least(f, at_most(f, x, 129.0), -152.0)
    n, i = round_to_integer(f, x, 1.0)
    r = x - n
    return scale(f, f.fma(polynomial(f, r, K.EXP2), r, 1.0), i)


def _reduced_expm1(f: FunctionBuilder, x: Value) -> tuple[Value, Value, Value]:
    """p = e^r - 1 with a small relative error, and n, i of the reduction x = n ln 2 + r."""
    r, n, i = _reduce_exp(f, x)
    return f.fma(r * r, polynomial(f, r, K.EXPM1), r), n, i


def expm1(f: FunctionBuilder, x: Value) -> Value:
    p, n, i = _reduced_expm1(f, at_least(f, at_most(f, x, 89.0), -30.0))
    s = power_of_two(f, i - 1)  # half the scale: 2^128 is not a float
    u = f.fma(p, s, s - 0.5)
    return f.copysign(f.select(f.cmp("eq", n, 0.0), p, u + u), x)


def sinh(f: FunctionBuilder, x: Value) -> Value:
    """u + u / (2u + 1) with u = (e^|x| - 1) / 2; 3 ulp."""
    a = f.abs(x)
    p, n, i = _reduced_expm1(f, at_most(f, a, 89.5))
    s = power_of_two(f, i - 2)
    u = f.select(f.cmp("eq", n, 0.0), p * 0.5, f.fma(p, s, s - 0.25) * 2.0)
    v = at_most(f, u, 2.0**30)  # the quotient is 1/2 for much smaller u already, which do not overflow
    y = u + v / f.fma(v, 2.0, 1.0)
    return f.copysign(f.select(f.cmp("lt", a, 2.0**-13), a, y), x)


def cosh(f: FunctionBuilder, x: Value) -> Value:
    r, _, i = _reduce_exp(f, at_most(f, f.abs(x), 89.5))
    half = (_exp_tail(f, r) + 1.0) * power_of_two(f, i - 2) * 2.0
    return half + 0.25 / half


def tanh(f: FunctionBuilder, x: Value) -> Value:
    a, z = f.abs(x), x * x
    small = f.fma(z * polynomial(f, z, K.TANH), a, a)
    e = exp_in_range(f, at_most(f, a, 9.5) * 2.0)
    return f.copysign(f.select(f.cmp("lt", a, 0.6), small, 1.0 - 2.0 / (e + 1.0)), x)


def sigmoid(f: FunctionBuilder, x: Value) -> Value:
    """1 / (1 + e^-x). A correction term compensates the rounding of the denominator."""
    negative = f.cmp("lt", x, 0.0)
    e = exp_of_negative(f, -f.abs(x))
    d = e + 1.0
    error = e - (d - 1.0)  # d + error == 1 + e exactly
    q = f.select(negative, e, 1.0) / d
    reciprocal = f.select(negative, 1.0 - q, q)
    return f.fma(-(q * error), reciprocal, q)


def softplus(f: FunctionBuilder, x: Value) -> Value:
    """log(1 + e^x) without overflow (MXNet's softrelu); 3 ulp."""
    return f.max(x, 0.0) + log1p(f, exp_of_negative(f, -f.abs(x)))


def _log_tail(f: FunctionBuilder, y: Value) -> Value:
    """log(1+y) - y."""
    return f.fma(polynomial(f, y, K.LOG), y, -0.5) * (y * y)


def _log_core(f: FunctionBuilder, y: Value, i: Value) -> Value:
    """log((1+y) 2^i) for y in [-1/4, 1/2]."""
    p = f.fma(polynomial(f, y, K.LOG), y, -0.5)
    return f.fma(i, K.LN2[0], f.fma(p, y * y, y))


def log_edges(f: FunctionBuilder, result: Value, x: Value, pole: float) -> Value:
    """x if it is infinity or NaN; -infinity at the pole; NaN left of it."""
    result = f.select(f.cmp("lt", x, INFINITY), result, x)
    outside = f.select(f.cmp("eq", x, pole), f.const(x.type, -INFINITY), NAN)
    return f.select(f.cmp("le", x, pole), outside, result)


def _mantissa(f: FunctionBuilder, x: Value) -> tuple[Value, Value]:
    """y and i with x = (1+y) 2^i and 1+y in [3/4, 3/2), for positive finite x; i is a float."""
    tiny = f.cmp("lt", x, 2.0**-126)
    bits = f.bitcast(f.select(tiny, x * 2.0**23, x), "i32")
    e = (bits - 0x3F400000) & 0xFF800000
    i = f.cast("sitofp", e, "float") * 2.0**-23
    return f.bitcast(bits - e, "float") - 1.0, f.select(tiny, i - 23.0, i)


def log(f: FunctionBuilder, x: Value) -> Value:
    y, i = _mantissa(f, x)
    return log_edges(f, _log_core(f, y, i), x, 0.0)


def log2(f: FunctionBuilder, x: Value) -> Value:
    y, i = _mantissa(f, x)
    high, low = split(_LOG2E)
    rest = f.fma(y, low, _log_tail(f, y) * _LOG2E)
    return log_edges(f, f.fma(y, high, rest) + i, x, 0.0)


def log10(f: FunctionBuilder, x: Value) -> Value:
    y, i = _mantissa(f, x)
    (high, low), (unit, unit_low) = split(_LOG10E), split(_LOG10_2)
    rest = f.fma(i, unit_low, f.fma(y, low, _log_tail(f, y) * _LOG10E))
    return log_edges(f, f.fma(i, unit, f.fma(y, high, rest)), x, 0.0)


def log1p(f: FunctionBuilder, x: Value) -> Value:
    e = (f.bitcast(x + 1.0, "i32") - 0x3F400000) & 0xFF800000
    quarter = f.bitcast(0x40800000 - e, "float")  # 4 * 2^-i
    y = f.bitcast(f.bitcast(x, "i32") - e, "float") + f.fma(quarter, 0.25, -1.0)
    result = _log_core(f, y, f.cast("sitofp", e, "float") * 2.0**-23)
    result = f.select(f.cmp("lt", f.abs(x), 2.0**-25), x, result)  # scaling the exponent requires a normal x
    return log_edges(f, result, x, -1.0)


def asinh(f: FunctionBuilder, x: Value) -> Value:
    """log1p(a + a^2 / (1 + sqrt(1 + a^2))) with a = |x|; 3 ulp."""
    a = f.abs(x)
    big = f.cmp("gt", a, 2.0**30)
    z = a * a
    y = log1p(f, f.select(big, a, a + z / (1.0 + f.sqrt(z + 1.0))))
    return f.copysign(f.select(big, y + math.log(2.0), y), x)


def acosh(f: FunctionBuilder, x: Value) -> Value:
    """log1p(t + sqrt(2t + t^2)) with t = x - 1; 3 ulp."""
    big = f.cmp("gt", x, 2.0**30)
    t = x - 1.0
    y = log1p(f, f.select(big, x, t + f.sqrt(f.fma(t, t, t + t))))
    y = f.select(big, y + math.log(2.0), y)
    return f.select(f.cmp("lt", x, 1.0), NAN, y)


def atanh(f: FunctionBuilder, x: Value) -> Value:
    """log1p(2a / (1 - a)) / 2 with a = |x|; 3 ulp."""
    a = f.abs(x)
    y = log1p(f, (a + a) / (1.0 - a)) * 0.5
    y = f.select(f.cmp("lt", a, 2.0**-13), a, y)  # exact for denormals too
    return f.copysign(f.select(f.cmp("gt", a, 1.0), NAN, y), x)


def erf(f: FunctionBuilder, x: Value) -> Value:
    a = f.abs(x)
    small = f.fma(polynomial(f, x * x, K.ERF_SMALL), a, a)
    c = at_most(f, a, 4.0)
    large = 1.0 - exp_in_range(f, -(polynomial(f, c, K.ERF_LARGE) * c))
    return f.copysign(f.select(f.cmp("gt", a, 0.92), large, small), x)


def erfinv(f: FunctionBuilder, x: Value) -> Value:
    """x P(-log(1 - x^2)) after M. Giles, "Approximating the erfinv function" (2012); 3 ulp."""
    w = -log(f, (1.0 - x) * (1.0 + x))
    w = at_least(f, w, 0.0)
    centre = polynomial(f, at_most(f, w, 5.0) - 2.5, K.ERFINV_CENTRE)
    tail = polynomial(f, f.sqrt(w) - 3.0, K.ERFINV_TAIL)
    y = f.select(f.cmp("lt", w, 5.0), centre, tail) * x
    a = f.abs(x)
    edge = f.select(f.cmp("eq", a, 1.0), x * INFINITY, NAN)
    return f.select(f.cmp("lt", a, 1.0), y, edge)


def rsqrt(f: FunctionBuilder, x: Value) -> Value:
    """1 / sqrt(x), both operations correctly rounded; at most 1.5 ulp."""
    return 1.0 / f.sqrt(x)


def cbrt(f: FunctionBuilder, x: Value) -> Value:
    """An estimate from a third of the exponent, then two of Halley's steps, the second in double."""
    a = f.abs(x)
    tiny = f.cmp("lt", a, 2.0**-126)
    a = f.select(tiny, a * 2.0**24, a)
    third = f.cast("sitofp", f.bitcast(a, "i32"), "float") * (1.0 / 3.0)
    t = f.bitcast(f.cast("fptosi", third, "i32") + 709958130, "float")  # 5 bits (the constant of FreeBSD's cbrtf)
    t = _halley_cube_root(f, t, a)
    t = f.cast("fptrunc", _halley_cube_root(f, f.cast("fpext", t, "double"), f.cast("fpext", a, "double")), "float")
    t = f.select(tiny, t * 2.0**-8, t)
    ordinary = f.cmp("ogt", a, 0.0) & f.cmp("olt", a, INFINITY)
    return f.select(ordinary, f.copysign(t, x), x)


def _halley_cube_root(f: FunctionBuilder, t: Value, a: Value) -> Value:
    """t (2a + t^3) / (a + 2t^3), with all terms divided by 4 against overflow."""
    r, a = t * t * (t * 0.25), a * 0.25
    return t * ((a + a + r) / (a + r + r))


def floor(f: FunctionBuilder, x: Value) -> Value:
    return f.intrinsic("floor", x.type, x)


def ceil(f: FunctionBuilder, x: Value) -> Value:
    return f.intrinsic("ceil", x.type, x)


def trunc(f: FunctionBuilder, x: Value) -> Value:
    """Towards zero (MXNet's fix and trunc)."""
    return f.intrinsic("trunc", x.type, x)


def rint(f: FunctionBuilder, x: Value) -> Value:
    """To the nearest integer, halves to even."""
    return f.intrinsic("roundeven", x.type, x)


def round(f: FunctionBuilder, x: Value) -> Value:
    """To the nearest integer, halves away from zero."""
    below_half = 0.5 - 2.0 ** (
        -25 if x.type.element == "float" else -54
    )  # the largest number below 1/2: so 0.49999997 gives 0
    return trunc(f, x + f.copysign(below_half, x))


__all__ = ["INFINITY", "NAN", "at_least", "at_most", "polynomial", "power_of_two", "scale", "split"]
