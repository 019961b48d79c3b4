"""Rules of operators that change the size of images: each axis is a product with a matrix of weights."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np

from ....ir.dialects.core.builder import CoreBuilder
from ....ir.graph import Value
from ....ir.types import DType
from .node import OnnxNode, Unsupported, front, integers, limited, rule

Array = np.ndarray[Any, Any]

_LARGEST_MATRIX = 1 << 20
"""The elements of a matrix of weights; a larger one is replaced by sums of neighbours."""


@rule("Resize", "Upsample")
def resize(n: OnnxNode) -> Value:
    x, b = n[0], n.b
    rank = x.type.rank
    axes = [front(a, rank) for a in n.attr("axes", range(rank))]
    scales, sizes = _scales_and_sizes(n, [x.type.shape[a] for a in axes])
    mode, where = n.attr("mode", "nearest"), n.attr("coordinate_transformation_mode", "half_pixel")
    if n.op_type == "Upsample" or n.opset < 11:
        where = "asymmetric"
    roi = n.known(1).ravel() if where == "tf_crop_and_resize" else np.zeros(2 * len(axes))
    outside: list[tuple[int, Array]] = []
    for i, (axis, scale, size) in enumerate(zip(axes, scales, sizes, strict=True)):
        extent = x.type.shape[axis]
        if where != "tf_crop_and_resize" and scale == 1 and size == extent:
            continue
        at = _coordinates(where, extent, size, scale, float(roi[i]), float(roi[len(axes) + i]))
        if where == "tf_crop_and_resize":
            outside.append((axis, (at < 0) | (at > extent - 1)))
        x = _resized(n, b, x, axis, at, scale, mode.removeprefix("bi"))
    for axis, mask in outside:
        if mask.any():
            wide = b.broadcast_along(b.constant(mask), x.type.shape, axis)
            x = b.select(wide, n.attr("extrapolation_value", 0.0), x)
    return x


def _scales_and_sizes(n: OnnxNode, extents: Sequence[int]) -> tuple[list[float], list[int]]:
    """The scale and the new extent of each axis."""
    at = 2 if n.op_type == "Resize" and n.opset >= 11 else 1
    if "scales" in n.attributes:
        scales = [float(s) for s in n.attributes["scales"]]
    elif n.has(at) and n.known(at).size:
        scales = [float(s) for s in n.known(at).ravel()]
    else:
        sizes = integers(n.known(3))
        scales = [s / e for s, e in zip(sizes, extents, strict=True)]
        policy = n.attr("keep_aspect_ratio_policy", "stretch")
        if policy != "stretch":
            one = min(scales) if policy == "not_larger" else max(scales)
            return [one] * len(scales), [int(np.floor(one * e + 0.5)) for e in extents]
        return scales, sizes
    return scales, list(limited([int(np.floor(s * e)) for s, e in zip(scales, extents, strict=True)]))


def _coordinates(where: str, extent: int, size: int, scale: float, start: float, end: float) -> Array:
    """The place in the operand of each new element."""
    y, wide = np.arange(size, dtype=np.float64), scale * extent
    if where == "align_corners":
        return y * (extent - 1) / (wide - 1) if wide != 1 else y * 0
    if where == "asymmetric":
        return y / scale
    if where == "tf_crop_and_resize":
        if wide == 1:
            return np.full(size, (start + end) * (extent - 1) / 2)
        return start * (extent - 1) + y * (end - start) * (extent - 1) / (wide - 1)
    if where == "pytorch_half_pixel" and wide == 1:
        return np.full(size, -0.5)
    offset = extent / 2 * (1 - size / wide) if where == "half_pixel_symmetric" else 0.0
    if where not in ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel"):
        raise Unsupported(f"coordinate_transformation_mode {where!r} is not supported")
    return offset + (y + 0.5) / scale - 0.5


_NEAREST = {
    "round_prefer_floor": lambda at: np.ceil(at - 0.5),
    "round_prefer_ceil": lambda at: np.floor(at + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}


def _resized(n: OnnxNode, b: CoreBuilder, x: Value, axis: int, at: Array, scale: float, mode: str) -> Value:
    extent = x.type.shape[axis]
    if mode == "nearest":
        how = n.attr("nearest_mode", "floor" if n.op_type == "Upsample" or n.opset < 11 else "round_prefer_floor")
        places = np.clip(_NEAREST[how](at), 0, extent - 1).astype(np.int64)
        return b.take(x, b.constant(places), axis)
    weights, left = _weights(n, at, scale, mode)
    places = np.clip(np.ceil(at).astype(np.int64) - 1, -extent, 2 * extent)[:, None] + left
    if n.attr("exclude_outside", 0):
        weights = np.where((places < 0) | (places >= extent), 0, weights)
        weights = weights / weights.sum(1, keepdims=True)
    wide, places = x if x.type.dtype.is_float else b.cast(x, DType.F32), np.clip(places, 0, extent - 1)
    if at.size * extent <= _LARGEST_MATRIX:
        result = _product(b, wide, axis, places, weights)
    else:
        result = _weighted(b, wide, axis, places, weights)
    return _rounded(b, result, x.type.dtype)


def _product(b: CoreBuilder, x: Value, axis: int, places: Array, weights: Array) -> Value:
    """The product with a matrix that has the weights at the places."""
    count, rank = len(places), x.type.rank
    matrix = np.zeros((count, x.type.shape[axis]))
    np.add.at(matrix, (np.broadcast_to(np.arange(count)[:, None], places.shape), places), weights)
    moved = b.dot(x, b.constant(matrix, x.type.dtype), (), (), (axis,), (1,))
    return b.transpose(moved, [*range(axis), rank - 1, *range(axis, rank - 1)])


def _weighted(b: CoreBuilder, x: Value, axis: int, places: Array, weights: Array) -> Value:
    """The sum of the neighbours, each with its weights."""
    terms = []
    for place, weight in zip(places.T, weights.T, strict=True):
        taken = b.take(x, b.constant(np.ascontiguousarray(place)), axis)
        factor = b.constant(np.ascontiguousarray(weight), x.type.dtype)
        terms.append(b.mul(taken, b.broadcast_along(factor, taken.type.shape, axis)))
    return reduce(b.add, terms)


def _rounded(b: CoreBuilder, x: Value, dtype: DType) -> Value:
    if dtype.is_float:
        return x
    bounds = np.iinfo(dtype.numpy)
    return b.cast(b.minimum(b.maximum(x, bounds.min), bounds.max), dtype)


def _weights(n: OnnxNode, at: Array, scale: float, mode: str) -> tuple[Array, Array]:
    """The weights of the neighbours of each place, and their positions relative to the last one left of it."""
    ratio = (at - (np.ceil(at) - 1))[:, None]
    shrunk = min(scale, 1.0) if n.attr("antialias", 0) else 1.0
    reach = {"linear": 1, "cubic": 2}.get(mode)
    if reach is None:
        raise Unsupported(f"mode {mode!r} is not supported")
    first = int(np.floor(-reach / shrunk)) + 1
    left = np.arange(first, 2 - first)
    distance = np.abs(left - ratio) * shrunk
    if mode == "linear":
        weights = np.clip(1 - distance, 0, 1)
    else:
        a = n.attr("cubic_coeff_a", -0.75)
        near = (a + 2) * distance**3 - (a + 3) * distance**2 + 1
        far = a * distance**3 - 5 * a * distance**2 + 8 * a * distance - 4 * a
        weights = np.where(distance <= 1, near, np.where(distance < 2, far, 0))
    return weights / weights.sum(1, keepdims=True), left
