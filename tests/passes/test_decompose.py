"""Decompose lowers mx operators to core with their names and lines, and passes on states and random keys."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from mxforge.ir.dialects.core import Call, CoreBuilder, evaluate_graph
from mxforge.ir.dialects.mx.builder import MxBuilder
from mxforge.ir.dialects.mx.operator import Operator, lookup
from mxforge.ir.graph import GraphBuilder, GraphError, Value
from mxforge.ir.parser import parse_graph
from mxforge.ir.printer import print_graph
from mxforge.ir.types import DType
from mxforge.passes.decompose import Decompose
from mxforge.passes.inline_calls import InlineCalls
from mxforge.passes.manager import Options
from rewriting import assert_text, assert_unchanged, graph_text, run_pass, tensor


def op(name: str, **attributes: Any) -> Operator:
    return lookup(name).parse(attributes)


def test_operators_become_primitives() -> None:
    b = GraphBuilder()
    x, w, bias = b.input(tensor(2, 3)), b.input(tensor(4, 3), parameter=True), b.input(tensor(4), parameter=True)
    y = b.add_node(op("FullyConnected", num_hidden=4), x, w, bias)
    graph = b.build([b.add_node(op("clip", a_min=0, a_max=2), y)])
    result = run_pass(Decompose(), graph)
    assert_text(
        graph_text(result),
        """
        (%arg0: 2x3xf32, %arg1: 4x3xf32, %arg2: 4xf32):
          %0 = dot(%arg0, %arg1) {lhs_batch = [], rhs_batch = [], lhs_contract = [1], rhs_contract = [1]} : 2x4xf32
          %1 = broadcast(%arg2) [1] : 2x4xf32
          %2 = add(%0, %1) : 2x4xf32
          %3 = dense<0.0> : f32
          %4 = broadcast(%3) [] : 2x4xf32
          %5 = max(%2, %4) : 2x4xf32
          %6 = dense<2.0> : f32
          %7 = broadcast(%6) [] : 2x4xf32
          %8 = min(%5, %7) : 2x4xf32
          return %8
        """,
    )
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(t.shape).astype(np.float32) for t in graph.input_types()]
    wanted = np.clip(arrays[0] @ arrays[1].T + arrays[2], 0, 2)
    np.testing.assert_allclose(evaluate_graph(result, arrays)[0], wanted, rtol=1e-5)


def test_new_nodes_carry_the_operators_name_and_line() -> None:
    b = GraphBuilder()
    b.location = "net.py:7"
    graph = b.build([b.add_node(op("LeakyReLU", slope=0.1), b.input(tensor(3)), name="act0")])
    nodes = run_pass(Decompose(), graph).nodes
    assert {(n.name, n.location) for n in nodes} == {("act0", "net.py:7")}


def test_random_operators_append_one_key_for_all() -> None:
    b = GraphBuilder()
    x = b.input(tensor(3, 4))
    for _ in range(2):
        x = b.add_node(op("Dropout", p=0.5), x)
    graph = b.build([x])
    trained = run_pass(Decompose(), graph, options=Options(training=True))
    assert [v.name for v in trained.inputs] == ["", "random_key"]
    assert run_pass(Decompose(), graph).inputs == graph.inputs


def test_moving_statistics_become_updates() -> None:
    b = GraphBuilder()
    x, *rest = (b.input(tensor(*shape)) for shape in ((2, 3, 4, 4), (3,), (3,), (3,), (3,)))
    graph = b.build([b.node(op("BatchNorm"), x, *rest).outputs[0]])
    training = Options(training=True)
    trained = run_pass(Decompose(own_gradients=True), graph, options=training)
    assert trained.updates == (3, 4) and trained.late == {3, 4}
    assert len(trained.outputs) == 3
    for without in (Decompose(), Decompose(own_gradients=True, wrt=())):
        assert run_pass(without, graph, options=training).updates == ()
    assert run_pass(Decompose(own_gradients=True, wrt=(1,)), graph, options=training).updates == (3, 4)
    assert run_pass(Decompose(own_gradients=True), graph).updates == ()


def test_an_operator_with_its_own_gradient_becomes_a_call_that_carries_it() -> None:
    b = GraphBuilder()
    x, label = b.input(tensor(2, 3)), b.input(tensor(2, 3))
    graph = b.build([b.add_node(op("LinearRegressionOutput", grad_scale=3.0), x, label, name="head")])
    assert run_pass(Decompose(), graph).nodes == ()
    result = run_pass(Decompose(own_gradients=True), graph)
    assert_text(
        graph_text(result),
        """
        (%arg0: 2x3xf32, %arg1: 2x3xf32):
          %0 = call(%arg0, %arg1) ({
          (%arg2: 2x3xf32, %arg3: 2x3xf32):
            yield %arg2
          }, {
          (%arg4: 2x3xf32, %arg5: 2x3xf32, %arg6: 2x3xf32, %arg7: 2x3xf32):
            %1 = sub(%arg6, %arg5) : 2x3xf32
            %2 = dense<1.0> : f32
            %3 = broadcast(%2) [] : 2x3xf32
            %4 = mul(%1, %3) : 2x3xf32
            yield %4
          }) {wrt = [0]} : 2x3xf32
          return %0
        """,
    )
    assert [n.name for n in result.nodes] == ["head"]
    assert parse_graph(print_graph(result)).nodes[0].op == result.nodes[0].op


def test_draws_and_updates_of_a_called_operator_belong_to_the_graph() -> None:
    """Keys become operands of the call, new states become results."""

    class Noisy(lookup("IdentityAttachKLSparseReg")):
        def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
            bits = b.cast(b.random_bits(b.random_key(), (3, 2)), DType.F32)
            data = super().decompose(b, *inputs)
            assert isinstance(data, Value)
            return b.add(data, bits)

    b = GraphBuilder()
    x, moving = b.input(tensor(3, 2)), b.input(tensor(2), "moving")
    first = b.add_node(Noisy(), x, moving)
    graph = b.build([first, b.add_node(op("BlockGrad"), b.add_node(op("Dropout"), first))])
    trained = run_pass(Decompose(own_gradients=True), graph, options=Options(training=True))
    assert [v.name for v in trained.inputs] == ["", "moving", "random_key"]
    assert trained.updates == (1,)
    inlined = run_pass(InlineCalls(), trained)
    assert not any(isinstance(n.op, Call) for n in inlined.nodes)
    arrays = [np.ones((3, 2), np.float32), np.full(2, 0.5, np.float32), np.arange(4, dtype=np.uint32)]
    for found, wanted in zip(evaluate_graph(inlined, arrays), evaluate_graph(trained, arrays), strict=True):
        np.testing.assert_array_equal(found, wanted)
    np.testing.assert_allclose(evaluate_graph(inlined, arrays)[-1], 0.5 * 0.9 + 0.1, rtol=1e-6)


def test_core_graphs_are_unchanged() -> None:
    b = CoreBuilder()
    assert_unchanged(Decompose(), b.build([b.exp(b.input(tensor(3)))]))


def test_errors_name_the_node() -> None:
    class Broken(lookup("negative")):
        def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
            if b.training:
                raise ValueError("cannot be trained")
            return inputs[0]

    b = GraphBuilder()
    graph = b.build([b.add_node(Broken(), b.input(tensor(3)), name="sad", location="net.py:3")])
    with pytest.raises(GraphError, match=r"'sad' at net\.py:3: cannot be trained"):
        run_pass(Decompose(), graph, options=Options(training=True))
