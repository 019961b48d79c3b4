"""Rules of operators that read images between their elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from math import prod

import numpy as np

from ....ir.dialects.core.builder import CoreBuilder
from ....ir.graph import Value
from ....ir.types import DType
from .node import OnnxNode, Unsupported, rule
from .windows import pads_of, with_bias

Weights = Callable[[CoreBuilder, Value], list[Value]]


def _linear(b: CoreBuilder, t: Value) -> list[Value]:
    return [b.sub(1, t), t]


def _cubic(b: CoreBuilder, t: Value) -> list[Value]:
    """Keys' cubic convolution with a = -0.75."""
    a = -0.75

    def polynomial(x: Value, *coefficients: float) -> Value:
        total = b.full_like(x, coefficients[0])
        for c in coefficients[1:]:
            total = b.add(b.mul(total, x), c)
        return total

    rest = b.sub(1, t)
    near, far = (a + 2, -(a + 3), 0.0, 1.0), (a, -5 * a, 8 * a, -4 * a)
    return [
        polynomial(b.add(t, 1), *far),
        polynomial(t, *near),
        polynomial(rest, *near),
        polynomial(b.add(rest, 1), *far),
    ]


_NEIGHBOURS: dict[str, tuple[int, Weights]] = {"linear": (0, _linear), "cubic": (-1, _cubic)}
"""The first neighbour relative to the floor of a coordinate, and the weights of all."""


@rule("GridSample")
def grid_sample(n: OnnxNode) -> Value:
    x, grid, b = n[0], n[1], n.b
    mode, padding = n.attr("mode", "linear").removeprefix("bi"), n.attr("padding_mode", "zeros")
    aligned = bool(n.attr("align_corners", 0))
    extents = x.type.shape[2:]
    rank = len(extents)
    shape = grid.type.shape[:-1]
    coordinates = []
    for i, extent in enumerate(extents):  # the grid lists the last axis first
        part = b.squeeze(b.slice_axis(grid, len(shape), rank - 1 - i, rank - i), (len(shape),))
        part = b.cast(part, x.type.dtype)
        place = (
            b.mul(b.add(part, 1), (extent - 1) / 2) if aligned else b.div(b.sub(b.mul(b.add(part, 1), extent), 1), 2)
        )
        coordinates.append(place)
    if mode == "nearest":
        return _sum(b, x, [[(b.rint(c), None)] for c in coordinates], padding, aligned)
    if mode not in _NEIGHBOURS:
        raise Unsupported(f"mode {mode!r} is not supported")
    first, weights = _NEIGHBOURS[mode]
    if mode == "linear" and padding != "zeros":
        coordinates = [_inside(b, c, e, padding, aligned) for c, e in zip(coordinates, extents, strict=True)]
    choices = []
    for c in coordinates:
        low = b.floor(c)
        listed = weights(b, b.sub(c, low))
        choices.append([(b.add(low, float(first + i)), w) for i, w in enumerate(listed)])
    return _sum(b, x, choices, padding, aligned)


