"""Float32 functions that compute in double: pow, gamma, lgamma, mod and hypot.

Lanes are widened, computed with errors far below those of a float32, and rounded once. There are no library calls.
Polynomials with float32 coefficients (EXP2) have errors of 3e-9, 0.05 ulp, also when evaluated in double.
"""

from __future__ import annotations

import math

from . import vmath_coefficients as K
from .arithmetic import Value
from .emitter import FunctionBuilder
from .vmath_elementary import INFINITY, NAN, at_least, at_most, polynomial, scale

_MAGIC = 6755399441055744.0  # 1.5 * 2^52: the number of `vmath_elementary` for doubles


def _wide(f: FunctionBuilder, x: Value) -> Value:
    return f.cast("fpext", x, "double")


def _narrow(f: FunctionBuilder, x: Value) -> Value:
    return f.cast("fptrunc", x, "float")


def _log2(f: FunctionBuilder, x: Value) -> Value:
    """log2 of positive, normal, finite doubles; error 1.2e-11 of log2(m) + e."""
    bits = f.bitcast(x, "i64")
    e = f.lshr(bits - 0x3FE6A09E667F3BCD + (2048 << 52), 52)  # the exponent for m in [sqrt 1/2, sqrt 2), plus 2048
    m = f.bitcast(bits - ((e - 2048) << 52), "double")
    exponent = f.bitcast(e | 0x4330000000000000, "double") - (2.0**52 + 2048)
    s = (m - 1.0) / (m + 1.0)
    return f.fma(s, polynomial(f, s * s, K.LOG2_ATANH), exponent)


def _split_exponent(f: FunctionBuilder, t: Value) -> tuple[Value, Value]:
    """(r, n as i64) with t = n + r and |r| <= 1/2."""
    u = t + _MAGIC
    return t - (u - _MAGIC), f.bitcast(u, "i64") - 0x4338000000000000


def _exp2(f: FunctionBuilder, t: Value) -> Value:
    """2^t in double for |t| < 1000."""
    r, n = _split_exponent(f, t)
    power = f.bitcast((n + 1023) << 52, "double")
    return f.fma(polynomial(f, r, K.EXP2), r, 1.0) * power


def pow(f: FunctionBuilder, x: Value, y: Value) -> Value:
    """x^y with C's special cases: log2 in double, 2^t in float32; 1 ulp."""
    a = f.abs(x)
    logarithm = _log2(f, _wide(f, a))  # denormals become normal doubles
    logarithm = f.select(f.cmp("eq", a, 0.0), -INFINITY, logarithm)
    logarithm = f.select(f.cmp("lt", a, INFINITY), logarithm, _wide(f, a))
    t = at_least(f, at_most(f, logarithm * _wide(f, y), 130.0), -152.0)
    r, n = _split_exponent(f, t)
    fraction = _narrow(f, r)
    result = scale(f, f.fma(polynomial(f, fraction, K.EXP2), fraction, 1.0), f.cast("trunc", n, "i32"))
    result = f.select(f.cmp("eq", a, 1.0), f.select(f.is_nan(y), y, 1.0), result)
    result = _signed_power(f, result, x, y)
    return f.select(f.cmp("eq", y, 0.0) | f.cmp("eq", x, 1.0), 1.0, result)


def _signed_power(f: FunctionBuilder, result: Value, x: Value, y: Value) -> Value:
    """|x|^y with the sign of x if y is an odd integer; NaN for a finite negative x and a fractional y."""
    floor_y, half_y = f.intrinsic("floor", y.type, y), y * 0.5
    odd = f.cmp("eq", floor_y, y) & f.cmp("une", f.intrinsic("floor", y.type, half_y), half_y)
    signed = f.bitcast(f.bitcast(result, "i32") ^ (f.bitcast(x, "i32") & 0x80000000), "float")
    undefined = f.cmp("lt", x, 0.0) & f.cmp("gt", x, -INFINITY) & f.cmp("one", floor_y, y)
    return f.select(undefined, NAN, f.select(odd, signed, result))


def _sin_pi(f: FunctionBuilder, x: Value) -> tuple[Value, Value]:
    """(sin(pi r), n) with r = x - n and n the integer nearest to x. Doubles."""
    n = f.intrinsic("roundeven", x.type, x)
    r = x - n
    return r * polynomial(f, r * r, K.SINPI), n


def _log2_stirling(f: FunctionBuilder, z: Value) -> Value:
    """log2 of gamma(z) for z >= 8: Stirling's series to 1/z^7 (Abramowitz and Stegun 6.1.41), error under 1e-11."""
    w = 1.0 / z
    series = w * polynomial(f, w * w, (1 / 12, -1 / 360, 1 / 1260, -1 / 1680))
    rest = (series + 0.5 * math.log(2 * math.pi)) - z
    return f.fma(z - 0.5, _log2(f, z), rest * (1 / math.log(2)))


def _rising(f: FunctionBuilder, x: Value, count: int) -> Value:
    """x (x+1) ... (x+count-1)."""
    product = x
    for k in range(1, count):
        product = product * (x + float(k))
    return product


