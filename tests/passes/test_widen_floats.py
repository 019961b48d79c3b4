"""Networks of 16-bit floats are computed in float32 and rounded as before."""

from __future__ import annotations

import numpy as np
import pytest
from compiled import compiled, run_program
from mxforge.ir.dialects.core import Conv, CoreBuilder, Dot, evaluate_graph
from mxforge.ir.graph import Graph, Value
from mxforge.ir.scalar import ReduceOp
from mxforge.ir.types import DType
from mxforge.passes.widen_floats import WidenFloats
from rewriting import assert_text, assert_unchanged, graph_text, random_inputs, run_pass, tensor

HALVES = pytest.mark.parametrize("dtype", [DType.F16, DType.BF16], ids=lambda d: d.value)
ROUNDING = {DType.F16: 2**-10, DType.BF16: 2**-7}


def conv(b: CoreBuilder, x: Value, filters: int, stride: int = 1, groups: int = 1) -> Value:
    w = b.input(tensor(filters, x.type.shape[1] // groups, 3, 3))
    b.parameters.add(len(b.inputs) - 1)
    return b.conv(x, b.cast(w, x.type.dtype), (stride, stride), ((1, 1), (1, 1)), groups=groups)


def network(dtype: DType) -> Graph:
    """Convolutions of all kinds, a residual sum, a maximum over windows, a mean, and a product. Inputs and results are
    float32."""
    b = CoreBuilder("network")
    y = b.maximum(conv(b, b.cast(b.input(tensor(2, 3, 12, 12)), dtype), 24, 2), 0.0)
    z = b.add(conv(b, conv(b, y, 24, groups=24), 24), y)
    z = b.reduce_window(ReduceOp.MAX, z, (1, 1, 2, 2), (1, 1, 2, 2), ((0, 0),) * 4)
    mean = b.mul(b.sum(z, (2, 3)), 1 / 9)
    w = b.cast(b.input(tensor(5, 24)), dtype)
    return b.build([b.cast(v, DType.F32) for v in (z, b.dot(mean, w, (), (), (1,), (1,)))])


def test_a_layer() -> None:
    b = CoreBuilder()
    x, w = b.input(tensor(1, 16, 4, 4, dtype=DType.F16)), b.input(tensor(16, 16, 1, 1, dtype=DType.F16))
    y = b.maximum(b.conv(x, w, (1, 1), ((0, 0), (0, 0))), b.neg(x))
    result = run_pass(WidenFloats(), b.build([y]))
    assert_text(
        graph_text(result),
        """
        (%arg0: 1x16x4x4xf16, %arg1: 16x16x1x1xf16):
          %0 = cast(%arg0) {dtype = f32} : 1x16x4x4xf32
          %1 = cast(%arg1) {dtype = f32} : 16x16x1x1xf32
          %2 = conv(%0, %1) {strides = [1, 1], padding = [0, 0, 0, 0]} : 1x16x4x4xf32
          %3 = cast(%2) {dtype = f16} : 1x16x4x4xf16
          %4 = neg(%0) : 1x16x4x4xf32
          %5 = cast(%4) {dtype = f16} : 1x16x4x4xf16
          %6 = cast(%3) {dtype = f32} : 1x16x4x4xf32
          %7 = max(%6, %4) : 1x16x4x4xf32
          %8 = cast(%7) {dtype = f16} : 1x16x4x4xf16
          return %8
        """,
    )


@HALVES
def test_all_convolutions_are_in_float32(dtype: DType) -> None:
    result = run_pass(WidenFloats(), network(dtype))
    convolutions = [n for n in result.nodes if isinstance(n.op, Conv)]
    assert len(convolutions) == 3 and all(v.type.dtype is DType.F32 for n in convolutions for v in n.inputs)
    (product,) = (n for n in result.nodes if isinstance(n.op, Dot))
    assert product.outputs[0].type.dtype is dtype, "the weights of a product are read once: widening doubles the bytes"


@HALVES
def test_values_are_those_of_16_bits(dtype: DType) -> None:
    graph = network(dtype)
    inputs = random_inputs(graph)
    expected = evaluate_graph(graph, inputs)
    widened = evaluate_graph(run_pass(WidenFloats(), graph), inputs)
    program = run_program(compiled(graph), inputs)
    for exact, *others in zip(expected, widened, program, strict=True):
        for other in others:
            assert np.abs(exact - other).max() <= 3 * ROUNDING[dtype] * np.abs(exact).max()


def test_graphs_without_convolutions_of_16_bits_stay() -> None:
    b = CoreBuilder()
    x = b.input(tensor(1, 16, 4, 4))
    y = b.maximum(b.cast(conv(b, x, 16), DType.F16), 0.0)
    assert_unchanged(WidenFloats(), b.build([y]))
