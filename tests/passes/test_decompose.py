"""Decompose says mx operators in core, with their names and lines, and hands on states and random keys."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from mxforge.ir.dialects.core import CoreBuilder, evaluate_graph
from mxforge.ir.dialects.mx.builder import MxBuilder
from mxforge.ir.dialects.mx.operator import Operator, lookup
from mxforge.ir.graph import GraphBuilder, GraphError, Value
from mxforge.passes.decompose import Decompose
from mxforge.passes.manager import Options
from rewriting import assert_text, assert_unchanged, graph_text, run_pass, tensor


def op(name: str, **attributes: Any) -> Operator:
    return lookup(name).parse(attributes)


def test_operators_become_primitives() -> None:
    b = GraphBuilder()
    x, w, bias = b.input(tensor(2, 3)), b.input(tensor(4, 3), parameter=True), b.input(tensor(4), parameter=True)
    y = b.add_node(op("FullyConnected", num_hidden=4), x, w, bias)
    graph = b.build([b.add_node(op("Activation", act_type="relu"), y)])
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
          return %5
        """,
    )
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(t.shape).astype(np.float32) for t in graph.input_types()]
    wanted = np.maximum(arrays[0] @ arrays[1].T + arrays[2], 0)
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
    trained = run_pass(Decompose(), graph, options=Options(training=True))
    assert trained.updates == (3, 4)
    assert len(trained.outputs) == 3
    assert run_pass(Decompose(), graph).updates == ()


def test_graphs_of_core_stay_as_they_are() -> None:
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