def gamma(f: FunctionBuilder, x: Value) -> Value:
    """Stirling's series, after a shift by 8 below 8 and reflection left of 1/2; 1 ulp. Infinite at +-0, NaN at negative
    integers."""
    d = _wide(f, x)
    mirrored = f.cmp("lt", d, 0.5)
    a = at_most(f, f.select(mirrored, 1.0 - d, d), 100.0)  # float32 overflows beyond 36 and underflows beyond -44
    shifted = f.cmp("lt", a, 8.0)
    z = f.select(shifted, a + 8.0, a)
    value = _exp2(f, _log2_stirling(f, z)) / f.select(shifted, _rising(f, a, 8), 1.0)
    sine, n = _sin_pi(f, d)
    odd = f.cmp("ne", n * 0.5, f.intrinsic("floor", n.type, n * 0.5))
    y = f.select(mirrored, math.pi / (f.select(odd, -sine, sine) * value), value)
    y = f.select(f.cmp("eq", n, d) & f.cmp("lt", d, 0.0), NAN, y)
    y = f.select(f.cmp("eq", d, 0.0), 1.0 / d, y)
    return _narrow(f, f.select(f.cmp("eq", d, INFINITY), d, y))


def lgamma(f: FunctionBuilder, x: Value) -> Value:
    """log |gamma(x)|; 1 ulp for x > 0, including near the zeros 1 and 2. Near zeros left of 0 only the absolute error
    is small.
    """
    d = _wide(f, x)
    negative = f.cmp("lt", d, 0.0)
    y = _lgamma_positive(f, f.abs(d))

    def reflect() -> tuple[Value]:
        sine, n = _sin_pi(f, d)
        safe = f.select(f.cmp("eq", sine, 0.0) | f.cmp("eq", d, -INFINITY), 1.0, f.abs(sine * d))
        mirrored = _log2(f, math.pi / safe) * math.log(2) - y
        mirrored = f.select(f.cmp("eq", n, d), INFINITY, mirrored)  # poles, and every float beyond -2^23
        return (f.select(negative, mirrored, y),)

    (y,) = f.branch(f.any(negative), reflect, lambda: (y,))
    return _narrow(f, y)


def _lgamma_positive(f: FunctionBuilder, a: Value) -> Value:
    """lgamma for a >= 0 in double: a polynomial on [1, 3], one step of the recurrence below, Stirling's series
    above."""
    low, central, shifted = f.cmp("lt", a, 1.0), f.cmp("lt", a, 3.0), f.cmp("lt", a, 8.0)
    y = f.select(low, a + 1.0, a) - 2.0
    near = y * (y + 1.0) * polynomial(f, f.select(central, y, 0.0), K.LGAMMA)
    z = f.select(shifted, a + 5.0, a)
    far = _log2_stirling(f, f.select(f.cmp("lt", z, INFINITY), z, 8.0)) * math.log(2)
    factor = f.select(low, a, f.select(central, 1.0, f.select(shifted, _rising(f, a, 5), 1.0)))
    safe = f.select(f.cmp("gt", factor, 0.0), factor, 1.0)
    result = f.select(central, near, far) - _log2(f, safe) * math.log(2) + 0.0  # lgamma(1) is +0
    result = f.select(f.cmp("eq", a, 0.0), INFINITY, result)
    return f.select(f.cmp("lt", a, INFINITY), result, a)


def mod(f: FunctionBuilder, x: Value, y: Value) -> Value:
    """The remainder with the divisor's sign, 0 for a zero divisor (MXNet's mod); exact, like fmod.

    A pass subtracts trunc(r/y) y in double: the quotient has 53 bits and y 24, so the remainder is exactly a double.
    Quotients above 2^53 need more passes, at most six; nearly always one is enough.
    """
    dividend, signed_divisor = _wide(f, x), _wide(f, y)
    divisor = f.abs(signed_divisor)
    usable = f.cmp("gt", divisor, 0.0) & f.cmp("lt", divisor, INFINITY) & f.cmp("lt", f.abs(dividend), INFINITY)
    b = f.select(usable, divisor, 1.0)
    start = f.select(usable, dividend, 0.0)

    def unfinished(r: Value) -> Value:
        return f.any(f.cmp("ge", f.abs(r), b))

    def one_pass(r: Value) -> tuple[Value]:
        return (f.fma(-f.intrinsic("trunc", r.type, r / b), b, r),)

    (r,) = f.while_loop([start], unfinished, one_pass)
    remainder = f.select(usable, r, _mod_of_special(f, dividend, divisor))
    return _narrow(f, mod_signs(f, dividend, signed_divisor, remainder))


def _mod_of_special(f: FunctionBuilder, x: Value, divisor: Value) -> Value:
    """fmod for special operands: x if the divisor is infinite; NaN if either is NaN or x is infinite."""
    finite = f.cmp("lt", f.abs(x), INFINITY) & f.cmp("eq", divisor, INFINITY)
    return f.select(finite, x, NAN)


def mod_signs(f: FunctionBuilder, x: Value, y: Value, remainder: Value) -> Value:
    """fmod(x, y), plus y if the signs differ, so that it has the divisor's sign; 0 where y is 0."""
    differ = (f.cmp("lt", remainder, 0.0) ^ f.cmp("lt", y, 0.0)) & f.cmp("one", remainder, 0.0)
    moved = f.select(differ, remainder + y, remainder)
    return f.select(f.cmp("eq", y, 0.0), 0.0, moved)


def hypot(f: FunctionBuilder, x: Value, y: Value) -> Value:
    """sqrt(x^2 + y^2) without overflow, rounded once; infinite if either is."""
    a, b = _wide(f, x), _wide(f, y)
    result = _narrow(f, f.sqrt(f.fma(a, a, b * b)))
    infinite = f.cmp("eq", f.abs(x), INFINITY) | f.cmp("eq", f.abs(y), INFINITY)
    return f.select(infinite, INFINITY, result)
