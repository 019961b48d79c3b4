"""The backward pass of attention saves a number for each row, and computes weights again."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from attention_graphs import (
    F32,
    arrays_of,
    attention,
    causal,
    heads_of_a_layer,
    interleaved_self,
    masked,
    softmax,
    with_lengths,
)
from mxforge.codegen.llvm.target import AVX512
from mxforge.codegen.triton.target import SM90
from mxforge.ir.dialects.core import Fused, evaluate_graph
from mxforge.ir.dialects.core.split import Split
from mxforge.ir.dialects.mx.builder import MxBuilder
from mxforge.ir.graph import Graph, Value
from mxforge.ir.target import Capabilities
from mxforge.ir.types import TensorType
from mxforge.passes.manager import Context, Options, run_passes
from mxforge.passes.training import training_graphs

Array = np.ndarray


def split_of(graph: Graph, wrt: list[int], target: Capabilities) -> Split:
    return training_graphs(graph, wrt, Context(target, Options(training=True)))


def gradients(split: Split, arrays: list[Array]) -> list[Array]:
    """The gradients by the interpreter, for cotangents that are equal in each call."""
    results = evaluate_graph(split.forward, arrays)
    residuals = [arrays[s.position] if s.is_input else results[s.position] for s in split.residuals]
    cotangents = split.backward.inputs[len(residuals) :]
    rng = np.random.default_rng(1)
    drawn = [rng.standard_normal(v.type.shape).astype(np.float32) for v in cotangents]
    return evaluate_graph(split.backward, [*residuals, *drawn])


def regions(graph: Graph) -> list[str]:
    """The kinds of the regions of a graph on a GPU, without those of moves."""
    fused = run_passes(SM90.passes, graph, Context(SM90, Options(training=True)))
    kinds = [n.op.kind for n in fused.nodes if isinstance(n.op, Fused)]
    return [kind for kind in kinds if kind not in ("move", "join", "pointwise")]


def floats(graph: Graph) -> list[int]:
    return [i for i, v in enumerate(graph.inputs) if v.type.dtype.is_float]


@pytest.mark.parametrize(
    "graph",
    [
        attention(),
        attention(scores=causal),
        attention(weights=with_lengths),
        heads_of_a_layer(2, 33, 3, 8),
        interleaved_self(33, 2, 3, 8),
    ],
    ids="plain causal lengths layer interleaved".split(),
)
def test_nothing_of_the_size_of_scores_is_saved(graph: Graph) -> None:
    arrays, wrt = arrays_of(graph), floats(graph)
    split, plain = split_of(graph, wrt, SM90), split_of(graph, wrt, AVX512)
    for found, expected in zip(gradients(split, arrays), gradients(plain, arrays), strict=True):
        np.testing.assert_allclose(found, expected, 1e-5, 1e-5)
    assert regions(split.forward) == ["attention"]
    assert sorted(regions(split.backward)) == ["attention", "attention", "attention", "row"]


def test_dropout() -> None:
    """The mask that is saved is an operand of both kernels."""
    b = MxBuilder()
    q, k, v = (b.input(TensorType((3, 20, 8), F32)) for _ in range(3))
    mask = b.input(TensorType((3, 20, 20), F32))
    weights = b.mul(softmax(b, b.dot(q, k, (0,), (0,), (2,), (2,))), mask)
    graph = b.build([b.dot(weights, v, (0,), (0,), (2,), (1,))])
    split, plain = (split_of(graph, [0, 1, 2], t) for t in (SM90, AVX512))
    arrays = arrays_of(graph)
    for found, expected in zip(gradients(split, arrays), gradients(plain, arrays), strict=True):
        np.testing.assert_allclose(found, expected, 1e-5, 1e-5)
    assert regions(split.forward) == ["attention"]
    assert sorted(regions(split.backward)) == ["attention", "attention", "attention", "row"]


def read_weights(read: Callable[[MxBuilder, Value], Value]) -> Graph:
    b = MxBuilder()
    q, k, v = (b.input(TensorType((3, 20, 8), F32)) for _ in range(3))
    weights = softmax(b, b.dot(q, k, (0,), (0,), (2,), (2,)))
    return b.build([b.dot(weights, v, (0,), (0,), (2,), (1,)), read(b, weights)])


@pytest.mark.parametrize(
    "graph",
    [
        attention(scores=masked),
        attention((3, 50, 129)),
        read_weights(lambda b, weights: weights),
        read_weights(lambda b, weights: b.sum(b.mul(weights, weights), (1, 2))),
    ],
    ids="mask wide output entropy".split(),
)
def test_weights_that_others_need_are_saved(graph: Graph) -> None:
    """The gradient of a mask, an output, and other functions of weights need values of the size of scores."""
    split, plain = (split_of(graph, floats(graph), t) for t in (SM90, AVX512))
    assert [v.type for v in split.forward.outputs] == [v.type for v in plain.forward.outputs]
    arrays = arrays_of(graph)
    for found, expected in zip(gradients(split, arrays), gradients(plain, arrays), strict=True):
        np.testing.assert_allclose(found, expected, 1e-5, 1e-5)
