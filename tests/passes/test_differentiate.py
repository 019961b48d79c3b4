"""Differentiation of whole graphs: the order of inputs and outputs, the residuals of loops, errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from mxforge.codegen.llvm.target import AVX2
from mxforge.ir.dialects.core import Call, Cond, CoreBuilder, Dot, Iota, Pointwise, Scan, interpret
from mxforge.ir.graph import Graph, GraphError, Op
from mxforge.ir.scalar import ReduceOp, ScalarOp
from mxforge.ir.types import DType, TensorType
from mxforge.ir.verifier import verify_graph
from mxforge.passes.differentiate import Differentiate, differentiate, vjp_graph
from mxforge.passes.manager import Context

Array = np.ndarray[Any, Any]
F64 = DType.F64
LOG, EXP, ADD = ScalarOp.LOG, ScalarOp.EXP, ScalarOp.ADD


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
    assert [v.name for v in both.inputs] == ["x", "w", "moving", "cotangent", "cotangent"]
    assert (both.name, both.parameters, both.updates) == ("train", frozenset({1}), (2,))
    values = [np.array(a, float) for a in ([1, 2, 3], [4, 5, 6], [0, 0, 0], [1, 10, 100])]
    results = interpret(both, [*values, np.array(7)])
    assert [r.tolist() for r in results] == [[4, 10, 18], 2, [1, 20, 300], [4, 50, 600], [1, 2, 3]]
    assert len(both.updates) == 1 and both.outputs[-1] is g.outputs[-1]


def test_shared_values_add_up_and_unused_inputs_get_zeros() -> None:
    b = CoreBuilder()
    x, unused, count = b.input(vector(2)), b.input(vector(2)), b.input(TensorType((2,), DType.I32))
    y = b.add(b.square(x), x)
    g = b.build([y, y, x])
    found = interpret(vjp_graph(g), [np.array([3.0, 4.0]), np.ones(2), np.ones(2, np.int32), *[np.ones(2)] * 3])
    assert [r.tolist() for r in found] == [[15, 19], [0, 0], [0, 0]]
    assert not {unused, count} & set(vjp_graph(g).outputs)


def test_rounding_to_integers_has_no_derivative() -> None:
    b = CoreBuilder()
    x = b.input(vector())
    g = b.build([b.mul(b.cast(b.cast(x, DType.I32), F64), x)])
    assert interpret(vjp_graph(g), [np.full(3, 2.5), np.ones(3)])[0].tolist() == [2, 2, 2]


def test_gradients_of_integers_are_integers() -> None:
    b = CoreBuilder()
    x = b.input(TensorType((3,), DType.I32))
    y = b.max(b.mul(b.mul(x, x), b.sub(x, 1)), (0,))
    g = b.build([b.cast(b.neg(y), F64), b.sqrt(b.cast(b.shift_right(x, 1), F64))])
    found = interpret(vjp_graph(g), [np.array([1, 2, 3], np.int32), np.array(1.7), np.ones(3)])
    assert found[0].dtype == np.int32 and found[0].tolist() == [0, 0, -21]


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


def carries_and_stacks(graph: Graph) -> list[tuple[bool, int, int]]:
    """For each loop: whether it is reversed, and its numbers of carries and stacks."""
    loops = [(n.op, len(n.outputs)) for n in graph.nodes if isinstance(n.op, Scan)]
    return [(op.reverse, op.carries, results - op.carries) for op, results in loops]


def test_a_loop_saves_residuals_and_runs_once_in_each_direction() -> None:
    """Only the carry before each step is saved: the step itself is cheap and recomputed."""
    g = _recurrence()
    both = differentiate(g, [0, 1])
    assert carries_and_stacks(both) == [(False, 1, 1), (True, 1, 1)]
    arrays = [np.full(3, 0.5), np.arange(12.0).reshape(4, 3) / 6, np.ones(3)]
    wanted = interpret(vjp_graph(g), arrays)
    for found, expected in zip(interpret(both, arrays)[1:], wanted, strict=True):
        np.testing.assert_array_equal(found, expected)


def test_a_loop_whose_gradient_is_not_needed_stays_as_it_is() -> None:
    g = _recurrence()
    b = CoreBuilder()
    start, steps, x = (b.input(v.type) for v in (*g.inputs, g.inputs[0]))
    rounded = b.floor(b.inline(g, [start, steps])[0])
    both = differentiate(b.build([b.mul(rounded, x), b.mul(b.inline(g, [start, steps])[0], x)]), [2])
    assert carries_and_stacks(both) == [(False, 1, 0), (False, 1, 0)]
    behind = differentiate(b.build([b.mul(rounded, x)]), [0, 2])
    assert carries_and_stacks(behind) == [(False, 1, 0)]


def test_a_loop_computes_only_requested_cotangents() -> None:
    both = differentiate(_recurrence(), [0])
    assert carries_and_stacks(both) == [(False, 1, 1), (True, 1, 0)]


def attention() -> Graph:
    """A loop in a loop: the outer one carries a state through a product, the inner one through a weighted sum."""
    inner = CoreBuilder("inner")
    s, x, w = (inner.input(t) for t in (vector(), vector(), TensorType((3, 3), F64)))
    inner_body = inner.build([inner.tanh(inner.add(inner.mul(s, x), inner.dot(w, x, (), (), (1,), (0,))))])
    outer = CoreBuilder("outer")
    s, rows, w = (outer.input(t) for t in (vector(), TensorType((2, 3), F64), TensorType((3, 3), F64)))
    (last,) = outer.scan(inner_body, [s], [rows], [w], 2)
    body = outer.build([outer.dot(w, outer.exp(last), (), (), (0,), (0,)), outer.sum(last)])
    b = CoreBuilder()
    s, blocks, w = (b.input(t) for t in (vector(), TensorType((4, 2, 3), F64), TensorType((3, 3), F64)))
    return b.build(b.scan(body, [s], [blocks], [w], 4))


def branching() -> Graph:
    """A loop of branches, each with products and its own draw; the branch depends on the state."""
    square = TensorType((3, 3), F64)
    branches = [CoreBuilder("then"), CoreBuilder("otherwise")]
    graphs: list[Graph] = []
    for branch in branches:
        s, w = branch.input(vector()), branch.input(square)
        product = branch.dot(w, s, (), (), (1,), (0,))
        if branch is branches[0]:
            graphs.append(branch.build([branch.tanh(product), branch.sum(product)]))
        else:
            graphs.append(branch.build([branch.mul(branch.sigmoid(product), branch.sin(s)), branch.max(s)]))
    step = CoreBuilder("step")
    s, w = step.input(vector()), step.input(square)
    body = step.build(step.cond(step.gt(step.sum(s), 0.0), graphs[0], graphs[1], s, w))
    b = CoreBuilder()
    return b.build(b.scan(body, [b.input(vector())], [], [b.input(square)], 5))


def bounded() -> Graph:
    """A loop of at most six steps that ends after fewer."""
    test, step = CoreBuilder("test"), CoreBuilder("step")
    x, _ = test.input(TensorType((), F64)), test.input(vector())
    condition = test.build([test.lt(x, 5.0)])
    x, y = step.input(TensorType((), F64)), step.input(vector())
    body = step.build([step.add(step.mul(x, 1.7), 0.3), step.mul(step.sin(y), step.broadcast(x, (3,), ()))])
    b = CoreBuilder()
    return b.build(b.while_(condition, body, b.input(TensorType((), F64)), b.input(vector()), limit=6))


def bounded_with_weights() -> Graph:
    """A loop whose state includes weights that do not change; both are results."""
    test, step = CoreBuilder("test"), CoreBuilder("step")
    _, x = test.input(TensorType((3, 3), F64)), test.input(vector())
    condition = test.build([test.lt(test.sum(x), 5.0)])
    w, x = step.input(TensorType((3, 3), F64)), step.input(vector())
    body = step.build([w, step.add(step.dot(w, x, (), (), (1,), (0,)), 0.5)])
    b = CoreBuilder()
    w, x = b.input(TensorType((3, 3), F64)), b.input(vector())
    found, last = b.while_(condition, body, w, x, limit=7)
    return b.build([b.sin(found), last])


def test_unchanged_values_of_a_bounded_loop_are_not_stacked() -> None:
    both = differentiate(bounded_with_weights(), [0, 1])
    forward = next(n for n in both.nodes if isinstance(n.op, Scan) and not n.op.reverse)
    assert not [v.type for v in forward.outputs if v.type.shape[-2:] == (3, 3)]


@pytest.mark.parametrize("made", [attention, branching, bounded, bounded_with_weights])
def test_loops_and_branches_by_central_differences(made: Callable[[], Graph]) -> None:
    g = made()
    verify_graph(both := differentiate(g, range(len(g.inputs))))
    rng = np.random.default_rng(5)
    arrays = [np.asarray(rng.uniform(0.2, 0.9, v.type.shape)) for v in g.inputs]
    seeds = [np.asarray(rng.normal(size=v.type.shape)) for v in g.outputs]
    gradients = interpret(both, [*arrays, *seeds])[len(g.outputs) :]
    for i, gradient in enumerate(gradients):
        direction = rng.normal(size=arrays[i].shape)
        above, below = (interpret(g, [*arrays[:i], arrays[i] + h * direction, *arrays[i + 1 :]]) for h in (1e-6, -1e-6))
        slope = sum(((p - q) * s).sum() for p, q, s in zip(above, below, seeds, strict=True)) / 2e-6
        np.testing.assert_allclose((gradient * direction).sum(), slope, 1e-6, 1e-8)


def test_branches_save_the_residuals_of_their_gradients() -> None:
    """One saves its result and one its product: neither product is recomputed, and two belong to the gradient."""
    both = differentiate(branching(), [0, 1])
    backward = next(n.op for n in both.nodes if isinstance(n.op, Scan) and n.op.reverse)
    (branch,) = (n.op for n in backward.body.nodes if isinstance(n.op, Cond))
    products = [sum(isinstance(n.op, Dot) for n in g.nodes) for g in branch.regions()]
    assert products == [2, 2]
    forward = next(n for n in both.nodes if isinstance(n.op, Scan) and not n.op.reverse)
    kept = [str(v.type) for v in forward.outputs[2:]]
    assert kept == ["tensor<5xi1>", "tensor<5x3xf64>", "tensor<5x3xf64>", "tensor<5x3xf64>"]  # also the state before


def test_the_gradient_of_a_loop_can_be_differentiated() -> None:
    g = _recurrence()
    first = differentiate(g, [0, 1])
    second = differentiate(first, [0, 1])
    assert [v.type for v in second.outputs[len(first.outputs) :]] == [v.type for v in g.inputs]
    verify_graph(second)


def test_a_call_can_carry_a_gradient() -> None:
    """The identity, with a gradient of zeros."""
    body, gradient = CoreBuilder("body"), CoreBuilder("stop")
    identity = body.build([body.input(vector())])
    x, _, _ = (gradient.input(vector()) for _ in range(3))
    stop = gradient.build([gradient.full_like(x, 0)])
    b = CoreBuilder()
    x = b.input(vector())
    (stopped,) = b.call(identity, x, gradient=stop)
    g = b.build([b.mul(stopped, x)])
    assert interpret(vjp_graph(g), [np.full(3, 2.0), np.ones(3)])[0].tolist() == [2, 2, 2]
    nothing = Graph("none", stop.inputs, (), ())
    with pytest.raises(TypeError, match="one cotangent for each operand in wrt"):
        Call(identity, nothing).infer(vector())
    assert Call(identity, nothing, ()).infer(vector()) == (vector(),)
    with pytest.raises(TypeError, match="wrt requires a gradient"):
        Call(identity, None, (0,)).infer(vector())


def test_nothing_is_computed_behind_a_stopped_gradient() -> None:
    """Neither before it nor for it, although the logarithm of a negative number would have a gradient."""
    b = CoreBuilder()
    x = b.input(vector())
    kept = b.stop_gradient(b.log(x))
    g = differentiate(b.build([b.add(b.exp(kept), x)]), [0])
    assert [n.op for n in g.nodes if isinstance(n.op, Pointwise)] == [Pointwise(op) for op in (LOG, EXP, ADD)]
    assert g.outputs == (g.outputs[0], g.inputs[1])


def test_calls_are_equal_by_structure() -> None:
    def call(factor: float) -> Call:
        b = CoreBuilder()
        x = b.input(vector())
        b.custom_gradient(lambda b, x: b.square(x), lambda b, x, y, g: [b.mul(g[0], factor)], x)
        assert isinstance(b.nodes[0].op, Call)
        return b.nodes[0].op

    assert call(2.0) == call(2.0)
    assert hash(call(2.0)) == hash(call(2.0))
    assert call(2.0) != call(3.0)


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


def test_errors_name_the_node_or_input() -> None:
    b = CoreBuilder("net")
    x, label = b.input(vector(), "x"), b.input(TensorType((3,), DType.BOOL), "label")
    y = b.node(_Foreign(), x, name="head", location="net.py:7").outputs[0]
    g = b.build([y, label])
    with pytest.raises(GraphError, match="input 'label' of type tensor<3xi1> has no gradient"):
        differentiate(g, [1])
    with pytest.raises(GraphError, match="graph 'net' has no input 5"):
        differentiate(g, [5])
    with pytest.raises(GraphError, match=r"mx.foreign 'head' at net.py:7 is not a core primitive"):
        differentiate(g, [0])
