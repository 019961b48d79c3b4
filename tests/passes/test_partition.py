"""Partition: the residuals, the equivalence of both parts with the joint graph, and speed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations
from math import prod
from time import process_time
from typing import Any

import numpy as np
import pytest
from compiled import compiled, run_program
from mxforge.codegen.llvm.target import AVX2
from mxforge.ir.dialects.core import (
    Cholesky,
    Conv,
    ConvWeightGradient,
    CoreBuilder,
    Dot,
    RandomBits,
    Reduce,
    Sort,
    interpret,
)
from mxforge.ir.dialects.core.split import Source, Split
from mxforge.ir.dialects.mx.operator import Operator, lookup
from mxforge.ir.graph import Graph, GraphBuilder, Node, Value
from mxforge.ir.scalar import ReduceOp
from mxforge.ir.types import DType, TensorType
from mxforge.ir.verifier import verify_graph
from mxforge.passes.differentiate import differentiate
from mxforge.passes.manager import Context, Options, run_passes
from mxforge.passes.partition import partition
from mxforge.passes.pipeline import JOINT, to_core_with_gradients
from mxforge.passes.recompute_cost import has_own_kernel, keeping_cost, recomputing_cost
from mxforge.passes.training import training_graphs, with_stored_inputs
from mxforge.runtime.host.machine import host_target
from random_graphs import Maker
from rewriting import random_inputs, tensor

Array = np.ndarray[Any, Any]
TRAINING = Context(AVX2, Options(training=True))


def op(name: str, **attributes: Any) -> Operator:
    return lookup(name).parse(attributes)


def joint_of(graph: Graph, wrt: Sequence[int]) -> Graph:
    return run_passes(JOINT, differentiate(graph, wrt), TRAINING)


def split_of(graph: Graph, wrt: Sequence[int]) -> tuple[Graph, Split]:
    """The joint graph of a core graph, and its parts, verified."""
    joint = joint_of(graph, wrt)
    parts = partition(joint, len(joint.inputs) - len(graph.inputs), len(wrt))
    verify_graph(parts.forward)
    verify_graph(parts.backward)
    return joint, parts


def run(
    parts: Split, arrays: Sequence[Array], cotangents: Sequence[Array], execute: Any = interpret
) -> tuple[list[Array], list[Array]]:
    """The results of the forward and of the backward graph."""
    forward = execute(parts.forward, arrays)
    kept = [(arrays if s.is_input else forward)[s.position] for s in parts.residuals]
    return forward, execute(parts.backward, [*kept, *cotangents])


def assert_whole(graph: Graph, wrt: Sequence[int], arrays: Sequence[Array]) -> Split:
    """Both parts together compute what the joint graph computes, bit for bit."""
    joint, parts = split_of(graph, wrt)
    rng = np.random.default_rng(0)
    types = joint.input_types()[len(graph.inputs) :]
    cotangents = [rng.standard_normal(t.shape).astype(t.dtype.numpy) for t in types]
    wanted = interpret(joint, [*arrays, *cotangents])
    forward, gradients = run(parts, arrays, cotangents)
    plain, updates = len(graph.outputs) - len(graph.updates), len(graph.updates)
    assert parts.forward.updates == graph.updates
    found = [*forward[:plain], *gradients, *forward[len(forward) - updates :]]
    for a, w in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(a, w)
    return parts


def kept_types(parts: Split, outputs: int) -> list[str]:
    """The types of the results that only the backward graph reads."""
    last = len(parts.forward.outputs) - len(parts.forward.updates)
    return sorted(str(v.type) for v in parts.forward.outputs[outputs:last])


def convnet(blocks: int, head: str = "SoftmaxOutput") -> tuple[Graph, list[int]]:
    """Blocks of convolution, batch norm and relu, a dense layer and an output layer; and the parameters' positions."""
    b = GraphBuilder()
    weights: list[int] = []

    def weight(*shape: int) -> Value:
        weights.append(len(b.inputs))
        return b.input(tensor(*shape), parameter=True)

    y = b.input(tensor(4, 8, 10, 10), "data")
    for _ in range(blocks):
        y = b.add_node(op("Convolution", kernel=(3, 3), pad=(1, 1), num_filter=8, no_bias=True), y, weight(8, 8, 3, 3))
        scale, shift = weight(8), weight(8)
        moving = b.input(tensor(8)), b.input(tensor(8))
        y = b.node(op("BatchNorm", fix_gamma=False), y, scale, shift, *moving).outputs[0]
        y = b.add_node(op("Activation", act_type="relu"), y)
    y = b.add_node(op("FullyConnected", num_hidden=10, no_bias=True), y, weight(10, 800))
    y = b.add_node(op(head), y, b.input(tensor(4), "label")) if head == "SoftmaxOutput" else b.add_node(op(head), y)
    return b.build([y]), weights


