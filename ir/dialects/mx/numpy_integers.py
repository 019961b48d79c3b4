"""Number theory on integer arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...graph import Value

if TYPE_CHECKING:
    from .builder import MxBuilder

_STEPS_PER_BIT = 1.4405  # log of 2 to the base of the golden ratio: Fibonacci numbers need the most steps


def greatest_common_divisor(b: MxBuilder, x: Value, y: Value) -> Value:
    """Euclid's algorithm with as many steps as the dtype may need; where the remainder is zero, nothing changes."""
    for _ in range(int(x.type.dtype.bits * _STEPS_PER_BIT) + 2):
        done = b.eq(y, 0)
        x, y = b.select(done, x, y), b.select(done, y, b.mod(x, y))
    return b.abs(x) if x.type.dtype.is_signed else x
