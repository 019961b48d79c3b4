"""bfloat16 rounding and special functions that NumPy lacks: erf, gamma and others, in float64; Philox."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def round_bfloat16(x: Array) -> Array:
    """A float32 array rounded to the nearest bfloat16 (ties to even), as float32."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    rounded = (bits + (0x7FFF + ((bits >> 16) & 1)).astype(np.uint32)) & np.uint32(0xFFFF0000)
    return np.where(np.isnan(x), x, rounded.view(np.float32).reshape(np.shape(x))).astype(np.float32)


def to_integers(x: Array, dtype: Any) -> Array:
    """Floats truncated towards zero, as processors convert them: through int32 to int32 and narrower integers, else
    through int64. What is outside of its range becomes its lowest number. The result is its low bits."""
    dtype = np.dtype(dtype)
    bound = 2.0**31 if dtype == np.int32 or dtype.itemsize < 4 else 2.0**63
    wide = np.asarray(x, np.float64)
    inside = np.abs(wide) < bound
    return np.where(inside, np.where(inside, wide, 0).astype(np.int64), np.int64(-bound)).astype(dtype)


def _each(function: Callable[[float], float], x: Array) -> Array:
    values = np.asarray(x, np.float64)
    return np.fromiter(map(function, values.ravel().tolist()), np.float64, values.size).reshape(values.shape)


def erf(x: Array) -> Array:
    return _each(math.erf, x)


def lgamma(x: Array) -> Array:
    """log |gamma(x)|; infinite at the poles."""
    return _each(_lgamma, x)


def _lgamma(x: float) -> float:
    try:
        return math.lgamma(x)
    except (ValueError, OverflowError):
        return math.inf


def gamma(x: Array) -> Array:
    """gamma(x); NaN at negative integers, infinite at zero and on overflow."""
    return _each(_gamma, x)


def _gamma(x: float) -> float:
    if x == 0:
        return math.copysign(math.inf, x)
    try:
        return math.gamma(x)
    except OverflowError:
        return math.inf
    except ValueError:
        return math.nan


def digamma(x: Array) -> Array:
    """The logarithmic derivative of gamma; infinite at its poles and at +-infinity, as in MXNet.

    Reflection for x < 0.5, recurrence up to 10, then the asymptotic series (Abramowitz, Stegun 6.3.7, 6.3.5, 6.3.18).
    """
    return _each(_digamma, x)


def _digamma(x: float) -> float:
    if math.isinf(x) or (x <= 0 and x == math.floor(x)):
        return math.inf
    if x < 0.5:
        return _digamma(1 - x) - math.pi / math.tan(math.pi * x)
    shift = 0.0
    while x < 10:
        shift -= 1 / x
        x += 1
    r = 1 / (x * x)
    series = r * (1 / 12 - r * (1 / 120 - r * (1 / 252 - r * (1 / 240 - r * (1 / 132 - r * (691 / 32760 - r / 12))))))
    return shift + math.log(x) - 0.5 / x - series


def erfinv(x: Array) -> Array:
    """The inverse of erf; infinite at -1 and 1, NaN outside."""
    return _each(_erfinv, x)


def _erfinv(y: float) -> float:
    """Giles' single-precision polynomial (2010, "Approximating the erfinv function"), refined by Halley's method."""
    if not -1 < y < 1:
        return math.copysign(math.inf, y) if abs(y) == 1 else math.nan
    w = -math.log((1 - y) * (1 + y))
    table, w = (_CENTRAL, w - 2.5) if w < 5 else (_TAIL, math.sqrt(w) - 3)
    p = 0.0
    for c in table:
        p = c + p * w
    x = p * y
    sign = math.copysign(1, y)
    for _ in range(3):
        error = math.erf(x) - y if abs(y) < 0.5 else sign * ((1 - abs(y)) - math.erfc(abs(x)))
        step = error / (2 / math.sqrt(math.pi) * math.exp(-x * x))
        x -= step / (1 + x * step)
    return x


_CENTRAL = (
    2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
    -0.00125372503, -0.00417768164, 0.246640727, 1.50140941,
)  # fmt: skip
_TAIL = (
    -0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
    -0.0076224613, 0.00943887047, 1.00167406, 2.83297682,
)  # fmt: skip


def philox(counters: Array, key: tuple[int, int]) -> Array:
    """Philox4x32-10 of uint32 counters [n, 4] -> uint32 [n, 4].

    Source: Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3".
    """
    c0, c1, c2, c3 = (counters[:, i].astype(np.uint64) for i in range(4))
    k0, k1 = key
    low = np.uint64(0xFFFFFFFF)
    for _ in range(10):
        p0, p1 = c0 * np.uint64(0xD2511F53), c2 * np.uint64(0xCD9E8D57)
        c0, c1, c2, c3 = (
            (p1 >> np.uint64(32)) ^ c1 ^ np.uint64(k0),
            p1 & low,
            (p0 >> np.uint64(32)) ^ c3 ^ np.uint64(k1),
            p0 & low,
        )
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return np.stack([c0, c1, c2, c3], axis=1).astype(np.uint32)
