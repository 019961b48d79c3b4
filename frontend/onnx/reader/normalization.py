"""Rules of normalisations."""

from __future__ import annotations

from collections.abc import Sequence

from ....ir.dialects.core.builder import CoreBuilder
from ....ir.graph import Value
from ....ir.scalar import ReduceOp
from ....ir.types import DType
from .node import OnnxNode, rule


def standardized(
    b: CoreBuilder, x: Value, axes: Sequence[int], epsilon: float, centred: bool = True
) -> tuple[Value, Value | None, Value]:
    """(x - mean) / sqrt(variance + epsilon) over axes, the mean, and the reciprocal deviation."""
    shape = x.type.shape
    mean = b.mean(x, axes, True) if centred else None
    moved = x if mean is None else b.sub(x, b.broadcast_to(mean, shape))
    scale = b.rsqrt(b.add(b.mean(b.square(moved), axes, True), epsilon))
    return b.mul(moved, b.broadcast_to(scale, shape)), mean, scale


def _affine(b: CoreBuilder, x: Value, scale: Value, bias: Value | None) -> Value:
    """x times numbers for each channel, plus others."""
    shape = x.type.shape
    y = b.mul(x, b.broadcast_along(scale, shape, 1))
    return y if bias is None else b.add(y, b.broadcast_along(bias, shape, 1))


@rule("BatchNormalization")
def batch_normalization(n: OnnxNode) -> list[Value]:
    x, scale, bias, mean, variance = n.operands()
    b, dtype = n.b, x.type.dtype
    results = []
    if n.attr("training_mode", 0):
        axes = [k for k in range(x.type.rank) if k != 1]
        momentum, running = n.attr("momentum", 0.9), (mean, variance)
        mean = b.cast(b.mean(x, axes), mean.type.dtype)
        moved = b.sub(x, b.broadcast_along(b.cast(mean, dtype), x.type.shape, 1))
        variance = b.cast(b.mean(b.square(moved), axes), variance.type.dtype)
        new = (b.mul(v, 1 - momentum) for v in (mean, variance))
        results = [b.add(b.mul(old, momentum), v) for old, v in zip(running, new, strict=True)]
    factor = b.rsqrt(b.add(b.cast(variance, dtype), n.attr("epsilon", 1e-5)))
    moved = b.sub(x, b.broadcast_along(b.cast(mean, dtype), x.type.shape, 1))
    y = b.mul(moved, b.broadcast_along(factor, x.type.shape, 1))
    return [_affine(b, y, b.cast(scale, dtype), b.cast(bias, dtype)), *results][: max(1, len(n.results))]


@rule("InstanceNormalization")
def instance_normalization(n: OnnxNode) -> Value:
    x = n[0]
    y = standardized(n.b, x, range(2, x.type.rank), n.attr("epsilon", 1e-5))[0]
    return _affine(n.b, y, n[1], n[2])


@rule("LayerNormalization", "RMSNormalization")
def layer_normalization(n: OnnxNode) -> list[Value]:
    x, b, dtype = n[0], n.b, n[0].type.dtype
    axes = range(n.axis(-1, x.type.rank), x.type.rank)
    wide = b.cast(x, DType.F32) if dtype.bits < 32 and n.attr("stash_type", 1) == 1 else x
    centred = n.op_type == "LayerNormalization"
    y, mean, scale = standardized(b, wide, axes, n.attr("epsilon", 1e-5), centred)
    y = b.mul(b.cast(y, n[1].type.dtype), b.broadcast_to(n[1], x.type.shape))
    if n.has(2):
        y = b.add(y, b.broadcast_to(n[2], x.type.shape))
    results = [y] if mean is None else [y, mean, scale]
    return results[: len(n.results)]


@rule("GroupNormalization")
def group_normalization(n: OnnxNode) -> Value:
    """Before version 21 scale and bias are numbers of groups, since then of channels."""
    x, b, groups = n[0], n.b, n.attr("num_groups")
    shape = x.type.shape
    each = shape[1] // groups
    wide = b.reshape(x, (shape[0], groups, each * (x.type.size // (shape[0] * shape[1]))))
    y = b.reshape(standardized(b, wide, (2,), n.attr("epsilon", 1e-5))[0], shape)
    scale, bias = n[1], n[2]
    if n.opset < 21 and each > 1:
        scale, bias = (b.reshape(b.broadcast(v, (groups, each), (0,)), (shape[1],)) for v in (scale, bias))
    return _affine(b, y, scale, bias)


@rule("MeanVarianceNormalization")
def mean_variance_normalization(n: OnnxNode) -> Value:
    x, b = n[0], n.b
    axes, shape = n.attr("axes", [0, 2, 3]), x.type.shape
    moved = b.sub(x, b.broadcast_to(b.mean(x, axes, True), shape))
    deviation = b.add(b.sqrt(b.mean(b.square(moved), axes, True)), 1e-9)
    return b.div(moved, b.broadcast_to(deviation, shape))


@rule("LpNormalization")
def lp_normalization(n: OnnxNode) -> Value:
    x, b = n[0], n.b
    axis = n.axis(-1, x.type.rank)
    norm = b.sum(b.abs(x), axis, True) if n.attr("p", 2) == 1 else b.sqrt(b.sum(b.square(x), axis, True))
    whole = b.broadcast_to(norm, x.type.shape)
    return b.select(b.eq(whole, 0), b.full_like(x, 0), b.div(x, whole))


@rule("LRN")
def lrn(n: OnnxNode) -> Value:
    x, b, size = n[0], n.b, n.attr("size")
    rank, low = x.type.rank, (size - 1) // 2
    window = [1, size] + [1] * (rank - 2)
    pads = [(0, 0), (low, size - 1 - low)] + [(0, 0)] * (rank - 2)
    total = b.reduce_window(ReduceOp.ADD, b.square(x), window, [1] * rank, pads)
    base = b.add(b.mul(total, n.attr("alpha", 1e-4) / size), n.attr("bias", 1.0))
    return b.div(x, b.pow(base, n.attr("beta", 0.75)))
