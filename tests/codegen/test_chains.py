"""Chains: a product, functions of its rows and a product of them run in blocks of rows, with the same bits as one by
one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from attention_graphs import (
    arrays_of,
    attention,
    causal,
    chosen,
    interleaved_encdec,
    interleaved_self,
    masked,
    softmax,
    with_heads,
    with_lengths,
)
from compiled import run_program
from mxforge.codegen.driver import compile_graph, compile_steps
from mxforge.codegen.llvm.target import AVX2, AVX512, NEON, CpuTarget
from mxforge.ir.dialects.core import evaluate_graph
from mxforge.ir.dialects.mx.builder import MxBuilder
from mxforge.ir.graph import Graph, Value
from mxforge.ir.program import CHAIN, Program
from mxforge.ir.types import DType, TensorType
from mxforge.passes.manager import Options
from mxforge.runtime.host.machine import host_target
from mxforge.tools.profile.work import regions

F32 = DType.F32
SMALL = 4 << 10
"""A cache that holds few rows, so that small values are computed in blocks."""


def host(l2_bytes: int = SMALL, threads: int = 2) -> CpuTarget:
    return replace(host_target(threads), l2_bytes=l2_bytes)


def chains(program: Program) -> list[int]:
    """The units of each chain."""
    return [x.count for x in program.launches if x.kind == CHAIN]


def check(graph: Graph) -> None:
    """Assert that the graph is one chain, with the results of separate kernels bit for bit."""
    arrays = arrays_of(graph)
    program, separate = compile_graph(graph, host()), compile_graph(graph, host(l2_bytes=64 << 20))
    assert (len(chains(program)), chains(separate)) == (1, [])
    for found, same, expected in zip(
        run_program(program, arrays), run_program(separate, arrays), evaluate_graph(graph, arrays), strict=True
    ):
        assert found.tobytes() == same.tobytes()
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def squared_share(b: MxBuilder, x: Value) -> Value:
    """A function of rows other than softmax."""
    square = b.mul(x, x)
    return b.div(square, b.broadcast_to(b.sum(square, (2,), keepdims=True), x.type.shape))


@pytest.mark.parametrize(
    "graph",
    [
        attention(),
        attention((1, 130, 8), keys=33),
        attention((6, 48, 48), keys=52),
        attention((6, 40, 20), keys=70, weights=with_heads),
        attention((42, 12, 8), keys=20),
        attention(scores=masked),
        attention(scores=chosen),
        attention(weights=with_lengths),
        attention(weights=squared_share),
        attention(weights=lambda b, x: softmax(b, b.exp(softmax(b, x)))),
        attention(dtype=DType.F64),
    ],
    ids="plain ragged wide heads many masked chosen lengths share twice double".split(),
)
def test_results(graph: Graph) -> None:
    check(graph)


def test_memory() -> None:
    """Two threads hold a block of scores and of weights each, beside packed keys and values."""
    graph = attention((6, 200, 16), keys=200)
    found, separate = (compile_graph(graph, host(l2_bytes=n)).arena_bytes for n in (SMALL, 64 << 20))
    scores = 4 * 6 * 200 * 200
    assert found < scores / 2
    assert separate >= 2 * scores


def test_units() -> None:
    """Blocks are smaller for more threads; a unit computes several small heads."""
    found = [
        chains(compile_graph(graph, replace(AVX512, l2_bytes=SMALL, threads=n)))
        for graph in (attention(), attention((42, 12, 8), keys=20))
        for n in (1, 2, 8)
    ]
    assert found == [[6], [9], [12], [11], [11], [42]]


@pytest.mark.parametrize("graph", [interleaved_self(48, 2, 3, 16), interleaved_encdec(30, 50, 2, 3, 16)])
def test_interleaved_projections(graph: Graph) -> None:
    check(graph)


def kept_scores() -> Graph:
    b = MxBuilder()
    q, k, v = (b.input(TensorType((3, 50, 16), F32)) for _ in range(3))
    scores = softmax(b, b.dot(q, k, (0,), (0,), (2,), (2,)))
    return b.build([b.dot(scores, v, (0,), (0,), (2,), (1,)), scores])


def layers() -> Graph:
    """Dense layers: reading the weights for each block of rows costs more than a value of few rows."""
    b = MxBuilder()
    x, w, v = (b.input(TensorType(s, F32)) for s in ((60, 64), (200, 64), (200, 64)))
    return b.build([b.dot(softmax(b, b.dot(x, w, (), (), (1,), (1,))), v, (), (), (1,), (0,))])


@pytest.mark.parametrize(
    "graph",
    [
        kept_scores(),
        layers(),
        attention(weights=lambda b, x: b.tanh(x)),
        attention(weights=lambda b, x: b.transpose(softmax(b, b.transpose(x, (0, 2, 1))), (0, 2, 1))),
        attention((3, 45, 16), weights=lambda b, x: b.transpose(softmax(b, x), (0, 2, 1))),
        attention(dtype=DType.F16),
        attention((3, 2, 16), keys=1000),
        attention((3, 50, 64), keys=50),
        attention(scores=causal),
    ],
    ids="output weights elementwise columns transposed halves dots short positions".split(),
)
def test_separate_kernels(graph: Graph) -> None:
    """Values that are read elsewhere, rows that a kernel reads in another order, blocks that would cost time or save
    little, and products in several launches."""
    program = compile_graph(graph, host())
    assert chains(program) == []
    arrays = arrays_of(graph)
    tolerance = 1e-5 if graph.input_types()[0].dtype is F32 else 1e-2
    for found, expected in zip(run_program(program, arrays), evaluate_graph(graph, arrays), strict=True):
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


def test_small_values_are_separate() -> None:
    assert chains(compile_graph(attention(), host(l2_bytes=4 * 3 * 50 * 45 + 1))) == []


def test_one_signature_among_many() -> None:
    """A program for any shapes has no blocks."""
    assert chains(compile_graph(attention(), host(), Options(static_shape=False))) == []


@pytest.mark.parametrize("target", [AVX2, AVX512, NEON])
@pytest.mark.parametrize("threads", [1, 2, 64])
def test_blocks_of_a_large_model(target: CpuTarget, threads: int) -> None:
    """All threads get blocks, and a thread's blocks are small beside the scores of 12 heads."""
    steps = compile_steps(attention((12, 512, 64), keys=512), replace(target, threads=threads)).steps
    (step,) = (s for s in steps if s.before)
    (launch,) = step.emission.launches
    assert launch.count % 12 == 0
    assert launch.count >= 4 * threads
    assert step.emission.workspace <= threads * max(target.l2_bytes, 48 * 4096)


