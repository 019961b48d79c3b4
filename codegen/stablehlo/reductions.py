"""Reductions, whole and by windows, in StableHLO."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...ir.dialects.core import Cumulative, Reduce, ReduceWindow, SelectAndScatter
from ...ir.scalar import ReduceOp
from ...ir.types import DType, TensorType
from .scalars import SCALARS
from .text import Text
from .writer import Val, integers, pairs

NARROW = (DType.F16, DType.BF16)


def combine(t: Text, op: ReduceOp) -> Callable[[Val, Val], Sequence[Val]]:
    def body(x: Val, y: Val) -> Sequence[Val]:
        return [SCALARS[op.scalar](t, x, y)]

    return body


def wide(op: ReduceOp, dtype: DType) -> DType:
    """The dtype in which elements are combined: sums and products of 16-bit floats in float32."""
    return DType.F32 if dtype in NARROW and op in (ReduceOp.ADD, ReduceOp.MUL) else dtype


def reduce(t: Text, op: Reduce, types: Sequence[TensorType], x: Val) -> Sequence[Val]:
    dtype = wide(op.op, x.type.dtype)
    element = TensorType((), dtype)
    operands = t.convert(x, dtype), t.fill(op.op.neutral(dtype), element)
    region = (element, element), combine(t, op.op)
    (result,) = t.op(
        "stablehlo.reduce",
        operands,
        (TensorType(types[0].shape, dtype),),
        {"dimensions": integers(op.axes)},
        [region],
    )
    return [t.convert(result, types[0].dtype)]


def _windows(
    t: Text,
    op: ReduceOp,
    x: Val,
    shape: tuple[int, ...],
    window: Sequence[int],
    strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    dilation: Sequence[int],
) -> Val:
    dtype = wide(op, x.type.dtype)
    element = TensorType((), dtype)
    attributes = {
        "window_dimensions": integers(window),
        "window_strides": integers(strides),
        "base_dilations": integers([1] * len(window)),
        "window_dilations": integers(dilation),
        "padding": pairs(padding),
    }
    operands = t.convert(x, dtype), t.fill(op.neutral(dtype), element)
    region = (element, element), combine(t, op)
    (result,) = t.op("stablehlo.reduce_window", operands, (TensorType(shape, dtype),), attributes, [region])
    return t.convert(result, x.type.dtype)


def reduce_window(t: Text, op: ReduceWindow, types: Sequence[TensorType], x: Val) -> Sequence[Val]:
    return [_windows(t, op.op, x, types[0].shape, op.window, op.strides, op.padding, op.dilation)]


def cumulative(t: Text, op: Cumulative, types: Sequence[TensorType], x: Val) -> Sequence[Val]:
    """A window that ends, or begins, at each element."""
    rank, n = x.type.rank, x.type.shape[op.axis]
    if not n:
        return [x]
    window, padding = [1] * rank, [(0, 0)] * rank
    window[op.axis], padding[op.axis] = n, (0, n - 1) if op.reverse else (n - 1, 0)
    return [_windows(t, op.op, x, types[0].shape, window, [1] * rank, padding, [1] * rank)]


def select_and_scatter(
    t: Text, op: SelectAndScatter, types: Sequence[TensorType], x: Val, cotangent: Val
) -> Sequence[Val]:
    """The first maximum of a window is kept, and a NaN above all."""
    element = TensorType((), x.type.dtype)

    def keeps(kept: Val, candidate: Val) -> Sequence[Val]:
        larger, missing = t.compare("GE", kept, candidate), t.compare("NE", kept, kept)
        return [t.one("stablehlo.or", (larger, missing), larger.type)]

    attributes = {
        "window_dimensions": integers(op.window),
        "window_strides": integers(op.strides),
        "padding": pairs(op.padding),
    }
    operands = x, cotangent, t.fill(0, element)
    regions = [((element, element), keeps), ((element, element), combine(t, ReduceOp.ADD))]
    return t.op("stablehlo.select_and_scatter", operands, types, attributes, regions)
