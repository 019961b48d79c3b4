"""Weights of products and convolutions are rounded, and nothing else."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from bfloats import rounded
from mxforge.ir.dialects.core import CoreBuilder, evaluate_graph
from mxforge.ir.graph import Graph, Value
from mxforge.ir.types import DType
from mxforge.passes.manager import Options
from mxforge.passes.narrow_weights import NarrowWeights
from rewriting import assert_text, graph_text, random_inputs, run_pass, tensor

BF16 = Options(weights=DType.BF16)


def dense(b: CoreBuilder, x: Value, w: Value) -> Value:
    return b.dot(x, w, (), (), (1,), (1,))


def parameter(b: CoreBuilder, *shape: int, dtype: DType = DType.F32) -> Value:
    value = b.input(tensor(*shape, dtype=dtype))
    b.parameters.add(len(b.inputs) - 1)
    return value


def narrowed(graph: Graph) -> Graph:
    return run_pass(NarrowWeights(), graph, options=BF16)


def test_a_layer() -> None:
    b = CoreBuilder()
    x, w, bias = b.input(tensor(2, 3)), parameter(b, 4, 3), parameter(b, 4)
    result = narrowed(b.build([b.add(dense(b, x, w), b.broadcast(bias, (2, 4), (1,)))]))
    assert_text(
        graph_text(result),
        """
        (%arg0: 2x3xf32, %arg1: 4x3xf32, %arg2: 4xf32):
          %0 = cast(%arg1) {dtype = bf16} : 4x3xbf16
          %1 = dot(%arg0, %0) {lhs_batch = [], rhs_batch = [], lhs_contract = [1], rhs_contract = [1], accumulator = f32} : 2x4xf32
          %2 = broadcast(%arg2) [1] : 2x4xf32
          %3 = add(%1, %2) : 2x4xf32
          return %3
        """,  # noqa: E501
    )
    x, w, bias = random_inputs(result)
    assert (w != rounded(w)).any()
    np.testing.assert_allclose(evaluate_graph(result, [x, w, bias])[0], x @ rounded(w).T + bias, rtol=1e-6)


def test_weights_computed_from_parameters() -> None:
    """They are rounded once, after the computation."""
    b = CoreBuilder()
    x, v, g = b.input(tensor(2, 3)), parameter(b, 4, 3), parameter(b, 4)
    result = narrowed(b.build([dense(b, x, b.mul(v, b.broadcast(g, (4, 3), (0,))))]))
    x, v, g = (np.asarray(a, np.float32) for a in random_inputs(result))
    np.testing.assert_allclose(evaluate_graph(result, [x, v, g])[0], x @ rounded(v * g[:, None]).T, rtol=1e-6)


def recurrent(b: CoreBuilder, step: Callable[[CoreBuilder, Value, Value], Value]) -> Value:
    """The last state of a loop of three steps with one parameter."""
    inner = CoreBuilder("step")
    body = inner.build([step(inner, inner.input(tensor(2, 4)), inner.input(tensor(4, 4)))])
    return b.scan(body, [b.input(tensor(2, 4))], [], [parameter(b, 4, 4)], 3)[0]


def test_weights_of_a_loop() -> None:
    """They are rounded before it, once."""
    b = CoreBuilder()
    result = narrowed(b.build([recurrent(b, dense)]))
    assert_text(
        graph_text(result),
        """
        (%arg0: 2x4xf32, %arg1: 4x4xf32):
          %0 = cast(%arg1) {dtype = bf16} : 4x4xbf16
          %1 = scan(%arg0, %0) ({
          (%arg2: 2x4xf32, %arg3: 4x4xbf16):
            %2 = dot(%arg2, %arg3) {lhs_batch = [], rhs_batch = [], lhs_contract = [1], rhs_contract = [1], accumulator = f32} : 2x4xf32
            yield %2
          }) {length = 3, carries = 1, scanned = 0, reverse = false} : 2x4xf32
          return %1
        """,  # noqa: E501
    )
    x, w = (np.asarray(a, np.float32) for a in random_inputs(result))
    expected = x @ np.linalg.matrix_power(rounded(w).T.astype(np.float64), 3)
    np.testing.assert_allclose(evaluate_graph(result, [x, w])[0], expected, rtol=1e-5)


KEPT: dict[str, Callable[[CoreBuilder], Value]] = {
    "data": lambda b: dense(b, b.input(tensor(2, 3)), b.input(tensor(4, 3))),
    "constants": lambda b: dense(b, b.input(tensor(2, 3)), b.constant(np.ones((4, 3), np.float32))),
    "products of parameters": lambda b: dense(b, parameter(b, 2, 3), parameter(b, 4, 3)),
    "left operands": lambda b: dense(b, parameter(b, 2, 3), b.input(tensor(4, 3))),
    "vectors": lambda b: b.dot(b.input(tensor(2, 3)), parameter(b, 1, 3), (), (), (1,), (1,)),
    "doubles": lambda b: dense(b, b.input(tensor(2, 3, dtype=DType.F64)), parameter(b, 4, 3, dtype=DType.F64)),
    "a loop that reads its weights otherwise too": lambda b: recurrent(
        b, lambda b, x, w: b.add(dense(b, x, w), b.slice(w, (0, 0), (2, 4), (1, 1)))
    ),
    "a loop that slices its weights": lambda b: recurrent(b, lambda b, x, w: b.slice(w, (0, 0), (2, 4), (1, 1))),
    "depthwise": lambda b: b.conv(
        b.input(tensor(1, 4, 5, 5)), parameter(b, 4, 1, 3, 3), (1, 1), ((1, 1),) * 2, groups=4
    ),
}


@pytest.mark.parametrize("name", KEPT)
def test_kept(name: str) -> None:
    b = CoreBuilder()
    graph = b.build([KEPT[name](b)])
    assert narrowed(graph) is graph


def test_float32_by_default() -> None:
    b = CoreBuilder()
    graph = b.build([dense(b, b.input(tensor(2, 3)), parameter(b, 4, 3))])
    assert run_pass(NarrowWeights(), graph) is graph