@rule("DeformConv")
def deformable_convolution(n: OnnxNode) -> Value:
    """A 1x1 convolution of samples: each element of each window is read at its place plus an offset."""
    x, w, offset, b = n[0], n[1], n[2], n.b
    if x.type.rank != 4:
        raise Unsupported(f"windows of {x.type.rank - 2} axes are not supported")
    (batch, channels, *extents), kernel, out = x.type.shape, w.type.shape[2:], offset.type.shape[2:]
    strides, dilations, pads = pads_of(n, extents, kernel)
    groups, taps, places = n.attr("offset_group", 1), prod(kernel), prod(out)
    images = b.reshape(x, (batch * groups, channels // groups, *extents))
    moves = b.reshape(offset, (batch * groups, taps, 2, places))
    choices = []
    for i in range(2):
        steps = np.indices(kernel)[i].reshape(-1, 1) * dilations[i] + np.indices(out)[i].reshape(1, -1) * strides[i]
        regular = b.constant(steps - pads[i][0], x.type.dtype)
        move = b.squeeze(b.slice_axis(moves, 2, i, i + 1), (2,))
        at = b.add(move, b.broadcast(regular, move.type.shape, (1, 2)))
        low = b.floor(at)
        choices.append([(low, b.sub(1, b.sub(at, low))), (b.add(low, 1.0), b.sub(at, low))])
    samples = _sum(b, images, choices, "zeros", True)
    mask = n.get(4)
    if mask is not None:
        mask = b.reshape(mask, (batch * groups, taps, places))
        samples = b.mul(samples, b.broadcast(mask, samples.type.shape, (0, 2, 3)))
    columns = b.reshape(samples, (batch, channels * taps, *out))
    filters = b.reshape(w, (w.type.shape[0], w.type.shape[1] * taps, 1, 1))
    plain = b.conv(columns, filters, [1, 1], [(0, 0), (0, 0)], None, [1, 1], n.attr("group", 1))
    return with_bias(n, plain, 3)


def _inside(b: CoreBuilder, c: Value, extent: int, padding: str, aligned: bool) -> Value:
    """Coordinates moved into the image by clamping or reflection."""
    if padding == "reflection":
        low, high = (0.0, extent - 1.0) if aligned else (-0.5, extent - 0.5)
        span = high - low
        if span > 0:
            away = b.mod(b.abs(b.sub(c, low)), 2 * span)
            c = b.add(b.minimum(away, b.sub(2 * span, away)), low)
    return b.minimum(b.maximum(c, 0), extent - 1)


def _sum(
    b: CoreBuilder, x: Value, choices: Sequence[Sequence[tuple[Value, Value | None]]], padding: str, aligned: bool
) -> Value:
    """The weighted sum of the elements of x at all combinations of coordinates."""
    extents, total = x.type.shape[2:], None
    for combination in product(*choices):
        places, weight, valid = [], None, None
        for (place, w), extent in zip(combination, extents, strict=True):
            inside = b.and_(b.ge(place, 0), b.le(place, extent - 1))
            valid = inside if valid is None else b.and_(valid, inside)
            places.append(b.cast(_inside(b, place, extent, padding, aligned), DType.I64))
            weight = w if weight is None else weight if w is None else b.mul(weight, w)
        assert valid is not None
        indices = b.concat([b.expand_dims(p, -1) for p in places], len(places) + 1)
        axes = tuple(range(2, 2 + len(extents)))
        # batch first: x[n, c, *s] at indices[n, *out, k]
        last = b.transpose(x, (0, *axes, 1))
        taken = b.gather(last, indices, tuple(range(1, 1 + len(extents))), 1)
        scale = b.cast(valid, x.type.dtype) if padding == "zeros" else None
        factor = weight if scale is None else scale if weight is None else b.mul(weight, scale)
        if factor is not None:
            taken = b.mul(taken, b.broadcast(factor, taken.type.shape, range(taken.type.rank - 1)))
        total = taken if total is None else b.add(total, taken)
    assert total is not None
    rank = total.type.rank
    return b.transpose(total, (0, rank - 1, *range(1, rank - 1)))


@rule("RoiAlign")
def roi_align(n: OnnxNode) -> Value:
    """Means or maxima of samples between elements, for boxes of images."""
    x, rois, images, b = n[0], n[1], n[2], n.b
    ratio = n.attr("sampling_ratio", 0)
    if ratio < 1:
        raise Unsupported("sampling_ratio must be at least 1: the number of samples would depend on the boxes")
    half = (
        n.attr("coordinate_transformation_mode", "half_pixel" if n.opset >= 16 else "output_half_pixel") == "half_pixel"
    )
    scale, count = n.attr("spatial_scale", 1.0), rois.type.shape[0]
    height, width = x.type.shape[2:]
    columns = [b.squeeze(b.slice_axis(rois, 1, i, i + 1), (1,)) for i in range(4)]
    x0, y0, x1, y1 = (b.sub(b.mul(c, scale), 0.5 if half else 0.0) for c in columns)
    samples = []
    for start, end, bins, extent in (
        (y0, y1, n.attr("output_height", 1), height),
        (x0, x1, n.attr("output_width", 1), width),
    ):
        size = b.sub(end, start)
        size = size if half else b.maximum(size, 1)
        place = b.add(b.cast(b.iota((count, bins * ratio), DType.I64, 1), x.type.dtype), 0.5)
        step = b.broadcast_along(b.div(size, bins * ratio), (count, bins * ratio), 0)
        at = b.add(b.mul(place, step), b.broadcast_along(start, (count, bins * ratio), 0))
        samples.append(_samples(b, at, extent))
    chosen = b.take(x, b.cast(images, DType.I64), 0)  # one image for each box
    shape = chosen.type.shape
    rows, columns_ = samples[0][0][0].type.shape[1], samples[1][0][0].type.shape[1]
    full = (count, shape[1], rows, columns_)
    terms = []
    for (row, row_weight), (column, column_weight) in product(*samples):
        indices = _pairs(b, row, column)
        last = b.transpose(chosen, (0, 2, 3, 1))
        taken = b.transpose(b.gather(last, indices, (1, 2), 1), (0, 3, 1, 2))
        weight = b.mul(b.broadcast(row_weight, full, (0, 2)), b.broadcast(column_weight, full, (0, 3)))
        terms.append(b.mul(taken, weight))
    maximum = n.attr("mode", "avg") == "max"
    total = terms[0]
    for term in terms[1:]:
        total = b.maximum(total, term) if maximum else b.add(total, term)
    split = b.reshape(total, (count, shape[1], rows // ratio, ratio, columns_ // ratio, ratio))
    return b.max(split, (3, 5)) if maximum else b.mean(split, (3, 5))


def _samples(b: CoreBuilder, at: Value, extent: int) -> list[tuple[Value, Value]]:
    """Both neighbours of each place with their weights; both are 0 outside the image."""
    valid = b.cast(b.and_(b.ge(at, -1), b.le(at, extent)), at.type.dtype)
    inner = b.minimum(b.maximum(at, 0), extent - 1)
    low = b.floor(inner)
    rest = b.sub(inner, low)
    high = b.minimum(b.add(low, 1), extent - 1)
    return [
        (b.cast(low, DType.I64), b.mul(b.sub(1, rest), valid)),
        (b.cast(high, DType.I64), b.mul(rest, valid)),
    ]


def _pairs(b: CoreBuilder, row: Value, column: Value) -> Value:
    """All pairs of rows and columns: (box, rows, columns, 2)."""
    count, rows = row.type.shape
    shape = (count, rows, column.type.shape[1])
    first, second = b.broadcast(row, shape, (0, 1)), b.broadcast(column, shape, (0, 2))
    return b.concat([b.expand_dims(first, 3), b.expand_dims(second, 3)], 3)
