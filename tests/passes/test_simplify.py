"""Every rule of simplify: what it rewrites, and similar nodes that it must not rewrite."""

from __future__ import annotations

import numpy as np
import pytest
from mxforge.ir.dialects.core import CoreBuilder, Pointwise, evaluate_graph, storage
from mxforge.ir.dialects.core.pointwise import Cast
from mxforge.ir.dialects.core.shape import Broadcast, Reshape, Transpose
from mxforge.ir.graph import Graph, Value
from mxforge.ir.scalar import ReduceOp, ScalarOp
from mxforge.ir.types import DType
from mxforge.passes.simplify import Simplify, splat
from rewriting import assert_rewrites, assert_same_values, assert_unchanged, run_pass, tensor

SIMPLIFY = Simplify()
F32, I32, BF16 = DType.F32, DType.I32, DType.BF16


def outputs_of(result: Graph) -> list[Value | str]:
    """The outputs, as the names of the ops that make them."""
    return [v.node.op.name if v.node else v for v in result.outputs]


def test_identities_are_removed() -> None:
    b = CoreBuilder()
    x, zero = b.input(tensor(2, 3)), b.constant(0.0, F32)
    same = [
        b.add_node(Reshape((2, 3)), x),
        b.add_node(Transpose((0, 1)), x),
        b.add_node(Broadcast((2, 3), (0, 1)), x),
        b.add_node(Cast(F32), x),
        b.slice(x, (0, 0), (2, 3)),
        b.pad(x, zero, (0, 0), (0, 0)),
        b.concat([x], 0),
    ]
    result = run_pass(SIMPLIFY, b.build(same))
    assert outputs_of(result) == [x] * len(same)


def test_reductions_of_one_element_are_reshapes() -> None:
    b = CoreBuilder()
    x = b.input(tensor(3, 1, 5, 1))
    graph = b.build(
        [b.reduce(ReduceOp.ADD, x, (1, 3)), b.reduce(ReduceOp.MAX, x, (3,)), b.reduce(ReduceOp.ADD, x, (0, 1))]
    )
    result = run_pass(SIMPLIFY, graph)
    assert outputs_of(result) == ["core.reshape", "core.reshape", "core.reduce"]
    assert_same_values(graph, result)


def test_crops_that_keep_the_shape_are_not_identities() -> None:
    b = CoreBuilder()
    x = b.input(tensor(4))
    shifted = b.pad(x, b.constant(0.0, F32), (1,), (-1,))
    graph = b.build([shifted, b.concat([x, x], 0)])
    assert_same_values(graph, run_pass(SIMPLIFY, graph))
    assert outputs_of(run_pass(SIMPLIFY, graph)) == ["core.pad", "core.concat"]


def test_chains_of_reshapes_are_one() -> None:
    b = CoreBuilder()
    x = b.input(tensor(2, 6))
    assert_rewrites(
        SIMPLIFY,
        b.build([b.reshape(b.reshape(x, (12,)), (3, 4)), b.reshape(b.reshape(x, (12,)), (2, 6))]),
        """
        (%arg0: 2x6xf32):
          %0 = reshape(%arg0) : 12xf32
          %1 = reshape(%0) : 3x4xf32
          %2 = reshape(%arg0) : 12xf32
          %3 = reshape(%2) : 2x6xf32
          return %1, %3
        ->
        (%arg0: 2x6xf32):
          %0 = reshape(%arg0) : 12xf32
          %1 = reshape(%arg0) : 3x4xf32
          %2 = reshape(%arg0) : 12xf32
          return %1, %arg0
        """,
    )


def test_chains_of_transposes_are_one() -> None:
    b = CoreBuilder()
    x = b.input(tensor(2, 3, 4))
    assert_rewrites(
        SIMPLIFY,
        b.build([b.transpose(b.transpose(x, (2, 0, 1)), (0, 2, 1))]),
        """
        (%arg0: 2x3x4xf32):
          %0 = transpose(%arg0) {permutation = [2, 0, 1]} : 4x2x3xf32
          %1 = transpose(%0) {permutation = [0, 2, 1]} : 4x3x2xf32
          return %1
        ->
        (%arg0: 2x3x4xf32):
          %0 = transpose(%arg0) {permutation = [2, 0, 1]} : 4x2x3xf32
          %1 = transpose(%arg0) {permutation = [2, 1, 0]} : 4x3x2xf32
          return %1
        """,
    )


def test_chains_of_broadcasts_are_one() -> None:
    b = CoreBuilder()
    x = b.input(tensor(3))
    assert_rewrites(
        SIMPLIFY,
        b.build([b.broadcast(b.broadcast(x, (3, 4), (0,)), (2, 3, 4), (1, 2))]),
        """
        (%arg0: 3xf32):
          %0 = broadcast(%arg0) [0] : 3x4xf32
          %1 = broadcast(%0) [1, 2] : 2x3x4xf32
          return %1
        ->
        (%arg0: 3xf32):
          %0 = broadcast(%arg0) [0] : 3x4xf32
          %1 = broadcast(%arg0) [1] : 2x3x4xf32
          return %1
        """,
    )