# -- residuals


def test_a_network_keeps_the_operands_of_its_contractions_and_vectors() -> None:
    """Per block, the results of the convolution and of the ReLU are saved; normalized values are recomputed."""
    graph, weights = convnet(2)
    parts = training_graphs(graph, weights, TRAINING)
    whole = "tensor<4x8x10x10xf32>"
    kept = kept_types(parts, 1)
    assert [t for t in kept if t != "tensor<8xf32>"] == [whole] * 4
    assert kept.count("tensor<8xf32>") == 4  # mean and standard deviation of each block
    assert parts.forward.updates == ()
    moved = [parts.residuals[i] for i in parts.backward.updates]
    assert [(s.position, s.is_input) for s in moved] == [(i, True) for i in (4, 5, 9, 10)]
    assert [v for v in parts.backward.inputs if v.name == "label"]


def test_a_budget_is_met_by_recomputing() -> None:
    """Without the results of the ReLUs half of the bytes are saved; contractions are never recomputed."""
    graph, weights = convnet(2)
    arrays = [np.multiply(a, np.float32(0.3)) for a in random_inputs(graph)]
    saved: list[int] = []
    gradients: list[list[Array]] = []
    for budget in (None, 1 << 20, 30_000, 0):
        context = Context(AVX2, Options(training=True, residual_bytes=budget))
        parts = training_graphs(graph, weights, context)
        saved.append(sum(t.nbytes for t in parts.forward.output_types()[1 : len(parts.forward.outputs)]))
        gradients_of_weights = sum(isinstance(n.op, ConvWeightGradient) for n in parts.backward.nodes)
        assert (sum(isinstance(n.op, Conv) for n in parts.backward.nodes), gradients_of_weights) == (1, 2)
        gradients.append(run(parts, arrays, [np.ones(graph.outputs[0].type.shape, np.float32)])[1])
    assert saved[0] == saved[1] > 30_000 > saved[2] >= saved[3]
    for found in gradients[1:]:
        for x, y in zip(found, gradients[0], strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-6)


def test_the_gradient_of_a_batch_norm_takes_three_sums() -> None:
    """The sum of the cotangent, of its product with the centred operand, and of that operand: the error of the mean."""
    graph, weights = convnet(1)
    parts = training_graphs(graph, weights, TRAINING)
    sums = [n for n in parts.backward.nodes if isinstance(n.op, Reduce) and n.op.axes == (0, 2, 3)]
    assert len(sums) == 3


def test_what_windows_slide_over_is_saved() -> None:
    """The forward graph has it in memory, and the gradient of the maximum reads it from memory too."""
    b = CoreBuilder()
    x, w = b.input(tensor(1, 8, 9, 9)), b.input(tensor(8, 8, 3, 3))
    y = b.maximum(b.mul(b.conv(x, w, (1, 1), ((1, 1), (1, 1))), 2.0), 0.0)
    pooled = b.reduce_window(ReduceOp.MAX, y, (1, 1, 2, 2), (1, 1, 2, 2), ((0, 0),) * 4)
    graph = b.build([b.sum(pooled)])
    parts = assert_whole(graph, [1], random_inputs(graph))
    assert any(v.node is not None and v.node.op == y.node.op for v in parts.forward.outputs)  # type: ignore[union-attr]


