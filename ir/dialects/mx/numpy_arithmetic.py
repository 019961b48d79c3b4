"""Functions of two numbers that `mx.np` has and `mx.nd` lacks: quotients and remainders, extrema beside NaN."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...graph import Value
from .arithmetic import UNARY, Binary

if TYPE_CHECKING:
    from .builder import MxBuilder


def floor_divide(b: MxBuilder, x: Value, y: Value) -> Value:
    """The largest integer that is not greater than the quotient. It has no gradient."""
    if x.type.dtype.is_float:
        return b.stop_gradient(UNARY["floor"](b, b.div(x, y)))
    quotient = b.div(x, y)
    inexact = b.ne(b.mul(quotient, y), x)
    below = b.and_(inexact, b.xor(b.lt(x, 0), b.lt(y, 0))) if x.type.dtype.is_signed else None
    return b.stop_gradient(quotient if below is None else b.sub(quotient, b.cast(below, x.type.dtype)))


def truncated_remainder(b: MxBuilder, x: Value, y: Value) -> Value:
    """The remainder with the sign of x."""
    size = b.mod(UNARY["abs"](b, x), UNARY["abs"](b, y))
    if not x.type.dtype.is_float:
        size = b.stop_gradient(size)
    if x.type.dtype.is_unsigned:
        return size
    return b.select(b.lt(x, 0), b.neg(size), size)


def extreme_of_numbers(name: str) -> Binary:
    """`maximum` or `minimum`, where a number beside NaN is the result."""

    def apply(b: MxBuilder, x: Value, y: Value) -> Value:
        result = getattr(b, name)(x, y)
        if not x.type.dtype.is_float:
            return result
        return b.select(b.is_nan(x), y, b.select(b.is_nan(y), x, result))

    return apply


def log_of_sum(b: MxBuilder, x: Value, y: Value) -> Value:
    """log(exp(x) + exp(y)) of floats, without overflow; infinities of one sign give that infinity."""

    def forward(b: MxBuilder, x: Value, y: Value) -> Value:
        distance = b.neg(UNARY["abs"](b, b.sub(x, y)))
        distance = b.select(b.eq(x, y), b.full_like(distance, 0), distance)
        return b.add(b.maximum(x, y), UNARY["log1p"](b, UNARY["exp"](b, distance)))

    def gradient(
        b: MxBuilder, operands: Sequence[Value], results: Sequence[Value], cotangents: Sequence[Value]
    ) -> list[Value]:
        (x, y), (g,) = operands, cotangents
        share = UNARY["sigmoid"](b, b.select(b.eq(x, y), b.full_like(x, 0), b.sub(x, y)))
        return [b.mul(g, share), b.mul(g, b.sub(b.full_like(share, 1), share))]

    return b.custom_gradient(forward, gradient, x, y)[0]
