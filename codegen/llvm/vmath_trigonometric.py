"""Float32 sin, cos, tan and their inverses, written over any number of lanes.

Angles up to 65536 are reduced by pi/2 in three float32 parts (Cody and Waite with fma). For larger angles a cold
function does the exact reduction of Payne and Hanek (1983) with 96 bits of 1/(2 pi); it is called only if a lane needs
it. Errors are at most 2 ulp unless a docstring gives another bound. There are no library calls.
"""

from __future__ import annotations

import math

from . import vmath_coefficients as K
from .arithmetic import Value
from .emitter import FunctionBuilder, ModuleBuilder
from .types import I32, Type
from .vmath_elementary import INFINITY, NAN, polynomial, round_to_integer

_FAST_LIMIT = 65536.0
_SIGN = 0x80000000
_HALF_PI_LOW = K.HALF_PI[1]


def _huge_reduction(f: FunctionBuilder, a: Value) -> tuple[Value, Value]:
    """Payne-Hanek reduction of a = |x|: the angle in [-pi/4, pi/4] and the quadrant (i32). Lanes with a small a are
    meaningless.
    """
    bits = f.bitcast(
        f.select(f.cmp("ugt", a, _FAST_LIMIT), a, _FAST_LIMIT), "i32"
    )  # lanes with small values must not index the table
    mantissa = f.cast("zext", ((bits & 0x7FFFFF) << 8) | 0x80000000, "i64")
    exponent = (f.lshr(bits, 23) & 0xFF) - 126
    word, shift = f.lshr(exponent, 5), f.cast("zext", exponent & 31, "i64")
    table = f.table(I32, [0, *K.INV_TWO_PI, 0, 0])
    words = [f.cast("zext", f.gather(table, word + j, I32), "i64") for j in range(4)]
    window = [f.lshr(((words[j] << 32) | words[j + 1]) << shift, 32) for j in range(3)]
    product = f.lshr(mantissa * window[2], 32) + mantissa * window[1] + ((mantissa * window[0]) << 32)
    quadrant = f.lshr(product + (1 << 61), 62)
    fraction = f.cast("sitofp", product - (quadrant << 62), "double") * (math.pi / 2 / 2**62)
    return f.cast("fptrunc", fraction, "float"), f.cast("trunc", quadrant, "i32")


def _huge_reduction_symbol(module: ModuleBuilder, type: Type) -> str:
    """The symbol of the cold function, from float lanes to twice as many i32 lanes (bits of angles, then quadrants)."""
    name = f"vm.huge_angle.v{type.lanes}"
    if not module.has_function(name):
        f = module.function(
            name,
            I32.with_lanes(2 * type.lanes),
            [("x", type, "")],
            linkage="internal",
            attributes="nounwind noinline cold",
        )
        angle, quadrant = _huge_reduction(f, f.args[0])
        f.ret(f.concat(f.bitcast(angle, "i32"), quadrant))
    return "@" + name


def _reduce_angle(f: FunctionBuilder, a: Value) -> tuple[Value, Value]:
    """a = |x| as an angle in [-pi/4, pi/4] and the number of quarter turns subtracted (i32; only its low two bits are
    valid)."""
    n, i = round_to_integer(f, a, 2.0 / math.pi)
    r = a
    for part in K.HALF_PI:
        r = f.fma(n, -part, r)
    huge = f.cmp("gt", a, _FAST_LIMIT)

    def slow() -> tuple[Value, Value]:
        both = f.call(_huge_reduction_symbol(f.module, a.type), I32.with_lanes(2 * a.type.lanes), a)
        angle = f.bitcast(f.slice_lanes(both, 0, a.type.lanes), "float")
        quadrant = f.slice_lanes(both, a.type.lanes, a.type.lanes)
        return f.select(huge, angle, r), f.select(huge, quadrant, i)

    angle, quadrant = f.branch(f.any(huge), slow, lambda: (r, i), unlikely=True)
    return angle, quadrant


def _sine_and_cosine(f: FunctionBuilder, r: Value) -> tuple[Value, Value]:
    z = r * r
    sine = f.fma(r * z, polynomial(f, z, K.SIN), r)
    return sine, f.fma(z * z, polynomial(f, z, K.COS), f.fma(z, -0.5, 1.0))


def _finite_or_nan(f: FunctionBuilder, a: Value, y: Value) -> Value:
    return f.select(f.cmp("lt", a, INFINITY), y, NAN)