@pytest.mark.parametrize("name", ["softmax", "sigmoid", "tanh", "relu", "log_softmax", "exp", "sqrt"])
def test_functions_of_their_result_keep_nothing(name: str) -> None:
    b = GraphBuilder()
    graph = b.build([b.add_node(op(name), b.input(tensor(5, 7)))])
    parts = training_graphs(graph, [0], TRAINING)
    assert parts.residuals == (Source(0, False),)
    assert len(parts.forward.outputs) == 1


def test_a_dropout_keeps_bits_and_not_numbers() -> None:
    b = GraphBuilder()
    x, w = b.input(tensor(64, 32)), b.input(tensor(16, 32))
    y = b.add_node(op("Dropout", p=0.5), b.add_node(op("FullyConnected", num_hidden=16, no_bias=True), x, w))
    parts = training_graphs(b.build([y]), [0, 1], TRAINING)
    assert kept_types(parts, 1) == ["tensor<64x16xi1>"]
    assert not any(isinstance(n.op, RandomBits) for n in parts.backward.nodes)


def test_cheap_values_are_recomputed_and_expensive_ones_saved() -> None:
    b = CoreBuilder()
    x = b.input(TensorType((6, 6), DType.F32))
    ordered = b.sort(b.cholesky(b.matmul(x, x)), 1)[0]
    shifted = b.add(b.mul(ordered, 2.0), b.broadcast_along(b.iota((6,), DType.F32, 0), (6, 6), 1))
    graph = b.build([b.sum(b.mul(shifted, b.square(b.matmul(shifted, shifted))))])
    parts = assert_whole(graph, [0], [np.eye(6, dtype=np.float32) + 0.1])
    backward = {type(n.op) for n in parts.backward.nodes}
    forward = [n for n in parts.forward.nodes if isinstance(n.op, Dot | Cholesky | Sort)]
    assert len(forward) == 4
    assert Cholesky not in backward
    assert sum(isinstance(n.op, Dot) for n in parts.backward.nodes) == 4 + 1  # two per product, one for cholesky


def test_inputs_that_the_forward_graph_updates_are_copied() -> None:
    b = CoreBuilder()
    x, state = b.input(tensor(3)), b.input(tensor(3), "state")
    b.updates = (1,)
    graph = b.build([b.mul(x, state), b.add(state, x)])
    parts = assert_whole(graph, [0], random_inputs(graph))
    assert parts.residuals == (Source(1, False),)
    assert parts.forward.outputs[1] is parts.forward.inputs[1]
    assert parts.forward.updates == (1,)


def test_a_gradient_can_be_its_cotangent_or_a_constant() -> None:
    b = GraphBuilder()
    x, y = b.input(tensor(3)), b.input(tensor(3))
    loss = b.add_node(op("MakeLoss", grad_scale=2.0), x)
    parts = training_graphs(
        b.build([loss, b.add_node(op("BlockGrad"), y), b.add_node(op("identity"), y)]), [0, 1], TRAINING
    )
    assert parts.residuals == ()
    _, (dx, dy) = run(parts, [np.ones(3, np.float32)] * 2, [np.full(3, n, np.float32) for n in (5, 6, 7)])
    assert (dx.tolist(), dy.tolist()) == ([2, 2, 2], [7, 7, 7])


def test_the_forward_graph_does_not_run_backwards() -> None:
    """The gradient of a softmax output layer does not depend on a cotangent."""
    graph, weights = convnet(1)
    parts = training_graphs(graph, weights, TRAINING)
    assert sum(isinstance(n.op, Conv) for n in parts.forward.nodes) == 1
    assert sum(isinstance(n.op, ConvWeightGradient) for n in parts.backward.nodes) == 1
    assert not any(isinstance(n.op, Conv) for n in parts.backward.nodes)


