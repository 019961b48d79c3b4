"""Dead nodes and repeated computations are removed; constants that differ in a bit are not merged."""

from __future__ import annotations

import numpy as np
from mxforge.codegen.llvm.target import AVX512
from mxforge.ir.dialects.core import CoreBuilder
from mxforge.ir.graph import Effect
from mxforge.ir.types import DType
from mxforge.passes.eliminate import EliminateCommonSubexpressions, EliminateDeadCode
from mxforge.passes.manager import Context
from rewriting import assert_rewrites, assert_unchanged, tensor

DCE, CSE = EliminateDeadCode(), EliminateCommonSubexpressions()


def test_unused_nodes_are_dropped() -> None:
    b = CoreBuilder()
    x, unused = b.input(tensor(3)), b.input(tensor(4))
    y = b.exp(x)
    b.neg(b.tanh(unused))
    b.neg(y)
    result = assert_rewrites(
        DCE,
        b.build([y]),
        """
        (%arg0: 3xf32, %arg1: 4xf32):
          %0 = exp(%arg0) : 3xf32
          %1 = tanh(%arg1) : 4xf32
          %2 = neg(%1) : 4xf32
          %3 = neg(%0) : 3xf32
          return %0
        ->
        (%arg0: 3xf32, %arg1: 4xf32):
          %0 = exp(%arg0) : 3xf32
          return %0
        """,
    )
    assert len(result.inputs) == 2


def test_a_node_lives_while_one_result_does() -> None:
    b = CoreBuilder()
    x = b.input(tensor(3))
    _, positions = b.sort([x, b.iota((3,), x.type.dtype, 0)], 0)
    assert_unchanged(DCE, b.build([positions]))


def test_equal_nodes_on_equal_operands_are_one() -> None:
    b = CoreBuilder()
    x = b.input(tensor(3))
    assert_rewrites(
        CSE,
        b.build([b.add(b.exp(b.neg(x)), b.exp(b.neg(x)))]),
        """
        (%arg0: 3xf32):
          %0 = neg(%arg0) : 3xf32
          %1 = exp(%0) : 3xf32
          %2 = neg(%arg0) : 3xf32
          %3 = exp(%2) : 3xf32
          %4 = add(%1, %3) : 3xf32
          return %4
        ->
        (%arg0: 3xf32):
          %0 = neg(%arg0) : 3xf32
          %1 = exp(%0) : 3xf32
          %2 = add(%1, %1) : 3xf32
          return %2
        """,
    )


def test_outputs_can_become_the_same_value() -> None:
    b = CoreBuilder()
    x = b.input(tensor(3))
    result = assert_rewrites(
        CSE,
        b.build([b.exp(x), b.exp(x)]),
        """
        (%arg0: 3xf32):
          %0 = exp(%arg0) : 3xf32
          %1 = exp(%arg0) : 3xf32
          return %0, %1
        ->
        (%arg0: 3xf32):
          %0 = exp(%arg0) : 3xf32
          return %0, %0
        """,
    )
    assert result.outputs[0] is result.outputs[1]


def test_nodes_with_several_results_are_merged_too() -> None:
    b = CoreBuilder()
    x = b.input(tensor(3))
    places = b.iota((3,), x.type.dtype, 0)
    first, second = b.sort([x, places], 0), b.sort([x, places], 0)
    result = assert_rewrites(
        CSE,
        b.build([first[0], b.neg(second[1])]),
        """
        (%arg0: 3xf32):
          %0 = iota() {shape = [3], dtype = f32, axis = 0} : 3xf32
          %1:2 = sort(%arg0, %0) {axis = 0, descending = false, stable = true} : (3xf32, 3xf32)
          %2:2 = sort(%arg0, %0) {axis = 0, descending = false, stable = true} : (3xf32, 3xf32)
          %3 = neg(%2#1) : 3xf32
          return %1#0, %3
        ->
        (%arg0: 3xf32):
          %0 = iota() {shape = [3], dtype = f32, axis = 0} : 3xf32
          %1:2 = sort(%arg0, %0) {axis = 0, descending = false, stable = true} : (3xf32, 3xf32)
          %2 = neg(%1#1) : 3xf32
          return %1#0, %2
        """,
    )
    assert len(result.nodes) == 3


def test_constants_that_differ_in_a_bit_stay_apart() -> None:
    b = CoreBuilder()
    numbers = [b.constant(np.float32(v)) for v in (0.0, -0.0)] + [b.constant(np.int32(0)), b.constant(np.array([0.0]))]
    assert_unchanged(CSE, b.build(numbers))


def test_operands_in_another_order_are_other_computations() -> None:
    b = CoreBuilder()
    x, y = b.input(tensor(3)), b.input(tensor(3))
    assert_unchanged(CSE, b.build([b.sub(x, y), b.sub(y, x)]))


def test_nodes_with_effects_are_not_merged() -> None:
    """A call in a branch can return another value each time."""
    b, branch = CoreBuilder(), CoreBuilder()
    x, pred = b.input(tensor(3)), b.input(tensor(dtype=DType.BOOL))
    y = branch.input(tensor(3))
    calling = branch.build(branch.host_callback(lambda a: [a], [tensor(3)], y))
    first, second = (b.cond(pred, calling, calling, x)[0] for _ in range(2))
    graph = b.build([b.add(first, second)])
    assert graph.effects() == {Effect.PYTHON}
    assert CSE.run(graph, Context(AVX512)).nodes == graph.nodes