NEUTRAL = [
    (ScalarOp.ADD, 0, True),
    (ScalarOp.SUB, 0, False),
    (ScalarOp.MUL, 1, True),
    (ScalarOp.DIV, 1, False),
    (ScalarOp.POW, 1, False),
]


@pytest.mark.parametrize(
    ("op", "number", "commutes"), NEUTRAL, ids=lambda v: v.value if isinstance(v, ScalarOp) else ""
)
def test_neutral_elements_are_removed(op: ScalarOp, number: int, commutes: bool) -> None:
    b = CoreBuilder()
    x = b.input(tensor(2, 3))
    neutral = b.full((2, 3), number, F32)
    other = b.full((2, 3), 2, F32)
    uses = [(x, neutral), (neutral, x), (x, other)]
    graph = b.build([b.add_node(Pointwise(op), *use) for use in uses])
    result = run_pass(SIMPLIFY, graph)
    assert [v is x for v in result.outputs] == [True, commutes, False]
    assert_same_values(graph, result)


def test_a_neutral_element_can_be_reshaped() -> None:
    b = CoreBuilder()
    x = b.input(tensor(2, 3))
    one = b.broadcast(b.reshape(b.constant(np.ones((1, 1), np.float32)), (1,)), (2, 3), (1,))
    assert run_pass(SIMPLIFY, b.build([b.mul(x, one)])).outputs == (x,)


def test_constants_are_folded() -> None:
    b = CoreBuilder()
    x = b.input(tensor(2))
    table = b.constant(np.array([[1, 2], [3, 4]], np.float32))
    assert_rewrites(
        SIMPLIFY,
        b.build([b.add(x, b.sum(b.transpose(table, (1, 0)), (0,)))]),
        """
        (%arg0: 2xf32):
          %0 = dense<[[1.0, 2.0], [3.0, 4.0]]> : 2x2xf32
          %1 = transpose(%0) {permutation = [1, 0]} : 2x2xf32
          %2 = reduce(%1) {op = "add", axes = [0]} : 2xf32
          %3 = add(%arg0, %2) : 2xf32
          return %3
        ->
        (%arg0: 2xf32):
          %0 = dense<[[1.0, 2.0], [3.0, 4.0]]> : 2x2xf32
          %1 = dense<[[1.0, 3.0], [2.0, 4.0]]> : 2x2xf32
          %2 = dense<[3.0, 7.0]> : 2xf32
          %3 = add(%arg0, %2) : 2xf32
          return %3
        """,
    )


def test_broadcast_scalars_stay_broadcasts() -> None:
    b = CoreBuilder()
    x = b.input(tensor(2, 3))
    scale = b.rsqrt(b.add(b.full((2, 3), 3.0, F32), b.full((2, 3), 1.0, F32)))
    assert_rewrites(
        SIMPLIFY,
        b.build([b.mul(x, scale)]),
        """
        (%arg0: 2x3xf32):
          %0 = dense<3.0> : f32
          %1 = broadcast(%0) [] : 2x3xf32
          %2 = dense<1.0> : f32
          %3 = broadcast(%2) [] : 2x3xf32
          %4 = add(%1, %3) : 2x3xf32
          %5 = rsqrt(%4) : 2x3xf32
          %6 = mul(%arg0, %5) : 2x3xf32
          return %6
        ->
        (%arg0: 2x3xf32):
          %0 = dense<3.0> : f32
          %1 = broadcast(%0) [] : 2x3xf32
          %2 = dense<1.0> : f32
          %3 = broadcast(%2) [] : 2x3xf32
          %4 = dense<4.0> : f32
          %5 = broadcast(%4) [] : 2x3xf32
          %6 = dense<0.5> : f32
          %7 = broadcast(%6) [] : 2x3xf32
          %8 = mul(%arg0, %7) : 2x3xf32
          return %8
        """,
    )


@pytest.mark.parametrize("dtype", list(DType), ids=lambda d: d.value)
def test_numbers_of_every_dtype_are_folded(dtype: DType) -> None:
    """BF16 has no NumPy dtype."""
    b = CoreBuilder()
    four = b.select(
        b.eq(b.full((5,), 3, dtype), b.full((5,), 3, dtype)), b.full((5,), 1, dtype), b.full((5,), 0, dtype)
    )
    result = run_pass(SIMPLIFY, b.build([four]))
    assert splat(result.outputs[0]) == 1
    assert evaluate_graph(result, [])[0].dtype == storage(dtype)


def test_a_sum_of_bfloat16_numbers_is_rounded() -> None:
    b = CoreBuilder()
    total = b.add(b.full((4,), 256.0, BF16), b.full((4,), 1.0, BF16))
    assert splat(run_pass(SIMPLIFY, b.build([total])).outputs[0]) == 256.0


