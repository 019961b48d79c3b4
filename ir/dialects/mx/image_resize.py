"""Resizes images along two axes: each new row, and then each new column, is a weighted sum of a few old ones.

Positions and weights are those of OpenCV's resize, which MXNet uses.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, floor
from typing import Any

import numpy as np

from ...graph import Value
from ...types import DType
from .builder import MxBuilder

Array = np.ndarray[Any, Any]
Taps = tuple[Array, Array]
"""Positions (taps, new extent) of old rows, clamped to the image, and their weights."""

_BITS = 11  # OpenCV keeps the weights of 8-bit images as multiples of 2 ^ -11


def _centres(old: int, new: int) -> tuple[Array, Array]:
    """The old row at or before the centre of each new one, and how far beyond it the centre lies."""
    at = ((np.arange(new) + 0.5) * (old / new) - 0.5).astype(np.float32)
    first = np.floor(at).astype(np.int64)
    return first, (at - first).astype(np.float32)


def _nearest(old: int, new: int) -> Taps:
    at = np.minimum(np.floor(np.arange(new) * (old / new)).astype(np.int64), old - 1)
    return at[None], np.ones((1, new))


def _linear(old: int, new: int) -> Taps:
    first, part = _centres(old, new)
    part = np.where((first < 0) | (first >= old - 1), np.float32(0), part)
    first = np.clip(first, 0, old - 1)
    return np.minimum(np.stack([first, first + 1]), old - 1), np.stack([1 - part, part])


def _linear_rows(old: int, new: int) -> Taps:
    """As `_linear`, but beyond the border both taps are the row at the border with their own weights, whose roundings
    count in 8-bit images."""
    first, part = _centres(old, new)
    return np.clip(np.stack([first, first + 1]), 0, old - 1), np.stack([1 - part, part])


def _cubic(old: int, new: int) -> Taps:
    first, x = _centres(old, new)
    a = -0.75
    left = ((a * (x + 1) - 5 * a) * (x + 1) + 8 * a) * (x + 1) - 4 * a
    middle = ((a + 2) * x - (a + 3)) * x * x + 1
    right = ((a + 2) * (1 - x) - (a + 3)) * (1 - x) * (1 - x) + 1
    weights = np.stack([left, middle, right, 1 - left - middle - right])
    return np.clip(first + np.arange(-1, 3)[:, None], 0, old - 1), weights


def _lanczos(old: int, new: int) -> Taps:
    first, x = _centres(old, new)
    distance = x + np.arange(3, -5, -1)[:, None]
    weights = np.sinc(distance) * np.sinc(distance / 4)
    return np.clip(first + np.arange(-3, 5)[:, None], 0, old - 1), weights / weights.sum(0)


def _area(old: int, new: int) -> Taps:
    """The part of each old row that the new one covers; a growing image is resized as by `_growing`."""
    if new >= old:
        return _growing(old, new)
    scale = old / new
    count = ceil(scale) + 1
    positions, weights = np.zeros((count, new), np.int64), np.zeros((count, new))
    for i in range(new):
        low, high = i * scale, min((i + 1) * scale, old)
        for k, row in enumerate(range(floor(low), min(ceil(high), old))):
            positions[k, i] = row
            weights[k, i] = max(0.0, min(high, row + 1) - max(low, row)) / (high - low)
    return positions, weights


def _growing(old: int, new: int) -> Taps:
    """OpenCV's area interpolation of an image that grows: old rows as wide bands with short ramps between them."""
    scale, inverse = old / new, new / old
    at = np.floor(np.arange(new) * scale).astype(np.int64)
    part = (np.arange(new) + 1) - (at + 1) * inverse
    part = np.where(part <= 0, 0, part - np.floor(part))
    last = at >= old - 1
    at, part = np.where(last, old - 1, at), np.where(last, 0, part)
    return np.minimum(np.stack([at, at + 1]), old - 1), np.stack([1 - part, part])


TAPS: dict[int, Callable[[int, int], Taps]] = {0: _nearest, 1: _linear, 2: _cubic, 3: _area, 4: _lanczos}
"""By OpenCV's number of the interpolation."""


def resize(b: MxBuilder, x: Value, axes: tuple[int, int], size: tuple[int, int], interp: int) -> Value:
    """x with new extents along two axes (rows, columns), in its dtype. ValueError for an unknown interpolation."""
    if interp not in TAPS:
        raise ValueError(f"interp={interp} is none of {', '.join(map(str, TAPS))}")
    old = x.type.shape[axes[0]], x.type.shape[axes[1]]
    if interp == 3 and (size[0] > old[0] or size[1] > old[1]):
        rows, columns = (_growing(n, m) for n, m in zip(old, size, strict=True))
    else:
        rows, columns = (TAPS[interp](n, m) for n, m in zip(old, size, strict=True))
    if interp == 0:
        return b.take(b.take(x, b.constant(rows[0][0]), axes[0]), b.constant(columns[0][0]), axes[1])
    if x.type.dtype is DType.U8 and interp == 1:
        return _resize_bytes(b, x, axes, _linear_rows(old[0], size[0]), columns)
    wide = b.cast(x, DType.F64 if x.type.dtype is DType.F64 else DType.F32)
    found = _blend(b, _blend(b, wide, axes[1], columns), axes[0], rows)
    if x.type.dtype.is_float:
        return b.cast(found, x.type.dtype)
    return b.cast(b.minimum(b.maximum(b.rint(found), 0), 255), x.type.dtype)


def _blend(b: MxBuilder, x: Value, axis: int, taps: Taps) -> Value:
    """The weighted sum of slices along an axis."""
    total: Value | None = None
    for positions, weights in zip(*taps, strict=True):
        part = b.take(x, b.constant(positions), axis)
        scale = b.broadcast_along(b.constant(weights, x.type.dtype), part.type.shape, axis)
        total = b.mul(part, scale) if total is None else b.add(total, b.mul(part, scale))
    assert total is not None
    return total


def _resize_bytes(b: MxBuilder, x: Value, axes: tuple[int, int], rows: Taps, columns: Taps) -> Value:
    """Linear interpolation of 8-bit images in whole numbers, with OpenCV's roundings."""

    def fixed(taps: Taps) -> Taps:
        return taps[0], np.rint(taps[1] * (1 << _BITS)).astype(np.int64)

    wide = _blend(b, b.cast(x, DType.I32), axes[1], fixed(columns))
    total: Value | None = None
    for positions, weights in zip(*fixed(rows), strict=True):
        part = b.shift_right(b.take(wide, b.constant(positions), axes[0]), 4)
        scale = b.broadcast_along(b.constant(weights, DType.I32), part.type.shape, axes[0])
        product = b.shift_right(b.mul(part, scale), 16)
        total = product if total is None else b.add(total, product)
    assert total is not None
    return b.cast(b.shift_right(b.add(total, 2), 2), DType.U8)
