"""Reshapes of products follow the elementwise functions of the product."""

from __future__ import annotations

from mxforge.ir.dialects.core import CoreBuilder
from mxforge.ir.graph import Value
from mxforge.passes.sink_reshapes import SinkReshapes
from rewriting import assert_rewrites, assert_unchanged, tensor


def dense(b: CoreBuilder) -> Value:
    x, w = b.input(tensor(6, 4)), b.input(tensor(4, 5))
    return b.reshape(b.matmul(x, w), (2, 3, 5))


def test_functions_of_a_product() -> None:
    b = CoreBuilder()
    x = dense(b)
    assert_rewrites(
        SinkReshapes(),
        b.build([b.mul(b.mul(x, 0.5), b.erf(x))]),
        """
        (%arg0: 6x4xf32, %arg1: 4x5xf32):
          %0 = dot(%arg0, %arg1) {lhs_batch = [], rhs_batch = [], lhs_contract = [1], rhs_contract = [0]} : 6x5xf32
          %1 = reshape(%0) : 2x3x5xf32
          %2 = dense<0.5> : f32
          %3 = broadcast(%2) [] : 2x3x5xf32
          %4 = mul(%1, %3) : 2x3x5xf32
          %5 = erf(%1) : 2x3x5xf32
          %6 = mul(%4, %5) : 2x3x5xf32
          return %6
        ->
        (%arg0: 6x4xf32, %arg1: 4x5xf32):
          %0 = dot(%arg0, %arg1) {lhs_batch = [], rhs_batch = [], lhs_contract = [1], rhs_contract = [0]} : 6x5xf32
          %1 = reshape(%0) : 2x3x5xf32
          %2 = dense<0.5> : f32
          %3 = broadcast(%2) [] : 2x3x5xf32
          %4 = broadcast(%2) [] : 6x5xf32
          %5 = mul(%0, %4) : 6x5xf32
          %6 = reshape(%5) : 2x3x5xf32
          %7 = erf(%0) : 6x5xf32
          %8 = reshape(%7) : 2x3x5xf32
          %9 = mul(%5, %7) : 6x5xf32
          %10 = reshape(%9) : 2x3x5xf32
          return %10
        """,
    )


def test_other_values_stay() -> None:
    """What reads another tensor, reduces the product or is no function of one."""
    b = CoreBuilder()
    x = dense(b)
    assert_unchanged(SinkReshapes(), b.build([b.add(x, b.input(tensor(2, 3, 5)))]))
    b = CoreBuilder()
    x = dense(b)
    assert_unchanged(SinkReshapes(), b.build([b.tanh(x), b.sum(x, (2,))]))
    b = CoreBuilder()
    assert_unchanged(SinkReshapes(), b.build([b.tanh(b.reshape(b.input(tensor(6, 5)), (2, 3, 5)))]))
