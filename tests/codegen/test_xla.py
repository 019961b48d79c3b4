"""Modules of StableHLO, compiled with XLA for CPUs, compute what mxforge computes.

JAX and jaxlib (380 MB) are not among the extras of the package: `pip install jax` runs these tests. XLA does not have
mxforge's factorizations, which are calls of functions.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import mxforge as mx
import numpy as np
import pytest
from mxforge.codegen.stablehlo.export import stablehlo_text
from mxforge.frontend.training_step import TrainingStep, with_loss
from mxforge.ir.dialects.core import LQ, LU, CoreBuilder, SymmetricEigen, evaluate_graph
from mxforge.ir.graph import Graph, GraphError
from mxforge.ir.target import REFERENCE
from mxforge.ir.types import DType, TensorType
from mxforge.passes.manager import Context, run_passes
from mxforge.passes.pipeline import FOR_REFERENCE
from mxforge.tools.inputs import random_arrays
from mxforge.tools.model_files import find_model
from mxforge.tools.models import bind, data_types, load_model, model_graph
from printed_graphs import every_primitive
from single_results import in_float32, numbers_for, single_results

if not find_spec("jaxlib"):
    pytest.skip("XLA is not installed (pip install jax)", allow_module_level=True)

UNSUPPORTED = (LQ, LU, SymmetricEigen)
TESTS = Path(__file__).resolve().parents[1]
Arrays = list[np.ndarray[Any, Any]]


def run_by_xla(folder: Path, cases: Sequence[tuple[str, Sequence[np.ndarray[Any, Any]]]]) -> list[Arrays]:
    """The results of modules on arrays."""
    for i, (text, arrays) in enumerate(cases):
        (folder / f"{i:03d}.mlir").write_text(text)
        np.savez(folder / f"{i:03d}.npz", *arrays)
    subprocess.run([sys.executable, TESTS / "xla_program.py", folder], check=True)
    results: list[Arrays] = []
    for i in range(len(cases)):
        with np.load(folder / f"{i:03d}-results.npz") as found:
            results.append([found[f"arr_{k}"] for k in range(len(found))])
    return results


def lowered(graph: Graph) -> Graph:
    return run_passes(FOR_REFERENCE, graph, Context(REFERENCE))


def test_every_primitive(tmp_path: Path) -> None:
    graphs: list[Graph] = []
    expected: list[Any] = []
    cases: list[tuple[str, Arrays]] = []
    for graph in map(in_float32, single_results(every_primitive(), UNSUPPORTED)):
        arrays = numbers_for(graph.input_types())
        try:
            expected += [evaluate_graph(graph, arrays)]
        except GraphError as error:
            assert "its limit" in str(error)
            continue
        graphs.append(graph)
        cases.append((stablehlo_text(graph), arrays))
    assert len(cases) > 50
    for graph, (ours,), (theirs,) in zip(graphs, expected, run_by_xla(tmp_path, cases), strict=True):
        name = graph.nodes[-1].op.name
        if ours.dtype.kind == "f":
            np.testing.assert_allclose(theirs, ours, 2e-5, 2e-5, err_msg=name)
        else:
            np.testing.assert_array_equal(theirs, ours, err_msg=name)


def test_random_bits_are_equal(tmp_path: Path) -> None:
    graphs: list[Graph] = []
    for shape in ((1,), (7,), (3, 5, 11), (4096,)):
        b = CoreBuilder()
        graphs.append(b.build([b.random_bits(b.input(TensorType((4,), DType.U32)), shape)]))
    key = np.array([1, 2**32 - 1, 12345, 7], np.uint32)
    results = run_by_xla(tmp_path, [(stablehlo_text(graph), [key]) for graph in graphs])
    for graph, (theirs,) in zip(graphs, results, strict=True):
        np.testing.assert_array_equal(theirs, evaluate_graph(graph, [key])[0])


NETWORKS = {"convnet": {"data": ((2, 3, 32, 32), None)}, "tagger": {"data": ((2, 6), None)}}


def test_networks(tmp_path: Path) -> None:
    cases: list[tuple[str, Arrays]] = []
    expected: list[Any] = []
    for name, shapes in NETWORKS.items():
        model = load_model(find_model(str(TESTS / "data" / "fixtures" / name)))
        types = data_types(model, shapes)
        graph = model_graph(model, types)
        data = random_arrays(types)
        known = {i: model.parameters[v.name] for i, v in enumerate(graph.inputs) if v.name in model.parameters}
        constants = {i: array._memory() for i, array in known.items()}
        cases.append((stablehlo_text(lowered(graph), constants), data))
        expected.append(bind(model, types)(*data))
    for ours, theirs in zip(expected, run_by_xla(tmp_path, cases), strict=True):
        for one, other in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(other, one, 1e-4, 1e-5)


def test_a_training_step(tmp_path: Path) -> None:
    """Three steps, with dropout: XLA's results of a step are what the next one takes."""
    nn = mx.gluon.nn
    net = nn.HybridSequential()
    net.add(nn.Conv2D(4, 3, in_channels=3, use_bias=False), nn.BatchNorm(in_channels=4))
    net.add(nn.Activation("relu"), nn.Dropout(0.5), nn.Dense(5, in_units=144))
    net.initialize(mx.init.Xavier())
    parameters = {name: p.data() for name, p in net.collect_params().items()}
    symbol = with_loss(net(mx.sym.var("data")), "softmax_cross_entropy", "label")
    rng = np.random.default_rng(0)
    data, label = rng.standard_normal((6, 3, 8, 8)).astype(np.float32), rng.integers(0, 5, 6).astype(np.float32)
    types = {name: a._type() for name, a in parameters.items()}
    types |= {"data": TensorType(data.shape, DType.F32), "label": TensorType(label.shape, DType.F32)}
    trained = [name for name in symbol.list_arguments() if name in parameters]
    step = TrainingStep(symbol, types, trained, mx.optimizer.Adam(learning_rate=0.05))
    core = step.lower(step.graph)
    text = stablehlo_text(core, None, step.results)
    states = [
        parameters[n].asnumpy() if n in parameters else np.zeros(v.type.shape, v.type.dtype.numpy)
        for n, v in zip(step.states, core.inputs, strict=False)
    ]
    losses: list[float] = []
    for i in range(3):
        operands = [*states, data, label, np.full(4, i, np.uint32)]
        ours = evaluate_graph(core, operands)
        (theirs,) = run_by_xla(tmp_path, [(text, operands)])
        for one, other, name in zip(ours, theirs, step.results, strict=True):
            np.testing.assert_allclose(other, one, 1e-3, 1e-4, err_msg=name)
        losses.append(float(theirs[0][0]))
        states = theirs[1:]
    assert losses[-1] < losses[0]
