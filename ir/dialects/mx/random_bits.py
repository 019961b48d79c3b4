"""Random numbers computed from random bits, in core."""

from __future__ import annotations

from math import pi
from typing import TYPE_CHECKING

from ...graph import Value
from ...types import DType, Shape

if TYPE_CHECKING:
    from .builder import MxBuilder


def bits(b: MxBuilder, shape: Shape) -> Value:
    """Uniform u32 bits of a new draw."""
    return b.random_bits(b.random_key(), shape)


def uniform(b: MxBuilder, shape: Shape, dtype: DType = DType.F32) -> Value:
    """Uniform numbers in [0, 1), with 24 random bits (11 for float16, 8 for bfloat16, so that none rounds to 1)."""
    drop = 21 if dtype is DType.F16 else 24 if dtype is DType.BF16 else 8
    whole = b.shift_right(bits(b, shape), drop)
    return b.cast(b.mul(b.cast(whole, DType.F32), 2.0 ** (drop - 32)), dtype)


def uniform_open(b: MxBuilder, shape: Shape) -> Value:
    """Uniform numbers in (0, 1), float32."""
    whole = b.shift_right(bits(b, shape), 9)
    return b.mul(b.add(b.cast(whole, DType.F32), 0.5), 2.0**-23)


def normal(b: MxBuilder, shape: Shape, dtype: DType = DType.F32) -> Value:
    """Standard normal numbers by the Box-Muller method."""
    radius = b.sqrt(b.mul(b.log(uniform_open(b, shape)), -2.0))
    angle = b.mul(uniform(b, shape), 2 * pi)
    return b.cast(b.mul(radius, b.cos(angle)), dtype)


def exponential(b: MxBuilder, shape: Shape) -> Value:
    """Exponential numbers with mean 1, float32."""
    return b.neg(b.log(uniform_open(b, shape)))