def test_equal_layers_share_code() -> None:
    b = MxBuilder()
    x = b.input(TensorType((3, 50, 16), F32))
    k, v = (b.input(TensorType((3, 45, 16), F32)) for _ in range(2))
    for _ in range(3):
        weights = softmax(b, b.dot(x, k, (0,), (0,), (2,), (2,)))
        x = b.dot(weights, v, (0,), (0,), (2,), (1,))
    program = compile_graph(b.build([x]), host())
    assert len({p.symbol for p in program.launches if p.kind == CHAIN}) == 1
    assert len(chains(program)) == 3
    packs = [p for p in program.launches if p.kind == "pack"]
    assert len(packs) == 2  # keys and values are packed once for all layers


def test_the_work_of_a_chain() -> None:
    """A profile counts all of its operations, and the bytes of operands and results but not of scores."""
    compiled = compile_steps(attention((3, 50, 16), keys=45), host())
    (chain,) = (r for r in regions(compiled) if compiled.program.launches[r.launches[0]].kind == CHAIN)
    assert chain.work is not None
    assert chain.work.multiply_adds == 2 * 3 * 50 * 45 * 16
    packed = 2 * 3 * 48 * 16
    assert 4 * 2 * 3 * 50 * 16 < chain.work.nbytes <= 4 * (2 * 3 * 50 * 16 + packed)


def test_labels_name_all_layers() -> None:
    b = MxBuilder()
    q, k, v = (b.input(TensorType((3, 50, 16), F32)) for _ in range(3))
    b.origin = "scores"
    scores = b.dot(q, k, (0,), (0,), (2,), (2,))
    b.origin = "softmax"
    weights = softmax(b, scores)
    b.origin = "context"
    out = b.dot(weights, v, (0,), (0,), (2,), (1,))
    program = compile_graph(b.build([out]), host())
    (launch,) = (p for p in program.launches if p.kind == CHAIN)
    assert program.label(launch) == "scores + softmax + context"
