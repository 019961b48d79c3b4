"""Rules of convolutions and pooling."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from ....ir.graph import Value
from ....ir.scalar import ReduceOp
from ....ir.types import DType
from .node import LARGEST_TABLE, OnnxNode, Unsupported, limited, rule

Pads = list[tuple[int, int]]


def pads_of(n: OnnxNode, extents: Sequence[int], kernel: Sequence[int]) -> tuple[list[int], list[int], Pads]:
    """Strides, dilations and padding of windows over spatial axes."""
    rank = len(kernel)
    strides, dilations = n.attr("strides", [1] * rank), n.attr("dilations", [1] * rank)
    automatic = n.attr("auto_pad", "NOTSET")
    if automatic.startswith("SAME"):
        pads: Pads = []
        for extent, k, stride, dilation in zip(extents, kernel, strides, dilations, strict=True):
            total = max(0, (-(-extent // stride) - 1) * stride + (k - 1) * dilation + 1 - extent)
            half = total // 2
            pads.append((half, total - half) if automatic == "SAME_UPPER" else (total - half, half))
        return strides, dilations, pads
    listed = n.attr("pads", [0] * (2 * rank)) if automatic == "NOTSET" else [0] * (2 * rank)
    return strides, dilations, list(zip(listed[:rank], listed[rank:], strict=True))


def with_bias(n: OnnxNode, x: Value, position: int) -> Value:
    """x plus a number for each channel."""
    bias = n.get(position)
    return x if bias is None else n.b.add(x, n.b.broadcast_along(bias, x.type.shape, 1))


@rule("Conv")
def conv(n: OnnxNode) -> Value:
    x, w = n[0], n[1]
    strides, dilations, pads = pads_of(n, x.type.shape[2:], w.type.shape[2:])
    return with_bias(n, n.b.conv(x, w, strides, pads, None, dilations, n.attr("group", 1)), 2)


@rule("ConvTranspose")
def conv_transpose(n: OnnxNode) -> Value:
    """A convolution of the spread data with the reversed kernel."""
    x, w, b = n[0], n[1], n.b
    extents, kernel = x.type.shape[2:], w.type.shape[2:]
    rank, groups = len(kernel), n.attr("group", 1)
    strides, dilations = n.attr("strides", [1] * rank), n.attr("dilations", [1] * rank)
    extra, pads = _transposed_pads(n, extents, kernel, strides, dilations)
    inputs, outputs = w.type.shape[:2]
    w = b.transpose(b.reshape(w, (groups, inputs // groups, outputs, *kernel)), (0, 2, 1, *range(3, 3 + rank)))
    w = b.reverse(b.reshape(w, (groups * outputs, inputs // groups, *kernel)), range(2, 2 + rank))
    reach = [(k - 1) * d for k, d in zip(kernel, dilations, strict=True)]
    around = [(r - low, r - high + e) for r, (low, high), e in zip(reach, pads, extra, strict=True)]
    return with_bias(n, b.conv(x, w, [1] * rank, around, strides, dilations, groups), 2)


def _transposed_pads(
    n: OnnxNode, extents: Sequence[int], kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> tuple[list[int], Pads]:
    """The additional extents at the ends, and what is cut off at both sides."""
    rank = len(kernel)
    extra, automatic, target_shape = (
        n.attr("output_padding", [0] * rank),
        n.attr("auto_pad", "NOTSET"),
        n.attr("output_shape"),
    )
    if target_shape is None and not automatic.startswith("SAME"):
        return extra, pads_of(n, extents, kernel)[2]
    if target_shape is None:
        target_shape = [e * s for e, s in zip(extents, strides, strict=True)]
    pads: Pads = []
    for e, s, k, d, more, target in zip(extents, strides, kernel, dilations, extra, target_shape[-rank:], strict=True):
        total = s * (e - 1) + more + (k - 1) * d + 1 - target
        half = max(total, 0) // 2  # a larger result has zeros at its end
        pads.append((half, total - half) if automatic == "SAME_UPPER" or total < 0 else (total - half, half))
    return extra, pads


class _Windows:
    """The windows of a pooling node, with the padding that `ceil_mode` adds at the ends."""

    def __init__(self, n: OnnxNode) -> None:
        self.b, self.x, self.kernel = n.b, n[0], n.attr("kernel_shape")
        extents = self.x.type.shape[2:]
        self.strides, self.dilations, self.pads = pads_of(n, extents, self.kernel)
        self.extra = [0] * len(self.kernel)
        if n.attr("ceil_mode", 0) and not n.attr("auto_pad", "NOTSET").startswith("SAME"):
            self.extra = [self._missing(i, extent) for i, extent in enumerate(extents)]

    def _missing(self, i: int, extent: int) -> int:
        reach, stride = (self.kernel[i] - 1) * self.dilations[i] + 1, self.strides[i]
        padded = extent + sum(self.pads[i])
        count = -(-(padded - reach) // stride) + 1
        if (count - 1) * stride >= extent + self.pads[i][0]:
            count -= 1
        return max(0, (count - 1) * stride + reach - padded)

    @property
    def edges(self) -> Pads:
        ends = [(low, high + more) for (low, high), more in zip(self.pads, self.extra, strict=True)]
        return [(0, 0), (0, 0), *ends]

    def reduce(self, op: ReduceOp, x: Value, edges: Pads | None = None) -> Value:
        ones = (1, 1)
        sizes = (*ones, *self.kernel), (*ones, *self.strides), edges or self.edges, (*ones, *self.dilations)
        return self.b.reduce_window(op, x, *sizes)

    def all(self, x: Value, value: float) -> Value:
        """All windows: their elements are the last axis."""
        ones = (1, 1)
        return self.b.windows(
            x, value, (*ones, *self.kernel), (*ones, *self.strides), self.edges, (*ones, *self.dilations)
        )


@rule("MaxPool")
def max_pool(n: OnnxNode) -> list[Value]:
    w = _Windows(n)
    highest = w.reduce(ReduceOp.MAX, w.x)
    if len(n.results) < 2 or not n.results[1]:
        return [highest]
    b, shape = n.b, w.x.type.shape
    spatial = np.arange(prod(shape[2:])).reshape(shape[2:])
    order = spatial if not n.attr("storage_order", 0) else np.arange(spatial.size).reshape(shape[2:][::-1]).T
    lowest = -np.inf if w.x.type.dtype.is_float else np.iinfo(w.x.type.dtype.numpy).min
    best = b.arg_reduce("max", w.all(w.x, float(lowest)), -1)
    places = w.all(b.broadcast_to(b.constant(order.astype(np.int64)), (1, 1, *shape[2:])), -1)
    places = b.broadcast_to(places, (*best.type.shape, places.type.shape[-1]))
    inner = b.squeeze(b.take_along(places, b.expand_dims(best, -1), -1), (-1,))
    planes = b.constant(np.arange(shape[0] * shape[1]).reshape(shape[:2]) * spatial.size)
    return [highest, b.add(inner, b.broadcast(planes, inner.type.shape, (0, 1)))]


@rule("AveragePool")
def average_pool(n: OnnxNode) -> Value:
    w, b = _Windows(n), n.b
    shape = w.x.type.shape
    counted = b.full((1, 1, *shape[2:]), 1, DType.F32)
    if n.attr("count_include_pad", 0):
        low, high = [0, 0, *(p[0] for p in w.pads)], [0, 0, *(p[1] for p in w.pads)]
        counted = b.pad(counted, b.constant(1.0), low, high)
        counts = w.reduce(ReduceOp.ADD, counted, [(0, 0), (0, 0), *((0, more) for more in w.extra)])
    else:
        counts = w.reduce(ReduceOp.ADD, counted)
    total = w.reduce(ReduceOp.ADD, w.x)
    return b.div(total, b.broadcast_to(b.cast(counts, total.type.dtype), total.type.shape))


@rule("LpPool")
def lp_pool(n: OnnxNode) -> Value:
    w, p, b = _Windows(n), n.attr("p", 2), n.b
    powers = b.square(w.x) if p == 2 else b.pow(b.abs(w.x), p)
    total = w.reduce(ReduceOp.ADD, powers)
    return b.sqrt(total) if p == 2 else b.pow(total, 1 / p)


@rule("MaxUnpool")
def max_unpool(n: OnnxNode) -> Value:
    """Elements at the places from which pooling took them; zeros elsewhere."""
    x, indices, b = n[0], n[1], n.b
    kernel = n.attr("kernel_shape")
    rank, shape = len(kernel), x.type.shape
    strides, pads = n.attr("strides", [1] * rank), n.attr("pads", [0] * (2 * rank))
    extents = [
        (e - 1) * s + k - low - high
        for e, s, k, low, high in zip(shape[2:], strides, kernel, pads[:rank], pads[rank:], strict=True)
    ]
    target = limited(n.ints(2, "output_shape") or [*shape[:2], *extents])
    flat = b.full((prod(target),), 0, x.type.dtype)
    inferred = prod([*shape[:2], *extents])
    if prod(target) != inferred:  # the indices address the inferred shape
        flat = b.full((inferred,), 0, x.type.dtype)
    places = b.reshape(indices, (x.type.size, 1))
    filled = b.scatter(flat, places, b.reshape(x, (x.type.size,)), "set", (0,))
    if prod(target) == inferred:
        return b.reshape(filled, tuple(target))
    inner = b.reshape(filled, (*shape[:2], *extents))
    return b.pad(
        inner,
        b.constant(0, x.type.dtype),
        [0] * (rank + 2),
        [t - e for t, e in zip(target, inner.type.shape, strict=True)],
    )


@rule("Col2Im")
def col2im(n: OnnxNode) -> Value:
    """Blocks added at their places in an image."""
    x, b = n[0], n.b
    image, block = n.ints(1, "image_shape") or [], n.ints(2, "block_shape") or []
    rank = len(image)
    strides, dilations, pads = pads_of(n, image, block)
    windows = list(zip(image, block, strides, dilations, pads, strict=True))
    counts = [-(-(e + sum(p) - (k - 1) * d) // s) for e, k, s, d, p in windows]
    limited([*block, *counts], LARGEST_TABLE)
    grids = [
        np.arange(count)[None, :] * s + np.arange(k)[:, None] * d - p[0]
        for count, (_, k, s, d, p) in zip(counts, windows, strict=True)
    ]
    places = np.zeros([g.shape[0] for g in grids] + [g.shape[1] for g in grids], np.int64)
    outside = np.zeros_like(places, np.bool_)
    for i, (grid, extent) in enumerate(zip(grids, image, strict=True)):
        shape = [1] * (2 * rank)
        shape[i], shape[rank + i] = grid.shape
        one = grid.reshape(shape)
        places, outside = places * extent + one, outside | (one < 0) | (one >= extent)
    places = np.where(outside, prod(image), places).reshape(-1, 1)
    batch, columns, count = x.type.shape
    channels = columns // prod(block)
    updates = b.transpose(b.reshape(x, (batch * channels, prod(block) * count)), (1, 0))
    zeros = b.full((prod(image), batch * channels), 0, x.type.dtype)
    filled = b.scatter(zeros, b.constant(places), updates, ReduceOp.ADD, (0,))
    return b.reshape(b.transpose(filled, (1, 0)), (batch, channels, *image))


@rule("ImageDecoder", "TfIdfVectorizer", "StringNormalizer")
def refused(n: OnnxNode) -> Value:
    raise Unsupported("the operator is not supported")
