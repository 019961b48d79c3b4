"""Differentiation of whole graphs: where inputs and outputs stand, what loops keep, what errors name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from mxforge.ir.dialects.core import Call, CoreBuilder, Iota, Scan, interpret
from mxforge.ir.graph import Graph, GraphError, Op
from mxforge.ir.kernel import ReduceOp
from mxforge.ir.target import AVX2
from mxforge.ir.types import DType, TensorType
from mxforge.passes.differentiate import Differentiate, differentiate, vjp_graph
from mxforge.passes.manager import Context

Array = np.ndarray[Any, Any]
F64 = DType.F64


def vector(n: int = 3) -> TensorType:
    return TensorType((n,), F64)


def test_order_of_inputs_and_outputs() -> None:
    """Plain outputs, gradients, then the outputs that update inputs."""
    b = CoreBuilder("train")
    x, w, moving = b.input(vector(), "x"), b.input(vector(), "w", parameter=True), b.input(vector(), "moving")
    y = b.mul(x, w)
    label = b.arg_reduce("max", y, 0)
    b.updates = (2,)
    g = b.build([y, label, b.add(moving, x)])
    both = differentiate(g, [1, 0])
    assert [v.name for v in both.inputs] == ["x", "w", "moving", "cotangent"]
    assert (both.name, both.parameters, both.updates) == ("train", frozenset({1}), (2,))
    results = interpret(both, [np.array(a, float) for a in ([1, 2, 3], [4, 5, 6], [0, 0, 0], [1, 10, 100])])
    assert [r.tolist() for r in results] == [[4, 10, 18], 2, [1, 20, 300], [4, 50, 600], [1, 2, 3]]
    assert len(both.updates) == 1 and both.outputs[-1] is g.outputs[-1]


def test_shared_values_add_up_and_unused_inputs_get_zeros() -> None:
    b = CoreBuilder()
    x, unused, count = b.input(vector(2)), b.input(vector(2)), b.input(TensorType((2,), DType.I32))
    y = b.add(b.square(x), x)
    g = b.build([y, y, x])
    found = interpret(vjp_graph(g), [np.array([3.0, 4.0]), np.ones(2), np.ones(2, np.int32), *[np.ones(2)] * 3])
    assert [r.tolist() for r in found] == [[15, 19], [0, 0]]
    assert not {unused, count} & set(vjp_graph(g).outputs)


def test_nothing_flows_through_integers() -> None:
    b = CoreBuilder()
    x = b.input(vector())
    g = b.build([b.mul(b.cast(b.cast(x, DType.I32), F64), x)])
    assert interpret(vjp_graph(g), [np.full(3, 2.5), np.ones(3)])[0].tolist() == [2, 2, 2]


def test_a_network_by_central_differences() -> None:
    """Convolution, normalization over the batch, pooling, softmax cross entropy."""
    rng = np.random.default_rng(3)
    g, arrays = _network(rng)
    gradients = interpret(differentiate(g, range(len(arrays))), [*arrays, np.array(1.0)])[1:]
    for i, gradient in enumerate(gradients):
        direction = rng.normal(size=arrays[i].shape)
        above, below = (
            interpret(g, [*arrays[:i], arrays[i] + h * direction, *arrays[i + 1 :]])[0] for h in (1e-6, -1e-6)
        )
        np.testing.assert_allclose((gradient * direction).sum(), (above - below) / 2e-6, 1e-6, 1e-8)


def _network(rng: np.random.Generator) -> tuple[Graph, list[Array]]:
    shapes = [(4, 2, 6, 6), (5, 2, 3, 3), (5,), (5,), (3, 20)]
    b = CoreBuilder("network")
    x, w, scale, shift, dense = (b.input(TensorType(s, F64)) for s in shapes)
    y = b.conv(x, w, (1, 1), ((0, 0), (0, 0)))
    shape = y.type.shape
    centred = b.sub(y, b.broadcast_along(b.mean(y, (0, 2, 3)), shape, 1))
    spread = b.rsqrt(b.add(b.mean(b.square(centred), (0, 2, 3)), 1e-3))
    y = b.mul(centred, b.broadcast_along(b.mul(spread, scale), shape, 1))
    y = b.maximum(b.add(y, b.broadcast_along(shift, shape, 1)), 0)
    y = b.reduce_window(ReduceOp.MAX, y, (1, 1, 2, 2), (1, 1, 2, 2), ((0, 0),) * 4)
    y = b.dot(b.reshape(y, (4, -1)), dense, (), (), (1,), (1,))
    y = b.sub(y, b.broadcast(b.max(y, 1), y.type.shape, (0,)))
    log_sum = b.log(b.sum(b.exp(y), 1))
    picked = b.gather(y, b.constant([[0], [2], [1], [2]]), (1,), 1)
    return b.build([b.mean(b.sub(log_sum, picked))]), [rng.normal(size=s) for s in shapes]


def _recurrence() -> Graph:
    body = CoreBuilder("cell")
    h, x = body.input(vector()), body.input(vector())
    b = CoreBuilder("recurrence")
    start, steps = b.input(vector()), b.input(TensorType((4, 3), F64))
    (last,) = b.scan(body.build([body.tanh(body.mul(h, x))]), [start], [steps], [], 4)
    return b.build([last])


def test_a_loop_keeps_its_carries_and_runs_once_in_each_direction() -> None:
    both = differentiate(_recurrence(), [0, 1])
    forward, backward = (n.op for n in both.nodes if isinstance(n.op, Scan))
    assert isinstance(forward, Scan) and forward.saved_carries() == [1]
    assert isinstance(backward, Scan) and backward.length == 4
    alone = interpret(vjp_graph(_recurrence()), [np.full(3, 0.5), np.full((4, 3), 2.0), np.ones(3)])
    kept = interpret(both, [np.full(3, 0.5), np.full((4, 3), 2.0), np.ones(3)])[1:]
    for a, k in zip(alone, kept, strict=True):
        np.testing.assert_array_equal(a, k)


def test_a_call_may_have_a_gradient_of_its_own() -> None:
    """The identity that stops the gradient."""
    body, gradient = CoreBuilder("body"), CoreBuilder("stop")
    identity = body.build([body.input(vector())])
    x, _, _ = (gradient.input(vector()) for _ in range(3))
    stop = gradient.build([gradient.full_like(x, 0)])
    b = CoreBuilder()
    x = b.input(vector())
    (stopped,) = b.call(identity, x, gradient=stop)
    g = b.build([b.mul(stopped, x)])
    assert interpret(vjp_graph(g), [np.full(3, 2.0), np.ones(3)])[0].tolist() == [2, 2, 2]
    with pytest.raises(TypeError, match="one cotangent for each float operand"):
        Call(identity, Graph("none", stop.inputs, stop.nodes, ())).infer(vector())


def test_backward_nodes_carry_names_and_locations() -> None:
    b = CoreBuilder()
    x = b.input(vector())
    made = b.node(Iota((3,), F64, 0))
    product = b.node(b.mul(x, made.outputs[0]).node.op, x, made.outputs[0], name="scale", location="net.py:3")  # type: ignore[union-attr]
    added = [n for n in vjp_graph(b.build(product.outputs)).nodes if n.name.endswith("_backward")]
    assert {(n.name, n.location) for n in added} == {("scale_backward", "net.py:3")}


def test_the_pass_is_the_function() -> None:
    g = _recurrence()
    assert Differentiate((1,)).run(g, Context(AVX2)).output_types() == differentiate(g, [1]).output_types()


class _Foreign(Op):
    """An operator of another dialect."""

    name = "mx.foreign"

    def infer(self, *types: TensorType) -> tuple[TensorType, ...]:
        return types

    def attributes(self) -> dict[str, Any]:
        return {}


def test_errors_name_the_culprit() -> None:
    b = CoreBuilder("net")
    x, label = b.input(vector(), "x"), b.input(TensorType((3,), DType.I32), "label")
    y = b.node(_Foreign(), x, name="head", location="net.py:7").outputs[0]
    g = b.build([y, label])
    with pytest.raises(GraphError, match="input 'label' of type tensor<3xi32> has no gradient"):
        differentiate(g, [1])
    with pytest.raises(GraphError, match="graph 'net' has no input 5"):
        differentiate(g, [5])
    with pytest.raises(GraphError, match=r"mx.foreign 'head' at net.py:7 is not a core primitive"):
        differentiate(g, [0])