# -- equivalence


@pytest.mark.parametrize("seed", range(25))
def test_random_graphs_are_split_without_a_difference(seed: int) -> None:
    maker = Maker(seed)
    graph = maker.graph(30)
    floats = [i for i, v in enumerate(graph.inputs) if v.type.dtype.is_float]
    assert_whole(graph, floats, maker.inputs)


def test_a_network_is_split_without_a_difference() -> None:
    graph, weights = convnet(2, "log_softmax")
    core = run_passes(to_core_with_gradients(()), graph, TRAINING)
    assert_whole(core, weights, [np.multiply(a, np.float32(0.3)) for a in random_inputs(core)])


@pytest.mark.parametrize("steps", [3, 80], ids=["steps", "loop"])
def test_both_parts_of_a_recurrent_network_compile(steps: int) -> None:
    """Few steps are unrolled; many steps stay a loop in each direction."""
    b = GraphBuilder()
    x, weights = b.input(tensor(steps, 2, 3)), b.input(tensor(1 * 4 * 5 * (3 + 5 + 2)))
    states = b.input(tensor(1, 2, 5)), b.input(tensor(1, 2, 5))
    graph = b.build([b.node(op("RNN", mode="lstm", state_size=5, num_layers=1), x, weights, *states).outputs[0]])
    check_compiled(graph, [0, 1])


def test_both_parts_of_a_network_compile() -> None:
    check_compiled(*convnet(1, "log_softmax"))


def check_compiled(graph: Graph, wrt: list[int]) -> None:
    """The CPU target computes what the reference computes, with residuals in blocks between its programs."""
    parts = training_graphs(graph, wrt, Context(host_target(2), TRAINING.options))
    arrays = [np.abs(np.multiply(a, np.float32(0.3))) for a in random_inputs(parts.forward)]
    cotangents = random_inputs(parts.backward)[len(parts.residuals) :]
    wanted = run(parts, arrays, cotangents)
    forward = compiled(parts.forward, TRAINING.options)
    stored = {i: forward.outputs[s.position].layout for i, s in enumerate(parts.residuals) if not s.is_input}
    backward = with_stored_inputs(parts.backward, {i: layout for i, layout in stored.items() if layout is not None})
    verify_graph(backward)
    programs = {parts.forward: forward, parts.backward: compiled(backward, TRAINING.options)}
    found = run(parts, arrays, cotangents, lambda graph, given: run_program(programs[graph], given))
    public = min(parts.forward.private, default=len(forward.outputs))
    for f, w in zip((*found[0][:public], *found[1]), (*wanted[0][:public], *wanted[1]), strict=True):
        np.testing.assert_allclose(f, w, rtol=2e-4, atol=2e-5 * max(1, float(np.abs(w).max())))


# -- the cut is a minimum


def chain() -> tuple[Graph, int]:
    """A product, then cheap and expensive functions of it with side branches, each read by the gradients."""
    b = CoreBuilder()
    x, w = b.input(tensor(4, 8)), b.input(tensor(8, 8))
    y = b.matmul(x, w)
    u = b.mul(b.exp(y), 3.0)
    v = b.tanh(b.add(u, b.broadcast_along(b.sum(y, (0,)), (4, 8), 1)))
    z = b.mul(b.mul(u, v), b.cast(b.gt(v, 0.1), DType.F32))
    return b.build([b.matmul(z, w), b.sum(b.mul(z, v))]), 2


