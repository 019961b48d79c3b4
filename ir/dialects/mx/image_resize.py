"""Resizes images along two axes: each new row, and then each new column, is a weighted sum of a few old ones.

Positions, weights and the rounding of 8-bit images are those of OpenCV 3's resize, which MXNet uses. 8-bit images are
summed in integers, except for area interpolation with non-integer factors.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from math import ceil, floor, prod
from typing import TYPE_CHECKING

import numpy as np

from ...graph import Value
from ...types import DType
from .taps import Array, Taps, blend

if TYPE_CHECKING:
    from .builder import MxBuilder

_BITS = 11  # OpenCV stores the weights of 8-bit images as multiples of 2 ^ -11


def _scale(old: int, new: int) -> float:
    """Old rows for a new one, rounded as OpenCV does: it can differ from old / new in the last bit."""
    return 1 / (new / old)


def _centres(old: int, new: int) -> tuple[Array, Array]:
    """The old row at or before the centre of each new one, and the distance of the centre from it."""
    at = ((np.arange(new) + 0.5) * _scale(old, new) - 0.5).astype(np.float32)
    first = np.floor(at).astype(np.int64)
    return first, (at - first).astype(np.float32)


def _nearest(old: int, new: int) -> Taps:
    at = np.minimum(np.floor(np.arange(new) * _scale(old, new)).astype(np.int64), old - 1)
    return at[None], np.ones((1, new))


def _linear(old: int, new: int) -> Taps:
    first, part = _centres(old, new)
    part = np.where((first < 0) | (first >= old - 1), np.float32(0), part)
    first = np.clip(first, 0, old - 1)
    return np.minimum(np.stack([first, first + 1]), old - 1), np.stack([1 - part, part])


def _linear_rows(old: int, new: int) -> Taps:
    """Like `_linear`, but beyond the border both taps are the border row with their own weights, whose rounding affects
    8-bit images."""
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
    """The covered part of each old row, where `new` is at most `old`; parts below a thousandth are ignored."""
    scale = _scale(old, new)
    count = ceil(scale) + 1
    positions, weights = np.zeros((count, new), np.int64), np.zeros((count, new))
    for i in range(new):
        low, width = i * scale, min(scale, old - i * scale)
        for k, row in enumerate(range(floor(low), min(ceil(low + scale), old))):
            part = min(low + scale, row + 1) - max(low, row)
            positions[k, i] = row
            weights[k, i] = part / width if part > 1e-3 else 0
    return positions, weights


def _growing(old: int, new: int) -> Taps:
    """OpenCV's area interpolation for enlarging: old rows become wide bands with short ramps between them."""
    scale, inverse = _scale(old, new), new / old
    at = np.floor(np.arange(new) * scale).astype(np.int64)
    part = (np.arange(new) + 1) - (at + 1) * inverse
    part = np.where(part <= 0, 0, part - np.floor(part))
    last = at >= old - 1
    at, part = np.where(last, old - 1, at), np.where(last, 0, part)
    return np.minimum(np.stack([at, at + 1]), old - 1), np.stack([1 - part, part])


TAPS: dict[int, Callable[[int, int], Taps]] = {0: _nearest, 1: _linear, 2: _cubic, 3: _area, 4: _lanczos}
"""The taps for each of OpenCV's interpolation numbers."""