def test_large_constants_are_not_folded() -> None:
    b = CoreBuilder()
    table = b.constant(np.arange(1 << 17, dtype=np.float32))
    assert_unchanged(SIMPLIFY, b.build([b.exp(table)]))


def test_folded_integers_wrap_as_at_run_time() -> None:
    b = CoreBuilder()
    graph = b.build([b.mul(b.full((3,), 1 << 20, I32), b.full((3,), 1 << 12, I32))])
    result = run_pass(SIMPLIFY, graph)
    assert splat(result.outputs[0]) == 0
    assert_same_values(graph, result)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (0, 2, 1)])
def test_a_sum_of_padded_pieces_is_their_concatenation(order: tuple[int, ...]) -> None:
    b = CoreBuilder()
    zero = b.constant(0.0, F32)
    pieces = [b.input(tensor(2, n)) for n in (3, 1, 4)]
    starts = (1, 4, 5)
    padded = [b.pad(p, zero, (0, s), (0, 10 - s - p.type.shape[1])) for p, s in zip(pieces, starts, strict=True)]
    first, second, third = (padded[i] for i in order)
    graph = b.build([b.add(b.add(first, second), third)])
    result = run_pass(SIMPLIFY, graph)
    assert_same_values(graph, result)
    (value,) = result.outputs
    assert value.node is not None
    assert [type(n.op).__name__ for n in (value.node, value.node.inputs[0].node) if n] == ["Pad", "Concat"]
    assert value.node.inputs[0].node is not None
    assert value.node.inputs[0].node.inputs == result.inputs


@pytest.mark.parametrize(
    ("low", "high"),
    [(((0, 2), (0, 3)), ((0, 5), (0, 4))), (((0, 0), (0, 0)), ((0, 7), (0, 7))), (((0, 0), (1, 0)), ((0, 7), (0, 7)))],
    ids=["overlap", "the same place", "different axes"],
)
def test_other_sums_of_padded_pieces_stay(low: tuple[tuple[int, int], ...], high: tuple[tuple[int, int], ...]) -> None:
    b = CoreBuilder()
    zero, width = b.constant(0.0, F32), 10
    pieces = [b.input(tensor(2 - lo[0], width - lo[1] - hi[1])) for lo, hi in zip(low, high, strict=True)]
    first, second = (b.pad(p, zero, lo, hi) for p, lo, hi in zip(pieces, low, high, strict=True))
    graph = b.build([b.add(first, second)])
    assert outputs_of(run_pass(SIMPLIFY, graph)) == ["core.pointwise"]
    assert_same_values(graph, run_pass(SIMPLIFY, graph))


def test_a_piece_of_a_concatenation_is_a_piece_of_its_operand() -> None:
    b = CoreBuilder()
    x, y = b.input(tensor(2, 3)), b.input(tensor(2, 4))
    both = b.concat([x, y], 1)
    assert_rewrites(
        SIMPLIFY,
        b.build([b.slice_axis(both, 1, 3, 7), b.slice(both, (1, 1), (2, 3)), b.slice_axis(both, 1, 2, 4)]),
        """
        (%arg0: 2x3xf32, %arg1: 2x4xf32):
          %0 = concat(%arg0, %arg1) {axis = 1} : 2x7xf32
          %1 = slice(%0) {start = [0, 3], stop = [2, 7], step = [1, 1]} : 2x4xf32
          %2 = slice(%0) {start = [1, 1], stop = [2, 3], step = [1, 1]} : 1x2xf32
          %3 = slice(%0) {start = [0, 2], stop = [2, 4], step = [1, 1]} : 2x2xf32
          return %1, %2, %3
        ->
        (%arg0: 2x3xf32, %arg1: 2x4xf32):
          %0 = concat(%arg0, %arg1) {axis = 1} : 2x7xf32
          %1 = slice(%arg1) {start = [0, 0], stop = [2, 4], step = [1, 1]} : 2x4xf32
          %2 = slice(%arg0) {start = [1, 1], stop = [2, 3], step = [1, 1]} : 1x2xf32
          %3 = slice(%0) {start = [0, 2], stop = [2, 4], step = [1, 1]} : 2x2xf32
          return %arg1, %2, %3
        """,
    )


@pytest.mark.parametrize("side", [0, 1])
def test_a_product_with_one_number_is_that_number_times_sums(side: int) -> None:
    b = CoreBuilder()
    x = b.input(tensor(3, 4) if side else tensor(4, 5))
    operands = [x, b.full((4, 5), 2, DType.F32)] if side else [b.full((3, 4), 2, DType.F32), x]
    graph = b.build([b.matmul(operands[0], operands[1])])
    simple = run_pass(SIMPLIFY, graph)
    assert not any(n.op.name == "core.dot" for n in simple.nodes)
    assert_same_values(graph, simple, 1e-6)