def _sin_of_quadrant(f: FunctionBuilder, r: Value, q: Value) -> Value:
    """sin(r + q pi/2) as bits."""
    sine, cosine = _sine_and_cosine(f, r)
    y = f.select(f.cmp("ne", q & 1, 0), cosine, sine)
    return f.bitcast(y, "i32") ^ ((q & 2) << 30)


def sin(f: FunctionBuilder, x: Value) -> Value:
    a = f.abs(x)
    r, q = _reduce_angle(f, a)
    bits = _sin_of_quadrant(f, r, q) ^ (f.bitcast(x, "i32") & _SIGN)
    return _finite_or_nan(f, a, f.bitcast(bits, "float"))


def cos(f: FunctionBuilder, x: Value) -> Value:
    a = f.abs(x)
    r, q = _reduce_angle(f, a)
    return _finite_or_nan(f, a, f.bitcast(_sin_of_quadrant(f, r, q + 1), "float"))


def tan(f: FunctionBuilder, x: Value) -> Value:
    """sin / cos, or -cos / sin in odd quadrants; 4 ulp."""
    a = f.abs(x)
    r, q = _reduce_angle(f, a)
    sine, cosine = _sine_and_cosine(f, r)
    odd = f.cmp("ne", q & 1, 0)
    y = f.select(odd, -cosine, sine) / f.select(odd, sine, cosine)
    y = f.select(f.cmp("lt", a, 2.0**-13), a, y)
    bits = f.bitcast(y, "i32") ^ (f.bitcast(x, "i32") & _SIGN)
    return _finite_or_nan(f, a, f.bitcast(bits, "float"))


def _atan_core(f: FunctionBuilder, t: Value) -> Value:
    """atan(t) for 0 <= t <= 1."""
    z = t * t
    return f.fma(z * polynomial(f, z, K.ATAN), t, t)


def atan(f: FunctionBuilder, x: Value) -> Value:
    a = f.abs(x)
    large = f.cmp("gt", a, 1.0)
    y = _atan_core(f, f.select(large, 1.0 / a, a))
    return f.copysign(f.select(large, K.HALF_PI[0] - (y - _HALF_PI_LOW), y), x)


def atan2(f: FunctionBuilder, y: Value, x: Value) -> Value:
    """The angle of the point (x, y), with quadrants and signed zeros as in C; 4 ulp."""
    across, up = f.abs(x), f.abs(y)
    steep = f.cmp("gt", up, across)
    small, large = f.select(steep, across, up), f.select(steep, up, across)
    ratio = f.select(f.cmp("eq", large, 0.0), 0.0, small / large)
    ratio = f.select(f.cmp("eq", small, INFINITY), 1.0, ratio)  # both infinite: the diagonal
    t = _atan_core(f, ratio)
    t = f.select(steep, K.HALF_PI[0] - (t - _HALF_PI_LOW), t)
    left = f.cmp("lt", f.bitcast(x, "i32"), 0)  # by the sign bit, which -0 has
    t = f.select(left, 2 * K.HALF_PI[0] - (t - 2 * _HALF_PI_LOW), t)
    t = f.select(f.cmp("uno", x, y), NAN, t)
    return f.copysign(t, y)


def _asin_core(f: FunctionBuilder, t: Value, z: Value) -> Value:
    """asin(t) for 0 <= t <= 1/2, z = t^2."""
    return f.fma(z * polynomial(f, z, K.ASIN), t, t)


def _asin_parts(f: FunctionBuilder, a: Value) -> tuple[Value, Value]:
    """(over, p): over is a > 1/2 with a = |x|; p is asin(a), or if over asin(sqrt((1 - a) / 2)), twice which is
    acos(a)."""
    over = f.cmp("gt", a, 0.5)
    half_rest = f.fma(a, -0.5, 0.5)
    return over, _asin_core(f, f.select(over, f.sqrt(half_rest), a), f.select(over, half_rest, a * a))


def asin(f: FunctionBuilder, x: Value) -> Value:
    """NaN outside [-1, 1]."""
    over, p = _asin_parts(f, f.abs(x))
    return f.copysign(f.select(over, K.HALF_PI[0] - (p + p - _HALF_PI_LOW), p), x)


def acos(f: FunctionBuilder, x: Value) -> Value:
    """NaN outside [-1, 1]."""
    over, p = _asin_parts(f, f.abs(x))
    twice, negative = p + p, f.cmp("lt", x, 0.0)
    outer = f.select(negative, 2 * K.HALF_PI[0] - (twice - 2 * _HALF_PI_LOW), twice)
    inner = K.HALF_PI[0] - (f.select(negative, -p, p) - _HALF_PI_LOW)
    return f.select(over, outer, inner)
