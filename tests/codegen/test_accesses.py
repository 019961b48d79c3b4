"""The accesses of steps are complete: programs compute the same bits in every order that their graph allows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import mxforge as mx
import networkx as nx
import numpy as np
import pytest
from compiled import Array, run_program
from mxforge.codegen.driver import Compilation, compile_steps
from mxforge.ir.graph import Graph
from mxforge.ir.program import Program
from mxforge.ir.program_graph import data_alone, dependences, reduced
from mxforge.ir.step_accesses import step_accesses
from mxforge.ir.types import TensorType
from mxforge.passes.manager import Context, Options
from mxforge.passes.training import backward_graph, training_graphs
from mxforge.runtime.host.machine import host_target
from mxforge.runtime.tensor_memory import stored
from mxforge.tools.inputs import random_arrays
from mxforge.tools.model_files import find_model
from mxforge.tools.models import data_types, load_model, model_graph
from mxforge.tools.tune.subjects import trained_parameters
from random_graphs import random_graph

pytestmark = pytest.mark.any_processor

FIXTURES = Path(__file__).resolve().parents[1] / "data" / "fixtures"
TARGET = host_target(2)


def orders(compiled: Compilation, count: int) -> Iterator[Program]:
    """The program with its steps in random orders, and in the one that runs each step as late as possible."""
    graph = reduced(dependences(step_accesses(compiled.program)))
    assert graph.number_of_nodes() == len(compiled.program.steps)
    for seed in range(count):
        random, rank = Random(seed), list(range(len(graph)))
        random.shuffle(rank)
        if seed == 0:
            rank = [-n for n in graph]
        order = nx.lexicographical_topological_sort(graph, key=rank.__getitem__)
        yield replace(compiled.program, steps=tuple(compiled.program.steps[n] for n in order), groups=())


def check(graph: Graph, arrays: Sequence[Array], options: Options | None = None, count: int = 4) -> Compilation:
    """Compare the results of some orders with those of the program."""
    compiled = compile_steps(graph, TARGET, options)
    expected = run_program(compiled.program, arrays)
    for program in orders(compiled, count):
        for ours, theirs in zip(run_program(program, arrays), expected, strict=True):
            np.testing.assert_array_equal(ours, theirs)
    return compiled


def arrays_of(types: Sequence[TensorType]) -> list[Array]:
    """Random inputs, as they are stored in memory: those in blocks have halos."""
    values = random_arrays({str(i): t for i, t in enumerate(types)})
    return [stored(a, t) for a, t in zip(values, types, strict=True)]


def graph_of(name: str | Path, **shapes: tuple[int, ...]) -> tuple[Any, Graph]:
    model = load_model(find_model(str(FIXTURES / name)))
    return model, model_graph(model, data_types(model, {n: (shape, None) for n, shape in shapes.items()}))


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("convnet", (2, 3, 32, 32)),
        ("squeezenet1.1", (1, 3, 224, 224)),
        ("mobilenetv2_0.25", (1, 3, 64, 64)),
    ],
)
def test_models(name: str, shape: tuple[int, ...]) -> None:
    _, graph = graph_of(name, data=shape)
    check(graph, arrays_of(graph.input_types()))


def test_training() -> None:
    model, graph = graph_of("convnet", data=(2, 3, 32, 32))
    options = Options(training=True)
    split = training_graphs(graph, trained_parameters(model), Context(TARGET, options))
    forward = check(split.forward, arrays_of(split.forward.input_types()), options)
    backward = backward_graph(split, forward.program.outputs)
    check(backward, arrays_of(backward.input_types()), options)


@pytest.mark.parametrize(("steps", "dropout"), [(5, 0.5), (40, 0.0)])
def test_recurrent_networks(tmp_path: Path, steps: int, dropout: float) -> None:
    """The shorter one is unrolled, the longer one is a loop."""
    cell = mx.rnn.FusedRNNCell(16, num_layers=2, mode="lstm", prefix="lstm_", bidirectional=True, dropout=dropout)
    outputs, _ = cell.unroll(steps, mx.sym.var("data"), layout="TNC", merge_outputs=True)
    outputs.save(str(tmp_path / "net-symbol.json"))
    _, graph = graph_of(tmp_path / "net", data=(steps, 3, 8))
    check(graph, arrays_of(graph.input_types()))


@pytest.mark.parametrize("seed", range(40))
def test_random_graphs(seed: int) -> None:
    graph, arrays = random_graph(seed)
    check(graph, arrays)


def test_branches_are_independent_as_far_as_memory_allows() -> None:
    _, graph = graph_of("squeezenet1.1", data=(1, 3, 224, 224))
    found = dependences(step_accesses(compile_steps(graph, TARGET).program))
    alone = data_alone(found)
    assert 0 < alone.number_of_edges() < found.number_of_edges()
    assert len(nx.dag_longest_path(alone)) < len(found)
