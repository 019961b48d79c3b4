"""Float64 exponentials, logarithms and hyperbolic functions, written over any number of lanes.

They have no branches, library calls or fast-math, so each target computes the same numbers. Errors are at most 2 ulp
unless a docstring gives another bound. Polynomials are truncated Taylor series, whose rests are below 2^-58 of the
result.
"""

from __future__ import annotations

import math

from .arithmetic import Value
from .emitter import FunctionBuilder
from .vmath_elementary import at_least, at_most, log_edges, polynomial, split

_MAGIC = 1.5 * 2.0**52  # adding it rounds to an integer, which is then in the low bits
_MAGIC_BITS = 0x4338000000000000
_BIAS, _FRACTION = 1023, 52
_LN2 = float.fromhex("0x1.62e42feep-1"), float.fromhex("0x1.a39ef35793c76p-33")  # the first has 32 bits
_LOG2E, _LOG10E, _LOG10_2 = 1.4426950408889634, 0.4342944819032518, 0.3010299956639812

_EXP = tuple(1 / math.factorial(k) for k in range(2, 14))
"""(e^r - 1 - r) / r^2 on |r| <= ln 2 / 2."""

_ATANH = tuple(2 / (2 * k + 1) for k in range(1, 12))
"""(log((1 + s) / (1 - s)) - 2 s) / s^3 in s^2, on |s| <= 1/5."""


def _power_of_two(f: FunctionBuilder, i: Value) -> Value:
    """2^i for the i64 i in [-1022, 1023]."""
    return f.bitcast((i + _BIAS) << _FRACTION, "double")


def _nearest(f: FunctionBuilder, x: Value, scale: float) -> tuple[Value, Value]:
    """n = round(x * scale) as double and as i64, for |n| < 2^51."""
    t = f.fma(x, scale, _MAGIC)
    return t - _MAGIC, f.bitcast(t, "i64") - _MAGIC_BITS


def _scale(f: FunctionBuilder, x: Value, i: Value) -> Value:
    """x * 2^i in two steps, so that results can be denormal and overflow gives infinity."""
    half = f.ashr(i, 1)
    return x * _power_of_two(f, half) * _power_of_two(f, i - half)


def _tail(f: FunctionBuilder, r: Value) -> Value:
    """e^r - 1."""
    return f.fma(r * r, polynomial(f, r, _EXP), r)


def _reduced(f: FunctionBuilder, x: Value) -> tuple[Value, Value, Value]:
    """e^r - 1, and n as double and as i64, with x = n ln 2 + r and |r| <= ln 2 / 2."""
    n, i = _nearest(f, x, _LOG2E)
    return _tail(f, f.fma(n, -_LN2[1], f.fma(n, -_LN2[0], x))), n, i


def exp(f: FunctionBuilder, x: Value) -> Value:
    p, _, i = _reduced(f, at_least(f, at_most(f, x, 710.0), -746.0))
    return _scale(f, p + 1.0, i)


def exp2(f: FunctionBuilder, x: Value) -> Value:
    x = at_least(f, at_most(f, x, 1025.0), -1076.0)
    n, i = _nearest(f, x, 1.0)
    return _scale(f, _tail(f, (x - n) * math.log(2)) + 1.0, i)


def expm1(f: FunctionBuilder, x: Value) -> Value:
    p, n, i = _reduced(f, at_least(f, at_most(f, x, 710.0), -60.0))
    s = _power_of_two(f, i - 1)  # half the scale: 2^1024 is not a double
    u = f.fma(p, s, s - 0.5)
    return f.copysign(f.select(f.cmp("eq", n, 0.0), p, u + u), x)


def sinh(f: FunctionBuilder, x: Value) -> Value:
    """u + u / (2u + 1) with u = (e^|x| - 1) / 2; 3 ulp."""
    p, n, i = _reduced(f, at_most(f, f.abs(x), 710.5))
    s = _power_of_two(f, i - 2)
    u = f.select(f.cmp("eq", n, 0.0), p * 0.5, f.fma(p, s, s - 0.25) * 2.0)
    v = at_most(f, u, 2.0**60)  # the quotient is 1/2 for much smaller u already, which do not overflow
    return f.copysign(u + v / f.fma(v, 2.0, 1.0), x)


