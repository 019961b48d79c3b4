"""Products and convolutions in StableHLO."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.dialects.core import Conv, ConvWeightGradient, Dot
from ...ir.types import DType, TensorType
from .reductions import NARROW
from .text import Text
from .writer import Val, integers, pairs

Orders = Sequence[Sequence[int]]
"""The permutations of the axes of a convolution's operands and of its result from the orders that `core.conv` has."""


def _accumulated(op: Dot | Conv | ConvWeightGradient, x: Val) -> DType:
    accumulator = None if isinstance(op, ConvWeightGradient) else op.accumulator
    return accumulator or (DType.F32 if x.type.dtype in NARROW else x.type.dtype)


def _same_dtype(x: Val, y: Val, dtype: DType, t: Text) -> tuple[Val, Val]:
    """Operands of one dtype: StableHLO multiplies no u8 by i8."""
    return (x, y) if x.type.dtype is y.type.dtype else (t.convert(x, dtype), t.convert(y, dtype))


def dot(t: Text, op: Dot, types: Sequence[TensorType], x: Val, y: Val) -> Sequence[Val]:
    numbers = {
        "lhs_batching_dimensions": op.lhs_batch,
        "rhs_batching_dimensions": op.rhs_batch,
        "lhs_contracting_dimensions": op.lhs_contract,
        "rhs_contracting_dimensions": op.rhs_contract,
    }
    listed = ", ".join(f"{name} = [{', '.join(map(str, axes))}]" for name, axes in numbers.items())
    result = TensorType(types[0].shape, _accumulated(op, x))
    x, y = _same_dtype(x, y, result.dtype, t)
    product = t.one("stablehlo.dot_general", (x, y), result, {"dot_dimension_numbers": f"#stablehlo.dot<{listed}>"})
    return [t.convert(product, types[0].dtype)]


def _convolution(
    t: Text,
    x: Val,
    w: Val,
    result: TensorType,
    padding: Sequence[tuple[int, int]],
    counts: tuple[int, int],
    orders: Orders = (),
    /,
    **steps: Sequence[int],
) -> Val:
    """A convolution of images (N, C, *s) with filters (O, C / groups, *k); `counts` are its groups and batch groups."""
    spatial = [str(k) for k in range(x.type.rank - 2)]
    axes = [[*first, *spatial] for first in ("bf", "oi", "bf")]
    images, filters, results = (
        ", ".join(of[k] for k in order) for of, order in zip(axes, orders or [range(x.type.rank)] * 3, strict=True)
    )
    attributes = {
        "dimension_numbers": f"#stablehlo.conv<[{images}]x[{filters}]->[{results}]>",
        "padding": pairs(padding),
        **{name: integers(values) for name, values in steps.items()},
        "feature_group_count": f"{counts[0]} : i64",
        "batch_group_count": f"{counts[1]} : i64",
    }
    x, w = _same_dtype(x, w, result.dtype, t)
    return t.one("stablehlo.convolution", (x, w), result, attributes)


def conv(t: Text, op: Conv, types: Sequence[TensorType], x: Val, w: Val) -> Sequence[Val]:
    return [convolution(t, op, types[0], x, w)]


def convolution(t: Text, op: Conv, type: TensorType, x: Val, w: Val, orders: Orders = ()) -> Val:
    """The result of a convolution of this type."""
    result = TensorType(type.shape, _accumulated(op, x))
    steps = {"window_strides": op.strides, "lhs_dilation": op.lhs_dilation, "rhs_dilation": op.rhs_dilation}
    convolved = _convolution(t, x, w, result, op.padding, (op.groups, op.batch_groups), orders, **steps)
    return t.convert(convolved, type.dtype)


def conv_weight_gradient(t: Text, op: ConvWeightGradient, types: Sequence[TensorType], x: Val, g: Val) -> Sequence[Val]:
    """A convolution of x with the cotangent as filters: images are summed, and channels are the images."""
    extents = zip(x.type.shape[2:], g.type.shape[2:], op.window, op.strides, op.padding, op.rhs_dilation, strict=True)
    padding = [
        (low, (k - 1) * dilation + (out - 1) * stride + 1 - n - low)
        for n, out, k, stride, (low, _), dilation in extents
    ]
    out, channels, *window = types[0].shape
    result = TensorType((channels, out, *window), _accumulated(op, x))
    steps = {"window_strides": op.rhs_dilation, "lhs_dilation": [1] * len(window), "rhs_dilation": op.strides}
    gradient = _convolution(t, _exchanged(t, x), _exchanged(t, g), result, padding, (1, op.groups), **steps)
    return [t.convert(_exchanged(t, gradient), types[0].dtype)]


def _exchanged(t: Text, x: Val) -> Val:
    """The first two axes exchanged."""
    first, second, *rest = x.type.shape
    type = TensorType((second, first, *rest), x.type.dtype)
    return t.one("stablehlo.transpose", (x,), type, {"permutation": integers([1, 0, *range(2, x.type.rank)])})
