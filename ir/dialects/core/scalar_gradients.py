"""The derivatives of scalar operations.

Each takes (builder, cotangent, result, *operands) and returns a cotangent or None for each operand. Ties of MAX and MIN
and the derivatives of MOD follow MXNet: the first operand of a tie gets the cotangent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ...graph import Value
from ...scalar import ScalarOp

if TYPE_CHECKING:
    from .builder import CoreBuilder

Gradient = Callable[..., Sequence[Value | None]]
Factor = Callable[["CoreBuilder", Value, Value], Value]


def times(factor: Factor) -> Gradient:
    """A unary operation with derivative factor(b, x, y)."""

    def gradient(b: CoreBuilder, g: Value, y: Value, x: Value) -> Sequence[Value | None]:
        return (b.mul(g, factor(b, x, y)),)

    return gradient


def over(divisor: Factor) -> Gradient:
    """A unary operation with derivative 1 / divisor(b, x, y)."""

    def gradient(b: CoreBuilder, g: Value, y: Value, x: Value) -> Sequence[Value | None]:
        return (b.div(g, divisor(b, x, y)),)

    return gradient


def rectify(b: CoreBuilder, g: Value, y: Value, x: Value) -> Sequence[Value | None]:
    return (b.select(b.gt(y, 0), g, b.full_like(g, 0)),)


def neg(b: CoreBuilder, g: Value, y: Value, x: Value) -> Sequence[Value | None]:
    return (b.neg(g),)


def add(b: CoreBuilder, g: Value, z: Value, x: Value, y: Value) -> Sequence[Value | None]:
    return g, g


def sub(b: CoreBuilder, g: Value, z: Value, x: Value, y: Value) -> Sequence[Value | None]:
    return g, b.neg(g)


def none(b: CoreBuilder, g: Value, y: Value, *operands: Value) -> Sequence[Value | None]:
    return (None,) * len(operands)


def mul(b: CoreBuilder, g: Value, z: Value, x: Value, y: Value) -> Sequence[Value | None]:
    return b.mul(g, y), b.mul(g, x)


def div(b: CoreBuilder, g: Value, z: Value, x: Value, y: Value) -> Sequence[Value | None]:
    dx = b.div(g, y)
    return dx, b.neg(b.mul(dx, z))


def mod(b: CoreBuilder, g: Value, z: Value, x: Value, y: Value) -> Sequence[Value | None]:
    return g, b.neg(b.mul(g, b.floor(b.div(x, y))))


def pow(b: CoreBuilder, g: Value, z: Value, x: Value, y: Value) -> Sequence[Value | None]:
    """At x = 0 the derivative with respect to the exponent is z * log(1) = 0, its limit for y > 0. An integer
    exponent has no gradient.
    """
    if x.type.dtype.is_integer:
        return b.mul(g, b.mul(y, b.pow(x, b.sub(y, 1)))), None
    safe = b.select(b.eq(x, 0), b.full_like(x, 1), x)
    return b.mul(g, b.mul(y, b.pow(x, b.sub(y, 1)))), b.mul(g, b.mul(z, b.log(safe)))


def extremum(first_wins: ScalarOp) -> Gradient:
    def gradient(b: CoreBuilder, g: Value, z: Value, x: Value, y: Value) -> Sequence[Value | None]:
        wins, zero = b.scalar(first_wins, x, y), b.full_like(g, 0)
        return b.select(wins, g, zero), b.select(wins, zero, g)

    return gradient


def atan2(b: CoreBuilder, g: Value, z: Value, x: Value, y: Value) -> Sequence[Value | None]:
    scaled = b.div(g, b.add(b.square(x), b.square(y)))
    return b.mul(scaled, y), b.neg(b.mul(scaled, x))


def hypot(b: CoreBuilder, g: Value, z: Value, x: Value, y: Value) -> Sequence[Value | None]:
    scaled = b.div(g, z)
    return b.mul(scaled, x), b.mul(scaled, y)


def select(b: CoreBuilder, g: Value, z: Value, condition: Value, x: Value, y: Value) -> Sequence[Value | None]:
    zero = b.full_like(g, 0)
    return None, b.select(condition, g, zero), b.select(condition, zero, g)


def erf(b: CoreBuilder, x: Value, y: Value) -> Value:
    return b.mul(b.exp(b.neg(b.square(x))), 2 / math.sqrt(math.pi))


def erfinv(b: CoreBuilder, x: Value, y: Value) -> Value:
    return b.mul(b.exp(b.square(y)), math.sqrt(math.pi) / 2)


def one_minus_square(b: CoreBuilder, x: Value) -> Value:
    """1 - x^2 without cancellation near 1."""
    return b.mul(b.sub(1, x), b.add(1, x))


def trigamma(b: CoreBuilder, x: Value) -> Value:
    """The derivative of digamma.

    Reflection for x < 0.5, eight steps of the recurrence, asymptotic series (Abramowitz, Stegun 6.4.7, 6.4.6, 6.4.12).
    """
    reflect = b.lt(x, 0.5)
    z = b.select(reflect, b.sub(1, x), x)
    total = b.full_like(x, 0)
    for _ in range(8):
        total = b.add(total, b.div(1, b.square(z)))
        z = b.add(z, 1)
    r = b.div(1, b.square(z))
    series = b.full_like(x, 0)
    for bernoulli in (7 / 6, -691 / 2730, 5 / 66, -1 / 30, 1 / 42, -1 / 30, 1 / 6):
        series = b.mul(r, b.add(series, bernoulli))
    total = b.add(total, b.div(b.add(b.add(series, 1), b.div(0.5, z)), z))
    mirrored = b.sub(b.div(math.pi**2, b.square(b.sin(b.mul(x, math.pi)))), total)
    return b.select(reflect, mirrored, total)