def cosh(f: FunctionBuilder, x: Value) -> Value:
    p, _, i = _reduced(f, at_most(f, f.abs(x), 710.5))
    half = (p + 1.0) * _power_of_two(f, i - 2) * 2.0
    return half + 0.25 / half


def tanh(f: FunctionBuilder, x: Value) -> Value:
    """t / (t + 2) with t = e^(2|x|) - 1; 3 ulp."""
    t = expm1(f, at_most(f, f.abs(x), 22.0) * 2.0)
    return f.copysign(t / (t + 2.0), x)


def sigmoid(f: FunctionBuilder, x: Value) -> Value:
    e = exp(f, -f.abs(x))
    return f.select(f.cmp("lt", x, 0.0), e, 1.0) / (e + 1.0)


def softplus(f: FunctionBuilder, x: Value) -> Value:
    """log(1 + e^x) without overflow (MXNet's softrelu); 3 ulp."""
    return f.max(x, 0.0) + log1p(f, exp(f, -f.abs(x)))


def _exponent(f: FunctionBuilder, x: Value) -> tuple[Value, Value]:
    """i with x = m 2^i and m in [3/4, 3/2), as i64 and as double, for positive normal x."""
    biased = f.lshr(f.bitcast(x, "i64") - 0x3FE8000000000000 + (1024 << _FRACTION), _FRACTION)
    return biased - 1024, f.bitcast(biased + _MAGIC_BITS, "double") - (_MAGIC + 1024.0)


def _mantissa(f: FunctionBuilder, x: Value) -> tuple[Value, Value]:
    """y and i with x = (1+y) 2^i and 1+y in [3/4, 3/2), for positive finite x; i is a double."""
    tiny = f.cmp("lt", x, 2.0**-1022)
    x = f.select(tiny, x * 2.0**54, x)
    i, n = _exponent(f, x)
    return f.bitcast(f.bitcast(x, "i64") - (i << _FRACTION), "double") - 1.0, f.select(tiny, n - 54.0, n)


def _log_rest(f: FunctionBuilder, y: Value) -> tuple[Value, Value]:
    """h and c with log(1+y) = y - (h - c): h = y^2 / 2. With s = y / (2+y), log(1+y) = 2s + s^3 R(s^2) and
    2s = y - h + s h."""
    s, h = y / (y + 2.0), y * y * 0.5
    z = s * s
    return h, s * f.fma(z, polynomial(f, z, _ATANH), h)


def _log_core(f: FunctionBuilder, y: Value, i: Value) -> Value:
    """log((1+y) 2^i) for y in [-1/4, 1/2]."""
    h, c = _log_rest(f, y)
    return f.fma(i, _LN2[0], y - (h - f.fma(i, _LN2[1], c)))


def log(f: FunctionBuilder, x: Value) -> Value:
    y, i = _mantissa(f, x)
    return log_edges(f, _log_core(f, y, i), x, 0.0)


def log1p(f: FunctionBuilder, x: Value) -> Value:
    i, n = _exponent(f, x + 1.0)
    quarter = f.bitcast((f.const(i.type, _BIAS + 2) - i) << _FRACTION, "double")  # 4 * 2^-i
    y = f.fma(x * quarter, 0.25, f.fma(quarter, 0.25, -1.0))
    result = f.select(f.cmp("lt", f.abs(x), 2.0**-54), x, _log_core(f, y, n))
    return log_edges(f, result, x, -1.0)


def log2(f: FunctionBuilder, x: Value) -> Value:
    y, i = _mantissa(f, x)
    return log_edges(f, _in_base(f, y, _LOG2E) + i, x, 0.0)


def log10(f: FunctionBuilder, x: Value) -> Value:
    y, i = _mantissa(f, x)
    unit, rest = split(_LOG10_2)
    return log_edges(f, f.fma(i, unit, f.fma(i, rest, _in_base(f, y, _LOG10E))), x, 0.0)


def _in_base(f: FunctionBuilder, y: Value, factor: float) -> Value:
    """log(1+y) * factor."""
    h, c = _log_rest(f, y)
    high, low = split(factor)
    return f.fma(y, high, f.fma(y, low, (c - h) * factor))