def cost_of(again: set[Node], graph: Graph, joint: Graph, wrt: int) -> int | None:
    """The cost of recomputing the nodes `again`; None if the backward graph would lack an operand."""
    needed = _reachable(joint, joint.outputs[len(graph.outputs) :])
    forward = _reachable(joint, joint.outputs[: len(graph.outputs)])
    kernels = [n for n in forward if has_own_kernel(n)]
    stored = {*graph.inputs, *(v for n in kernels for v in (*n.inputs, *n.outputs))}
    late = needed - forward
    read = {v for n in (*late, *again) for v in n.inputs} - {v for n in (*late, *again) for v in n.outputs}
    kept = read - set(joint.inputs) - set(graph.outputs)
    work = 0
    for node in again:
        cost = recomputing_cost(node)
        if cost is None:
            return None
        work += cost + sum(keeping_cost(v, True) for v in node.outputs if _goes_to_a_kernel(v, late, joint))
    return work + sum(keeping_cost(v, v in stored) for v in kept)


def _reachable(graph: Graph, values: Iterable[Value]) -> set[Node]:
    stack, found = [v.node for v in values], set[Node]()
    while stack:
        node = stack.pop()
        if node is not None and node not in found:
            found.add(node)
            stack += [v.node for v in node.inputs]
    return found


def _goes_to_a_kernel(value: Value, late: set[Node], joint: Graph) -> bool:
    return any(has_own_kernel(n) for n in late if value in n.inputs)


def test_the_cut_has_the_least_cost() -> None:
    """Compared with every possible set of recomputed nodes."""
    graph, wrt = chain()
    joint, parts = split_of(graph, range(wrt))
    forward = _reachable(joint, joint.outputs[: len(graph.outputs)])
    needed = _reachable(joint, joint.outputs[len(graph.outputs) :])
    cheap = [n for n in forward & needed if recomputing_cost(n) is not None]
    costs = [cost_of(set(c), graph, joint, wrt) for k in range(len(cheap) + 1) for c in combinations(cheap, k)]
    least = min(c for c in costs if c is not None)
    chosen = _recomputed(joint, forward, parts)
    assert cost_of(chosen, graph, joint, wrt) == least
    assert chosen
    assert len({c for c in costs if c is not None}) > 10


def _recomputed(joint: Graph, forward: set[Node], parts: Split) -> set[Node]:
    """The nodes of the forward pass that the backward graph recomputes: it needs them and they are not residuals."""
    given = {(parts.forward.inputs if s.is_input else parts.forward.outputs)[s.position] for s in parts.residuals}
    stack = [v for v in joint.outputs if v.node is not None and v.node not in forward]
    found, seen = set[Node](), set[Value]()
    while stack:
        value = stack.pop()
        if value in seen or value in given or value.node is None:
            continue
        seen.add(value)
        found.add(value.node)
        stack += value.node.inputs
    return found & forward


# -- speed


def test_large_networks_are_split_in_seconds() -> None:
    graph, weights = convnet(130, "log_softmax")
    joint = joint_of_mx(graph, weights)
    assert len(joint.nodes) > 5000
    start = process_time()
    partition(joint, 1, len(weights))
    assert process_time() - start < 3


def joint_of_mx(graph: Graph, wrt: Sequence[int]) -> Graph:
    return joint_of(run_passes(to_core_with_gradients(()), graph, TRAINING), wrt)


def test_long_chains_without_contractions_are_split_in_seconds() -> None:
    """One component of the cut that contains all nodes."""
    b = CoreBuilder()
    x = y = b.input(tensor(100))
    for i in range(1000):
        y = b.mul(b.tanh(b.add(y, x)), b.sin(y)) if i % 3 else b.sigmoid(b.mul(y, 1.5))
    graph = b.build([y])
    joint = joint_of(graph, [0])
    assert len(joint.nodes) > 5000
    start = process_time()
    parts = partition(joint, 1, 1)
    assert process_time() - start < 4
    kept = sum(prod(v.type.shape) for v in parts.forward.outputs)
    assert kept < 0.6 * 100 * len(parts.forward.nodes)
