"""Attention becomes one region, with the moves of its operands and of its result."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from attention_graphs import (
    F32,
    attention,
    causal,
    chosen,
    heads_of_a_layer,
    interleaved_encdec,
    interleaved_self,
    masked,
    softmax,
    with_heads,
    with_lengths,
)
from mxforge.codegen.triton.target import SM90
from mxforge.ir.dialects.core import CoreBuilder, Fused
from mxforge.ir.dialects.mx.builder import MxBuilder
from mxforge.ir.graph import Graph, Value
from mxforge.ir.types import DType, TensorType
from mxforge.passes.divide_once import DivideOnce
from mxforge.passes.eliminate import EliminateDeadCode
from mxforge.passes.fuse_attention import FuseAttention
from mxforge.passes.inline_calls import InlineCalls
from mxforge.passes.manager import Context, Options
from mxforge.passes.simplify import Simplify
from rewriting import assert_same_values, run_pass, tensor

PASS = FuseAttention()
DTYPES = [DType.F32, DType.F16, DType.BF16]


def core(graph: Graph) -> Graph:
    for step in (InlineCalls(), Simplify(), DivideOnce(), Simplify()):
        graph = run_pass(step, graph)
    return graph


def others(graph: Graph) -> list[str]:
    """The nodes beside one region of attention, which computes the same as the graph."""
    graph = core(graph)
    fused = run_pass(EliminateDeadCode(), run_pass(PASS, graph, SM90))
    assert_same_values(graph, fused, 1e-5)
    regions = [n.op for n in fused.nodes if isinstance(n.op, Fused)]
    assert [op.kind for op in regions] == ["attention"]
    return [n.op.name.removeprefix("core.") for n in fused.nodes if not isinstance(n.op, Fused)]


def dropped(b: MxBuilder, x: Value) -> Value:
    """Some weights are zero and the others larger, as by dropout."""
    return b.mul(softmax(b, x), b.input(x.type))


@pytest.mark.parametrize(
    "graph",
    [
        attention(),
        attention(scores=masked),
        attention(scores=chosen),
        attention(scores=causal),
        attention(weights=with_lengths),
        attention(weights=dropped),
        attention((6, 40, 20), keys=70, weights=with_heads),
        attention((1, 1, 4), keys=7),
        *(attention(dtype=dtype) for dtype in DTYPES[1:]),
    ],
    ids="plain mask choice causal lengths dropout heads single float16 bfloat16".split(),
)
def test_masks_are_inside(graph: Graph) -> None:
    assert others(graph) == []


def test_moves_are_inside() -> None:
    """Only reshapes, which cost nothing, stay outside."""
    for graph in (heads_of_a_layer(2, 5, 3, 4), interleaved_self(6, 2, 3, 4), interleaved_encdec(5, 7, 2, 3, 4)):
        assert set(others(graph)) <= {"reshape"}


def test_a_mask_that_others_read_is_an_operand() -> None:
    b = MxBuilder()
    mask = b.tanh(b.input(tensor(3, 50, 45)))
    q, k, v = (b.input(tensor(3, n, 16)) for n in (50, 45, 45))
    weights = softmax(b, b.add(b.dot(q, k, (0,), (0,), (2,), (2,)), mask))
    graph = b.build([b.dot(weights, v, (0,), (0,), (2,), (1,)), mask])
    assert others(graph) == ["pointwise"]


def kept(read: Callable[[MxBuilder, Value, Value], Value]) -> Graph:
    """Attention whose scores and weights another output depends on."""
    b = MxBuilder()
    q, k, v = (b.input(tensor(3, 50, 16)) for _ in range(3))
    scores = b.dot(q, k, (0,), (0,), (2,), (2,))
    weights = softmax(b, scores)
    return b.build([b.dot(weights, v, (0,), (0,), (2,), (1,)), read(b, scores, weights)])


def squared(b: MxBuilder, x: Value) -> Value:
    weights = softmax(b, x)
    return b.mul(weights, weights)


def shared_values() -> Graph:
    b = MxBuilder()
    q, k = b.input(tensor(3, 5, 16)), b.input(tensor(3, 5, 16))
    weights = softmax(b, b.dot(q, k, (0,), (0,), (2,), (2,)))
    return b.build([b.dot(weights, weights, (0,), (0,), (2,), (1,))])


@pytest.mark.parametrize(
    "graph",
    [
        kept(lambda b, scores, weights: weights),
        kept(lambda b, scores, weights: b.sum(scores, (2,))),
        attention(weights=lambda b, x: b.tanh(x)),
        attention(weights=lambda b, x: b.transpose(softmax(b, b.transpose(x, (0, 2, 1))), (0, 2, 1))),
        attention(weights=lambda b, x: softmax(b, b.exp(softmax(b, x)))),
        attention(weights=squared),
        attention(weights=lambda b, x: b.mul(softmax(b, x), x)),
        attention((3, 50, 129)),
        attention(dtype=DType.F64),
        shared_values(),
    ],
    ids="output scores elementwise columns twice squared scaled wide double shared".split(),
)
def test_other_graphs_stay(graph: Graph) -> None:
    graph = core(graph)
    assert run_pass(PASS, graph, SM90) is graph


def test_targets_without_such_kernels() -> None:
    graph = core(attention())
    assert run_pass(PASS, graph) is graph


def test_programs_for_any_shapes_stay() -> None:
    graph = core(attention())
    assert PASS.run(graph, Context(SM90, Options(dynamic=True))) is graph


def test_layers_follow_each_other() -> None:
    b = MxBuilder()
    x = b.input(TensorType((3, 50, 16), F32))
    k, v = (b.input(TensorType((3, 45, 16), F32)) for _ in range(2))
    for _ in range(3):
        x = b.dot(softmax(b, b.dot(x, k, (0,), (0,), (2,), (2,))), v, (0,), (0,), (2,), (1,))
    graph = core(b.build([x]))
    fused = run_pass(EliminateDeadCode(), run_pass(PASS, graph, SM90))
    assert len(fused.nodes) == 3
    assert_same_values(graph, fused, 1e-5)


def test_scaled_queries_are_inside() -> None:
    b = CoreBuilder()
    q, k, v = (b.input(tensor(2, 6, 4)) for _ in range(3))
    scores = b.dot(b.mul(q, 0.5), k, (0,), (0,), (2,), (2,))
    e = b.exp(b.sub(scores, b.broadcast_to(b.max(scores, (2,), keepdims=True), scores.type.shape)))
    weights = b.div(e, b.broadcast_to(b.sum(e, (2,), keepdims=True), e.type.shape))
    assert others(b.build([b.dot(weights, v, (0,), (0,), (2,), (1,))])) == []
