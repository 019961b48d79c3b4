"""Tuned schedules of GPUs: choices that are allowed compute the same results, and others are refused."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import mxforge as mx
import numpy as np
import pytest

pytest.importorskip("triton", reason="Triton is not installed: pip install mxforge[cuda]")

from attention_graphs import attention, causal
from compiled import run_on_gpu
from mxforge.codegen.driver import compile_graph
from mxforge.codegen.triton.choices import (
    GpuChoice,
    allows,
    choice_key,
    default_choice,
    entry_of,
    neighbours,
    with_choice,
)
from mxforge.codegen.triton.describe import Described, described
from mxforge.codegen.triton.schedule import TritonSchedule
from mxforge.codegen.triton.target import GpuTarget
from mxforge.frontend.symbol.function import SymbolFunction
from mxforge.ir.graph import Graph
from mxforge.ir.kernel import Kernel
from mxforge.ir.types import DType, TensorType
from mxforge.passes.manager import Context, Options
from mxforge.passes.training import training_graphs
from mxforge.runtime.derivative import backward_graph
from rewriting import random_inputs
from support.simulated_gpu import TARGET
from support.triton_kernels import relative_error

STEPS = 4


def graph_of(symbol: Any, **shapes: tuple[int, ...]) -> Graph:
    types = [TensorType(shapes[name], DType.F32) for name in symbol.list_inputs()]
    return SymbolFunction(symbol, []).graph(types)


sym = mx.sym
x, w = sym.var("x"), sym.var("w")
GRAPHS = {
    "product": graph_of(sym.relu(sym.dot(x, w)), x=(70, 300), w=(300, 90)),
    "batches": graph_of(sym.batch_dot(x, w, transpose_b=True), x=(3, 40, 50), w=(3, 33, 50)),
    "convolution": graph_of(
        sym.Convolution(x, w, no_bias=True, num_filter=24, kernel=(3, 3), pad=(1, 1), stride=(2, 2)),
        x=(2, 32, 11, 9),
        w=(24, 32, 3, 3),
    ),
    "rows": graph_of(sym.softmax(x), x=(37, 130)),
    "long rows": graph_of(sym.softmax(x), x=(3, 9000)),
    "columns": graph_of(sym.mean(x, axis=0), x=(9000, 20)),
    "transpose": graph_of(sym.relu(sym.transpose(x)), x=(70, 90)),
    "windows": graph_of(sym.Pooling(x, kernel=(3, 3), stride=(2, 2)), x=(2, 32, 13, 15)),
    "depthwise": graph_of(
        sym.Convolution(x, w, no_bias=True, num_filter=32, num_group=32, kernel=(3, 3), pad=(1, 1)),
        x=(2, 32, 9, 9),
        w=(32, 1, 3, 3),
    ),
    "attention": attention((2, 70, 24), keys=130, scores=causal),
    "attention16": attention((2, 70, 64), keys=70, dtype=DType.F16),
}


def gradients_of(graph: Graph) -> Graph:
    """The gradients of all inputs, from residuals."""
    options = Options(training=True)
    split = training_graphs(graph, range(len(graph.inputs)), Context(TARGET, options))
    forward = compile_graph(split.forward, described(TARGET), options)
    return backward_graph(split, forward.outputs)


GRAPHS["gradients of attention"] = gradients_of(attention((2, 70, 24), keys=130))


def kernels_of(graph: Graph, target: GpuTarget = TARGET) -> list[Kernel]:
    """The kernels of a graph that can be tuned."""
    recorder = described(target)
    compile_graph(graph, recorder, Options())
    kernels = [d.kernel for d in recorder.kernels.values() if d.kernel is not None]
    return list({choice_key(kernel, "float32"): kernel for kernel in kernels}.values())


def walk(kernel: Kernel, seed: int) -> GpuChoice:
    """A choice some steps away from the formulas."""
    schedule, choice = default_choice(kernel, TARGET, "float32")
    draw = random.Random(seed)
    for _ in range(STEPS):
        near = neighbours(kernel, schedule, choice, TARGET)
        choice = draw.choice(near) if near else choice
    return choice


@pytest.mark.parametrize("name", GRAPHS)
def test_results_do_not_depend_on_choices(name: str) -> None:
    graph = GRAPHS[name]
    kernels, arrays = kernels_of(graph), random_inputs(graph)
    expected = run_on_gpu(compile_graph(graph, TARGET, Options()), arrays)
    assert kernels
    for seed in range(2):
        entries = {choice_key(k, "float32"): entry_of(walk(k, seed)) for k in kernels}
        program = compile_graph(graph, TARGET.with_entries(entries), Options())
        for found, wanted in zip(run_on_gpu(program, arrays), expected, strict=True):
            assert relative_error(found, wanted) <= (1e-2 if found.dtype == np.float16 else 1e-5), entries


def test_choices_change_launches() -> None:
    graph = GRAPHS["product"]
    (kernel,) = kernels_of(graph)
    entries = {choice_key(kernel, "float32"): entry_of(walk(kernel, 1))}
    plain, tuned = described(TARGET), described(TARGET.with_entries(entries))
    for target in (plain, tuned):
        compile_graph(graph, target, Options())
    (before,), (after,) = plain.kernels.values(), tuned.kernels.values()
    assert isinstance(before, Described) and before.source.schedule != after.source.schedule
    assert plain.identity != tuned.identity and TARGET.with_entries(entries).untuned == TARGET
    assert TARGET.with_entries(entries).identity != TARGET.identity
    assert TARGET.with_entries(entries).code_identity == TARGET.code_identity
    assert TARGET.with_entries(entries).dynamic == TARGET


def refused(kernel: Kernel, schedule: TritonSchedule, choice: GpuChoice) -> bool:
    return not allows(kernel, schedule, choice, TARGET)


def test_choices_that_compute_nothing_are_refused() -> None:
    (kernel,) = kernels_of(GRAPHS["product"])
    schedule, choice = default_choice(kernel, TARGET, "float32")
    assert allows(kernel, schedule, choice, TARGET)
    wrong: list[dict[str, int]] = [
        {"m": 0},
        {"m": 48},
        {"m": 8},
        {"n": 512},
        {"k": 256},
        {"z": 2},
        {"x": 16},
        {"num_warps": 3},
        {"num_stages": 7},
        {"split": 0},
        {"split": 64},
        {"m": 256, "n": 256},
    ]
    assert all(refused(kernel, schedule, replace(choice, **numbers)) for numbers in wrong)


def test_rows_and_attention_keep_what_they_must() -> None:
    (rows,) = kernels_of(GRAPHS["rows"])
    schedule, choice = default_choice(rows, TARGET, "float32")
    assert refused(rows, schedule, replace(choice, split=2)) and refused(rows, schedule, replace(choice, r=1))
    (scores,) = kernels_of(GRAPHS["attention"])
    schedule, choice = default_choice(scores, TARGET, "float32")
    assert refused(scores, schedule, replace(choice, n=2 * choice.n)) and refused(
        scores, schedule, replace(choice, r=8)
    )
    assert with_choice(schedule, choice) == schedule


def test_exact_products_keep_their_blocks() -> None:
    (kernel,) = kernels_of(GRAPHS["batches"])
    schedule, choice = default_choice(kernel, TARGET, "exact")
    assert schedule.precision == "exact"
    near = neighbours(kernel, schedule, choice, TARGET)
    assert near and all((c.m, c.n, c.k, c.split) == (choice.m, choice.n, choice.k, 1) for c in near)
