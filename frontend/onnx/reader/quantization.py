"""Rules of operators on quantized integers."""

from __future__ import annotations

from collections.abc import Sequence

from ....ir.dialects.core.builder import CoreBuilder
from ....ir.graph import Value
from ....ir.types import DType
from .node import OnnxNode, Unsupported, dtype_of, rule
from .products import matmul
from .windows import pads_of

_RANGES = {
    DType.U8: (0, 255),
    DType.I8: (-128, 127),
    DType.U16: (0, 65535),
    DType.I16: (-32768, 32767),
}


def _along(b: CoreBuilder, parameter: Value, shape: Sequence[int], axis: int, block: int = 0) -> Value:
    """A scale or a zero point for each element: one for all, one for each slice along an axis, or one for each block
    of an axis."""
    if parameter.type.size == 1:
        return b.broadcast_to(b.reshape(parameter, ()), shape)
    if parameter.type.rank == 1:
        return b.broadcast_along(parameter, shape, axis)
    axis %= len(shape)
    own = parameter.type.shape
    block = block or -(-shape[axis] // own[axis])
    wide = b.broadcast(
        parameter, (*own[: axis + 1], block, *own[axis + 1 :]), [k + (k > axis) for k in range(len(own))]
    )
    repeated = b.reshape(wide, (*own[:axis], own[axis] * block, *own[axis + 1 :]))
    return b.slice_axis(repeated, axis, 0, shape[axis])


def _quantized(
    b: CoreBuilder, x: Value, scale: Value, zero: Value | None, dtype: DType, axis: int, block: int
) -> Value:
    if dtype not in _RANGES:
        raise Unsupported(f"numbers cannot be quantized to {dtype.full_name}")
    shape = x.type.shape
    y = b.rint(b.div(x, b.cast(_along(b, scale, shape, axis, block), x.type.dtype)))
    wide = b.cast(y, DType.F32)
    if zero is not None:
        wide = b.add(wide, _along(b, b.cast(zero, DType.F32), shape, axis, block))
    low, high = _RANGES[dtype]
    return b.cast(b.minimum(b.maximum(wide, low), high), dtype)


@rule("QuantizeLinear")
def quantize_linear(n: OnnxNode) -> Value:
    x, scale, zero = n[0], n[1], n.get(2)
    named = n.attr("output_dtype", 0)
    dtype = zero.type.dtype if zero is not None else dtype_of(named) if named else DType.U8
    return _quantized(n.b, x, scale, zero, dtype, n.attr("axis", 1), n.attr("block_size", 0))


def _dequantized(b: CoreBuilder, x: Value, scale: Value, zero: Value | None, axis: int, block: int = 0) -> Value:
    shape = x.type.shape
    wide = b.cast(x, DType.I32)
    if zero is not None:
        wide = b.sub(wide, _along(b, b.cast(zero, DType.I32), shape, axis, block))
    y = b.mul(b.cast(wide, DType.F32), b.cast(_along(b, scale, shape, axis, block), DType.F32))
    return b.cast(y, scale.type.dtype)


@rule("DequantizeLinear")
def dequantize_linear(n: OnnxNode) -> Value:
    return _dequantized(n.b, n[0], n[1], n.get(2), n.attr("axis", 1), n.attr("block_size", 0))


@rule("DynamicQuantizeLinear")
def dynamic_quantize_linear(n: OnnxNode) -> list[Value]:
    x, b = n[0], n.b
    low, high = b.minimum(b.min(x), 0), b.maximum(b.max(x), 0)
    scale = b.div(b.sub(high, low), 255)
    zero = b.cast(b.minimum(b.maximum(b.rint(b.div(b.neg(low), scale)), 0), 255), DType.U8)
    return [_quantized(b, x, scale, zero, DType.U8, 0, 0), scale, zero]


def _centred(b: CoreBuilder, x: Value, zero: Value | None, axis: int) -> Value:
    """Integers less their zero point, as I32."""
    wide = b.cast(x, DType.I32)
    return wide if zero is None else b.sub(wide, _along(b, b.cast(zero, DType.I32), x.type.shape, axis))


@rule("MatMulInteger")
def matmul_integer(n: OnnxNode) -> Value:
    x, y = n[0], n[1]
    return matmul(n.b, _centred(n.b, x, n.get(2), -2), _centred(n.b, y, n.get(3), -1))


@rule("ConvInteger")
def conv_integer(n: OnnxNode) -> Value:
    x, w = n[0], n[1]
    strides, dilations, pads = pads_of(n, x.type.shape[2:], w.type.shape[2:])
    operands = _centred(n.b, x, n.get(2), 1), _centred(n.b, w, n.get(3), 0)
    return n.b.conv(*operands, strides, pads, None, dilations, n.attr("group", 1))


def _requantized(n: OnnxNode, exact: Value, scale: Value, position: int, axis: int) -> Value:
    """Sums of products in the scale and zero point of the result, which are the operands from `position` on."""
    b = n.b
    y = b.mul(b.cast(exact, DType.F32), b.cast(scale, DType.F32))
    zero = n[position + 1]
    return _quantized(b, y, n[position], zero, zero.type.dtype, axis, 0)


@rule("QLinearMatMul")
def qlinear_matmul(n: OnnxNode) -> Value:
    b, x, y = n.b, n[0], n[3]
    exact = matmul(b, _centred(b, x, n[2], -2), _centred(b, y, n[5], -1))
    shape = exact.type.shape
    scale = b.mul(_along(b, n[1], shape, -2), _along(b, n[4], shape, -1))
    return _requantized(n, exact, scale, 6, -2)


@rule("QLinearConv")
def qlinear_conv(n: OnnxNode) -> Value:
    b, x, w = n.b, n[0], n[3]
    strides, dilations, pads = pads_of(n, x.type.shape[2:], w.type.shape[2:])
    operands = _centred(b, x, n[2], 1), _centred(b, w, n[5], 0)
    exact = b.conv(*operands, strides, pads, None, dilations, n.attr("group", 1))
    if n.has(8):
        exact = b.add(exact, b.broadcast_along(n[8], exact.type.shape, 1))
    shape = exact.type.shape
    return _requantized(n, exact, b.mul(_along(b, n[1], shape, 1), _along(b, n[4], shape, 1)), 6, 1)
