"""The NumPy semantics of scalar operations that NumPy has no function for."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .primitive import Array


def keep_integers(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """`function` on floats, the identity on integers."""
    return lambda x: function(x) if x.dtype.kind == "f" else x


def round(x: Array) -> Array:
    """Rounds half away from zero."""
    whole = np.trunc(x)
    return np.where(np.abs(x - whole) >= 0.5, whole + np.copysign(1, x), whole)


def rsqrt(x: Array) -> Array:
    return 1 / np.sqrt(x)


def rectify(x: Array) -> Array:
    return np.where(x > 0, x, 0)


def sigmoid(x: Array) -> Array:
    e = np.exp(-np.abs(x))
    return np.where(np.isnan(x), x, np.where(x >= 0, 1, e) / (1 + e))


def div(x: Array, y: Array) -> Array:
    """Integer division truncates towards zero; division by zero is zero."""
    if x.dtype.kind == "f":
        return x / y
    floored = np.floor_divide(x, y)
    return np.where((np.remainder(x, y) != 0) & ((x < 0) != (y < 0)), floored + 1, floored)


def sign(x: Array) -> Array:
    """Zeros and NaN are their own signs."""
    return np.where(x == 0, x, np.sign(x))


def mod(x: Array, y: Array) -> Array:
    return np.where(y == 0, np.zeros_like(x), np.mod(x, y))


def pow(x: Array, y: Array) -> Array:
    """Integers are converted to float64, as in MXNet."""
    if x.dtype.kind == "f":
        return np.power(x, np.array(y))  # a copy: for a repeated 0.5 NumPy takes square roots, which differ at -inf
    return np.power(x.astype(np.float64), y.astype(np.float64))


def shift(
    shift: Callable[[Array, Array], Array], overflow: Callable[[Array], Array]
) -> Callable[[Array, Array], Array]:
    """A shift by the width or more is `overflow(x)`: zeros, or the sign for a signed right shift."""

    def shifted(x: Array, y: Array) -> Array:
        width = x.dtype.itemsize * 8
        inside = (y >= 0) & (y < width)
        return np.where(inside, shift(x, np.where(inside, y, 0)), overflow(x))

    return shifted
