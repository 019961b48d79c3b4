"""Float64 math: exponentials and logarithms over all lanes (`vmath_double_elementary.py`), and libm's functions lane by
lane.

The loader resolves the names (`erf`, `tgamma`, ...) in the C library.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from . import vmath_double_elementary as elementary
from .arithmetic import Value
from .emitter import FunctionBuilder
from .types import F64
from .vmath_elementary import INFINITY, NAN, round
from .vmath_special import mod_signs

DoubleFunction = Callable[..., Value]


def per_lane(f: FunctionBuilder, name: str, *operands: Value) -> Value:
    """libm's function `name` on each lane of the double operands."""
    symbol = f.module.declare(name, F64, [F64] * len(operands))
    type = operands[0].type
    if type.lanes == 1:
        return f.call(symbol, F64, *operands)
    result = f.const(type, 0.0)
    for lane in range(type.lanes):
        scalar = f.call(symbol, F64, *[f.extract(x, lane) for x in operands])
        result = f.insert(result, scalar, lane)
    return result


def _libm(name: str) -> DoubleFunction:
    def emit(f: FunctionBuilder, *operands: Value) -> Value:
        return per_lane(f, name, *operands)

    return emit


def _rounding(intrinsic: str) -> DoubleFunction:
    def emit(f: FunctionBuilder, x: Value) -> Value:
        return f.intrinsic(intrinsic, x.type, x)

    return emit


def _rsqrt(f: FunctionBuilder, x: Value) -> Value:
    return 1.0 / f.sqrt(x)


def _mod(f: FunctionBuilder, x: Value, y: Value) -> Value:
    return mod_signs(f, x, y, per_lane(f, "fmod", x, y))


def _erfinv(f: FunctionBuilder, x: Value) -> Value:
    """Winitzki's closed formula (2008, error 2e-3), then three of Halley's steps, on erf near 0 and on erfc in the
    tail, where it is exact.
    """
    a = f.abs(x)
    logarithm = elementary.log(f, (1.0 - a) * (a + 1.0))
    k = 0.147
    half = logarithm * 0.5 + 2.0 / (math.pi * k)
    y = f.sqrt(f.sqrt(half * half - logarithm * (1.0 / k)) - half)
    y = f.select(f.cmp("gt", y, 0.0), y, a)  # the formula has no correct digit for tiny x, where erfinv(x) ~ 0.89 x
    for _ in range(3):
        central = per_lane(f, "erf", y) - a
        tail = (1.0 - a) - per_lane(f, "erfc", y)
        error = f.select(f.cmp("lt", a, 0.5), central, tail)
        slope = elementary.exp(f, -(y * y)) * (2.0 / math.sqrt(math.pi))
        step = error / slope
        y = y - step / f.fma(y, step, 1.0)
    y = f.select(f.cmp("lt", a, 1.0), y, f.select(f.cmp("eq", a, 1.0), a * INFINITY, NAN))
    return f.copysign(y, x)


_LIBM_NAMES = {
    "gamma": "tgamma",
    **{
        name: name
        for name in (
            *("erf", "sin", "cos", "pow", "cbrt", "tan", "asin", "acos", "atan", "asinh", "acosh", "atanh"),
            *("lgamma", "atan2", "hypot"),
        )
    },
}

DOUBLE_FUNCTIONS: dict[str, DoubleFunction] = {
    **{name: _libm(symbol) for name, symbol in _LIBM_NAMES.items()},
    "floor": _rounding("floor"),
    "ceil": _rounding("ceil"),
    "trunc": _rounding("trunc"),
    "rint": _rounding("roundeven"),
    "round": round,
    "rsqrt": _rsqrt,
    **{
        name: getattr(elementary, name)
        for name in (
            *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p"),
            *("sinh", "cosh", "tanh", "sigmoid", "softplus"),
        )
    },
    "mod": _mod,
    "erfinv": _erfinv,
}
