"""Scales and shifts per output channel fold into the preceding contraction, once and only where that is correct."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from mxforge.ir.dialects.core import Conv, CoreBuilder, Dot
from mxforge.ir.graph import Graph, Value
from mxforge.ir.types import DType
from mxforge.passes.eliminate import EliminateDeadCode
from mxforge.passes.fold_batchnorm import FoldBatchNorm
from rewriting import Chain, assert_rewrites, assert_same_values, assert_unchanged, run_pass, tensor

FOLD = Chain((FoldBatchNorm(), EliminateDeadCode()))  # folded nodes are unused
F32 = DType.F32


def vector(b: CoreBuilder, n: int) -> Value:
    return b.input(tensor(n), parameter=True)


def along(b: CoreBuilder, v: Value, y: Value, axis: int = 1) -> Value:
    return b.broadcast_along(v, y.type.shape, axis)


def scale_shift(b: CoreBuilder, y: Value, axis: int = 1) -> Value:
    """An inference batch norm as decomposition produces it."""
    n = y.type.shape[axis]
    return b.add(b.mul(y, along(b, vector(b, n), y, axis)), along(b, vector(b, n), y, axis))


def conv(b: CoreBuilder, x: Value, w: Value, groups: int = 1) -> Value:
    return b.conv(x, w, (1, 1), ((1, 1), (1, 1)), groups=groups)


def depends_on_inputs(graph: Graph, value: Value) -> bool:
    """True if a value depends on more than parameters and constants."""
    if value.node is None:
        return value.index not in graph.parameters
    return any(depends_on_inputs(graph, v) for v in value.node.inputs)


def work_of_a_run(graph: Graph) -> list[str]:
    """The ops that every run executes, except broadcasts."""
    running = [n for n in graph.nodes if depends_on_inputs(graph, n.outputs[0])]
    return [n.op.attributes().get("op", n.op.name) for n in running]  # type: ignore[misc]


def test_a_batch_norm_becomes_weights_and_a_shift() -> None:
    b = CoreBuilder()
    x, w = b.input(tensor(1, 2, 4, 4)), b.input(tensor(3, 2, 3, 3), parameter=True)
    y = scale_shift(b, conv(b, x, w))
    assert_rewrites(
        FOLD,
        b.build([y]),
        """
        (%arg0: 1x2x4x4xf32, %arg1: 3x2x3x3xf32, %arg2: 3xf32, %arg3: 3xf32):
          %0 = conv(%arg0, %arg1) {strides = [1, 1], padding = [1, 1, 1, 1]} : 1x3x4x4xf32
          %1 = broadcast(%arg2) [1] : 1x3x4x4xf32
          %2 = mul(%0, %1) : 1x3x4x4xf32
          %3 = broadcast(%arg3) [1] : 1x3x4x4xf32
          %4 = add(%2, %3) : 1x3x4x4xf32
          return %4
        ->
        (%arg0: 1x2x4x4xf32, %arg1: 3x2x3x3xf32, %arg2: 3xf32, %arg3: 3xf32):
          %0 = broadcast(%arg2) [0] : 3x2x3x3xf32
          %1 = mul(%arg1, %0) : 3x2x3x3xf32
          %2 = conv(%arg0, %1) {strides = [1, 1], padding = [1, 1, 1, 1]} : 1x3x4x4xf32
          %3 = broadcast(%arg3) [1] : 1x3x4x4xf32
          %4 = add(%2, %3) : 1x3x4x4xf32
          return %4
        """,
        1e-5,
    )


def test_a_bias_is_scaled_and_shifted() -> None:
    b = CoreBuilder()
    x, w = b.input(tensor(1, 2, 4, 4)), b.input(tensor(3, 2, 3, 3), parameter=True)
    y = conv(b, x, w)
    graph = b.build([scale_shift(b, b.add(y, along(b, vector(b, 3), y)))])
    result = assert_rewrites(
        FOLD,
        graph,
        """
        (%arg0: 1x2x4x4xf32, %arg1: 3x2x3x3xf32, %arg2: 3xf32, %arg3: 3xf32, %arg4: 3xf32):
          %0 = conv(%arg0, %arg1) {strides = [1, 1], padding = [1, 1, 1, 1]} : 1x3x4x4xf32
          %1 = broadcast(%arg2) [1] : 1x3x4x4xf32
          %2 = add(%0, %1) : 1x3x4x4xf32
          %3 = broadcast(%arg3) [1] : 1x3x4x4xf32
          %4 = mul(%2, %3) : 1x3x4x4xf32
          %5 = broadcast(%arg4) [1] : 1x3x4x4xf32
          %6 = add(%4, %5) : 1x3x4x4xf32
          return %6
        ->
        (%arg0: 1x2x4x4xf32, %arg1: 3x2x3x3xf32, %arg2: 3xf32, %arg3: 3xf32, %arg4: 3xf32):
          %0 = broadcast(%arg3) [0] : 3x2x3x3xf32
          %1 = mul(%arg1, %0) : 3x2x3x3xf32
          %2 = conv(%arg0, %1) {strides = [1, 1], padding = [1, 1, 1, 1]} : 1x3x4x4xf32
          %3 = mul(%arg2, %arg3) : 3xf32
          %4 = add(%3, %arg4) : 3xf32
          %5 = broadcast(%4) [1] : 1x3x4x4xf32
          %6 = add(%2, %5) : 1x3x4x4xf32
          return %6
        """,
        1e-5,
    )
    assert work_of_a_run(result) == ["core.conv", "add"]


def test_two_in_a_row_fold_both() -> None:
    b = CoreBuilder()
    x, w = b.input(tensor(1, 2, 4, 4)), b.input(tensor(3, 2, 3, 3), parameter=True)
    graph = b.build([scale_shift(b, scale_shift(b, conv(b, x, w)))])
    result = run_pass(FOLD, graph)
    assert work_of_a_run(result) == ["core.conv", "add"]
    assert_same_values(graph, result, 1e-4)


def test_each_convolution_of_a_chain_has_its_own() -> None:
    b = CoreBuilder()
    y = b.input(tensor(1, 3, 4, 4))
    for _ in range(2):
        y = b.maximum(scale_shift(b, conv(b, y, b.input(tensor(3, 3, 3, 3), parameter=True))), 0.0)
    graph = b.build([y])
    result = run_pass(FOLD, graph)
    assert work_of_a_run(result) == ["core.conv", "add", "max"] * 2
    assert_same_values(graph, result, 1e-4)


@pytest.mark.parametrize("weight_axis", [0, 1])
def test_products_fold_along_their_last_axis(weight_axis: int) -> None:
    b = CoreBuilder()
    x, w = b.input(tensor(5, 4)), b.input(tensor(*((3, 4) if weight_axis == 0 else (4, 3))), parameter=True)
    graph = b.build([scale_shift(b, b.dot(x, w, (), (), (1,), (1 - weight_axis,)))])
    result = run_pass(FOLD, graph)
    assert work_of_a_run(result) == ["core.dot", "add"]
    assert_same_values(graph, result, 1e-5)


def test_grouped_convolutions_fold() -> None:
    b = CoreBuilder()
    x, w = b.input(tensor(2, 4, 5, 5)), b.input(tensor(6, 2, 3, 3), parameter=True)
    graph = b.build([scale_shift(b, conv(b, x, w, 2))])
    result = run_pass(FOLD, graph)
    assert work_of_a_run(result) == ["core.conv", "add"]
    assert_same_values(graph, result, 1e-5)


def test_transposed_convolutions_fold() -> None:
    b = CoreBuilder()
    x, w = b.input(tensor(1, 2, 4, 4)), b.input(tensor(3, 2, 4, 4), parameter=True)
    y = b.conv(x, w, (1, 1), ((2, 2), (2, 2)), lhs_dilation=(2, 2))
    graph = b.build([scale_shift(b, y)])
    result = run_pass(FOLD, graph)
    assert work_of_a_run(result) == ["core.conv", "add"]
    assert_same_values(graph, result, 1e-5)


def shared() -> Graph:
    b = CoreBuilder()
    y = conv(b, b.input(tensor(1, 2, 4, 4)), b.input(tensor(3, 2, 3, 3), parameter=True))
    return b.build([scale_shift(b, y), b.exp(y)])


def result_of_the_graph() -> Graph:
    b = CoreBuilder()
    y = conv(b, b.input(tensor(1, 2, 4, 4)), b.input(tensor(3, 2, 3, 3), parameter=True))
    return b.build([scale_shift(b, y), y])


def weights_are_no_parameters() -> Graph:
    b = CoreBuilder()
    y = conv(b, b.input(tensor(1, 2, 4, 4)), b.input(tensor(3, 2, 3, 3)))
    return b.build([b.mul(y, along(b, vector(b, 3), y))])


def scale_is_no_parameter() -> Graph:
    b = CoreBuilder()
    y = conv(b, b.input(tensor(1, 2, 4, 4)), b.input(tensor(3, 2, 3, 3), parameter=True))
    return b.build([b.mul(y, along(b, b.input(tensor(3)), y))])


def scale_of_another_axis() -> Graph:
    b = CoreBuilder()
    y = conv(b, b.input(tensor(1, 2, 3, 3)), b.input(tensor(3, 2, 3, 3), parameter=True))
    return b.build([b.mul(y, along(b, vector(b, 3), y, 3))])


def squared() -> Graph:
    b = CoreBuilder()
    y = conv(b, b.input(tensor(1, 2, 4, 4)), b.input(tensor(3, 2, 3, 3), parameter=True))
    return b.build([b.mul(y, y)])


def no_parameters() -> Graph:
    b = CoreBuilder()
    y = conv(b, b.input(tensor(1, 2, 4, 4)), b.input(tensor(3, 2, 3, 3)))
    return b.build([scale_shift_constant(b, y)])


def scale_shift_constant(b: CoreBuilder, y: Value) -> Value:
    return b.mul(y, along(b, b.constant([1.0, 2.0, 3.0], F32), y))


def batched_product() -> Graph:
    b = CoreBuilder()
    y = b.matmul(b.input(tensor(2, 4, 3)), b.input(tensor(2, 3, 5), parameter=True))
    return b.build([b.mul(y, along(b, vector(b, 5), y, 2))])


def shift_is_a_number() -> Graph:
    b = CoreBuilder()
    y = conv(b, b.input(tensor(1, 2, 4, 4)), b.input(tensor(3, 2, 3, 3), parameter=True))
    return b.build([b.mul(b.add(y, 1.0), along(b, vector(b, 3), y))])


def shift_of_another_axis() -> Graph:
    b = CoreBuilder()
    y = conv(b, b.input(tensor(1, 2, 3, 3)), b.input(tensor(3, 2, 3, 3), parameter=True))
    return b.build([b.mul(b.add(y, along(b, vector(b, 3), y, 3)), along(b, vector(b, 3), y))])


def second_shift_of_another_axis() -> Graph:
    b = CoreBuilder()
    y = conv(b, b.input(tensor(1, 2, 3, 3)), b.input(tensor(3, 2, 3, 3), parameter=True))
    return b.build([b.add(b.add(y, along(b, vector(b, 3), y, 2)), along(b, vector(b, 3), y))])


REFUSED = [
    shift_is_a_number,
    shift_of_another_axis,
    second_shift_of_another_axis,
    shared,
    result_of_the_graph,
    weights_are_no_parameters,
    scale_is_no_parameter,
    scale_of_another_axis,
    squared,
    no_parameters,
    batched_product,
]


@pytest.mark.parametrize("make", REFUSED, ids=lambda f: f.__name__)
def test_what_must_not_fold(make: Callable[[], Graph]) -> None:
    assert_unchanged(FOLD, make())


def test_a_shared_shift_is_not_folded_twice() -> None:
    b = CoreBuilder()
    y = conv(b, b.input(tensor(1, 2, 4, 4)), b.input(tensor(3, 2, 3, 3), parameter=True))
    shifted = b.add(y, along(b, vector(b, 3), y))
    graph = b.build([b.mul(shifted, along(b, vector(b, 3), y)), b.add(shifted, along(b, vector(b, 3), y))])
    result = run_pass(FOLD, graph)
    assert sum(isinstance(n.op, Conv | Dot) for n in result.nodes) == 1
    assert_same_values(graph, result, 1e-5)
