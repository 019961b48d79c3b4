"""The target `mlir`: programs through upstream MLIR compute what the reference computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from mxforge.codegen.driver import compile_graph
from mxforge.codegen.mlir.target import MlirTarget
from mxforge.ir.dialects.core import Call, CoreBuilder, evaluate_graph
from mxforge.ir.graph import Graph
from mxforge.ir.types import DType, TensorType
from mxforge.passes.manager import Context, Options, run_passes
from mxforge.runtime.devices import HOST

pytest.importorskip("torch_mlir.ir", reason="the torch-mlir wheel, which holds upstream MLIR, is not installed")
TARGET = MlirTarget.of(HOST.target_for())


def run(graph: Graph, *arrays: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
    """The results of the graph's program."""
    executable = HOST.load(compile_graph(graph, TARGET))
    results = [np.empty(t.shape, t.dtype.numpy) for t in graph.output_types()]
    executable.run([a.ctypes.data for a in arrays], [r.ctypes.data for r in results])
    return results


def test_what_depends_on_parameters_is_a_call_of_its_own() -> None:
    b = CoreBuilder("layer")
    x, w = b.input(TensorType((4, 8), DType.F32)), b.input(TensorType((8, 3), DType.F32), parameter=True)
    scaled = b.mul(w, 2.0)
    y = b.tanh(b.dot(x, scaled, (), (), (1,), (0,)))
    graph = b.build([y, b.sum(y, (1,))])
    outlined = run_passes(TARGET.passes, graph, Context(TARGET, Options()))
    assert [type(node.op) for node in outlined.nodes] == [Call, Call]
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=v.type.shape).astype(np.float32) for v in graph.inputs]
    for result, expected in zip(run(graph, *arrays), evaluate_graph(graph, arrays), strict=True):
        np.testing.assert_allclose(result, expected, 1e-6, 1e-6)