def resize(b: MxBuilder, x: Value, axes: tuple[int, int], size: tuple[int, int], interp: int) -> Value:
    """x with new extents along two axes (rows, columns), in its dtype. ValueError for an unknown interpolation."""
    if interp not in TAPS:
        raise ValueError(f"interp={interp} must be one of {', '.join(map(str, TAPS))}")
    old = x.type.shape[axes[0]], x.type.shape[axes[1]]
    shrinks = size[0] <= old[0] and size[1] <= old[1]
    find = _growing if interp == 3 and not shrinks else TAPS[interp]
    rows, columns = (find(n, m) for n, m in zip(old, size, strict=True))
    if interp == 0:
        return b.take(b.take(x, b.constant(rows[0][0]), axes[0]), b.constant(columns[0][0]), axes[1])
    if x.type.dtype is DType.U8:
        if interp == 1 and old == (2 * size[0], 2 * size[1]):
            return _average_bytes(b, x, axes, (2, 2))
        if interp == 1:
            rows = _linear_rows(old[0], size[0])
        if interp == 1 or find is _growing:
            return _blend_two_bytes(b, x, axes, rows, columns)
        if interp in (2, 4):
            return _blend_bytes(b, x, axes, rows, columns)
        if old[0] % size[0] == old[1] % size[1] == 0:
            return _average_bytes(b, x, axes, (old[0] // size[0], old[1] // size[1]))
    wide = b.cast(x, DType.F64 if x.type.dtype is DType.F64 else DType.F32)
    resized = blend(b, blend(b, wide, axes[1], columns), axes[0], rows)
    return b.cast(resized, x.type.dtype) if x.type.dtype.is_float else _bounded(b, b.rint(resized), x.type.dtype)


def _bounded(b: MxBuilder, x: Value, dtype: DType) -> Value:
    """x clipped to the range of 8-bit images."""
    return b.cast(b.minimum(b.maximum(x, 0), 255), dtype)


def _fixed(taps: Taps) -> Taps:
    """The weights as multiples of 2 ^ -11."""
    return taps[0], np.rint(taps[1].astype(np.float32) * np.float32(1 << _BITS)).astype(np.int64)


def _blend_bytes(b: MxBuilder, x: Value, axes: tuple[int, int], rows: Taps, columns: Taps) -> Value:
    """Weighted sums of 8-bit images in integers, rounded once."""
    wide = blend(b, b.cast(x, DType.I32), axes[1], _fixed(columns))
    total = blend(b, wide, axes[0], _fixed(rows))
    half = 1 << (2 * _BITS - 1)
    blended = _bounded(b, b.shift_right(b.add(total, half), 2 * _BITS), DType.U8)
    return _in_eights(b, blended, wide, axes, rows) if len(rows[0]) == 4 else blended


def _in_eights(b: MxBuilder, blended: Value, wide: Value, axes: tuple[int, int], rows: Taps) -> Value:
    """`blended` in the last elements of each row. In the elements before them, OpenCV sums the rows of a cubic
    interpolation in float32, eight elements at a time, and rounds halves to even."""
    shape = blended.type.shape
    width = prod(shape[axes[1] :])
    in_vectors = (np.arange(width) < width - width % 8).reshape(shape[axes[1] :])
    positions, weights = _fixed(rows)
    scaled = positions, weights.astype(np.float32) * np.float32(2.0 ** (-2 * _BITS))
    sums = _bounded(b, b.rint(blend(b, b.cast(wide, DType.F32), axes[0], scaled)), DType.U8)
    mask = b.broadcast(b.constant(in_vectors), shape, tuple(range(axes[1], len(shape))))
    return b.select(mask, sums, blended)


def _average_bytes(b: MxBuilder, x: Value, axes: tuple[int, int], block: tuple[int, int]) -> Value:
    """Averages of whole blocks of 8-bit images; halves are rounded up for 2 x 2 blocks, and to even for others. Rows
    are added first: their elements are next to each other."""
    count = block[0] * block[1]
    narrow = DType.I16 if 255 * count < 1 << 15 else DType.I32
    total = x
    for axis, step in zip(axes, block, strict=True):
        parts = [b.cast(_every(b, total, axis, first, step), narrow) for first in range(step)]
        total = reduce(b.add, parts)
    if block == (2, 2):
        return b.cast(b.shift_right(b.add(total, 2), 2), DType.U8)
    scale = float(np.float32(1) / np.float32(count))
    return _bounded(b, b.rint(b.mul(b.cast(total, DType.F32), scale)), DType.U8)


def _every(b: MxBuilder, x: Value, axis: int, first: int, step: int) -> Value:
    """Every element of an axis whose position divided by `step` has the rest `first`."""
    shape = x.type.shape
    start, steps = [0] * len(shape), [1] * len(shape)
    start[axis], steps[axis] = first, step
    return b.slice(x, start, shape, steps)


def _blend_two_bytes(b: MxBuilder, x: Value, axes: tuple[int, int], rows: Taps, columns: Taps) -> Value:
    """Like `_blend_bytes` for two taps; OpenCV truncates digits before it adds them, so that sums of columns have 16
    bits."""
    half = b.cast(b.shift_right(reduce(b.add, _weighted(b, x, axes[1], _fixed(columns))), 4), DType.I16)
    parts = [b.shift_right(part, 16) for part in _weighted(b, half, axes[0], _fixed(rows))]
    return b.cast(b.shift_right(b.add(reduce(b.add, parts), 2), 2), DType.U8)


def _weighted(b: MxBuilder, x: Value, axis: int, taps: Taps) -> list[Value]:
    """The products that taps along an axis sum, as I32. Elements are widened after they are taken, so that fewer bytes
    are moved."""
    products: list[Value] = []
    for positions, weights in zip(*taps, strict=True):
        part = b.cast(b.take(x, b.constant(positions), axis), DType.I32)
        products.append(b.mul(part, b.broadcast_along(b.constant(weights, DType.I32), part.type.shape, axis)))
    return products
