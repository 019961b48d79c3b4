"""Graphs, kernels and programs of every compilation stage can be printed, and upstream MLIR accepts the text."""

from __future__ import annotations

import pytest
from compiled import compiled
from mxforge.ir import verifier
from mxforge.ir.dialects.core import CoreBuilder
from mxforge.ir.graph import Graph
from mxforge.ir.hashing import structural_hash
from mxforge.ir.irdl import irdl_module
from mxforge.ir.kernel import Kernel, ReduceOp
from mxforge.ir.parser import parse_graph
from mxforge.ir.printer import print_graph, print_kernel, print_program
from mxforge.ir.types import DType, TensorType


def network() -> Graph:
    """Convolution, bias, ReLU, pooling, a dense layer and a softmax."""
    b = CoreBuilder("network")
    x = b.input(TensorType((2, 8, 10, 10), DType.F32), "data")
    w = b.input(TensorType((16, 8, 3, 3), DType.F32), "weight", parameter=True)
    bias = b.input(TensorType((16,), DType.F32), "bias", parameter=True)
    dense = b.input(TensorType((400, 10), DType.F32), "dense", parameter=True)
    b.location = "network.py:7"
    y = b.conv(x, w, (1, 1), ((1, 1), (1, 1)))
    y = b.maximum(b.add(y, b.broadcast_along(bias, y.type.shape, 1)), 0.0)
    y = b.reduce_window(ReduceOp.MAX, y, (1, 1, 2, 2), (1, 1, 2, 2), ((0, 0),) * 4)
    y = b.matmul(b.reshape(y, (2, 400)), dense)
    e = b.exp(b.sub(y, b.broadcast_to(b.max(y, (1,), keepdims=True), (2, 10))))
    return b.build([b.div(e, b.broadcast_to(b.sum(e, (1,), keepdims=True), (2, 10)))])


@pytest.fixture
def stages(monkeypatch: pytest.MonkeyPatch) -> tuple[list[Graph], list[str]]:
    """The graphs that a compilation verifies, and the texts of its kernels and its program."""
    graphs: list[Graph] = []
    kernels: list[Kernel] = []
    verify_graph, verify_kernel = verifier.verify_graph, verifier.verify_kernel

    def graph_seen(graph: Graph) -> None:
        graphs.append(graph)
        verify_graph(graph)

    def kernel_seen(kernel: Kernel) -> None:
        kernels.append(kernel)
        verify_kernel(kernel)

    monkeypatch.setattr(verifier, "verify_graph", graph_seen)
    monkeypatch.setattr(verifier, "verify_kernel", kernel_seen)
    program = compiled(network())
    monkeypatch.undo()
    verifier.verify_program(program)
    assert graphs
    assert kernels
    return graphs, [*map(print_kernel, kernels), print_program(program)]


def test_every_graph_is_read_back(stages: tuple[list[Graph], list[str]]) -> None:
    for graph in stages[0]:
        text = print_graph(graph)
        parsed = parse_graph(text)
        verifier.verify_graph(parsed)
        assert print_graph(parsed) == text
        assert structural_hash(parsed) == structural_hash(graph)


def test_upstream_accepts_every_stage(stages: tuple[list[Graph], list[str]]) -> None:
    mlir = pytest.importorskip("torch_mlir.ir", reason="the torch-mlir wheel, which holds upstream MLIR, is missing")
    irdl = pytest.importorskip("torch_mlir.dialects.irdl")
    texts = [*map(print_graph, stages[0]), *stages[1]]
    with mlir.Context(), mlir.Location.unknown():
        irdl.load_dialects(mlir.Module.parse(irdl_module(*texts)))
        for text in texts:
            assert mlir.Module.parse(text).operation.verify()
