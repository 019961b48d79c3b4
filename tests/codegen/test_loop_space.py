"""The space of loops: all of its choices compute what the default computes, and other choices are outside."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from compiled import run_program
from loop_graphs import softmax, summed
from mxforge.codegen.driver import compile_graph, compile_steps
from mxforge.codegen.llvm.schedule.kinds import LoopChoice, Schedule
from mxforge.codegen.llvm.schedule.spaces import allows, alternatives
from mxforge.codegen.llvm.schedule.tuned import Tuned, entry_of, kernel_key
from mxforge.codegen.llvm.target import CpuTarget
from mxforge.ir.dialects.core import CoreBuilder, Pointwise, evaluate_graph
from mxforge.ir.graph import Graph, Value
from mxforge.ir.kernel import Kernel, ReduceOp
from mxforge.ir.scalar import ScalarOp
from mxforge.ir.types import DType, Layout
from mxforge.runtime.host.machine import host_target
from rewriting import in_layout, random_inputs, tensor

pytest.importorskip("llvmlite.binding")
NONE: frozenset[str] = frozenset()
HOST = host_target(2)
BLOCKED = Layout(8, ((1, 1), (1, 1)))


def relu(b: CoreBuilder) -> Value:
    return b.maximum(b.input(tensor(9, 1000)), 0.0)


def transposed(b: CoreBuilder) -> Value:
    return b.add(b.transpose(b.input(tensor(33, 50))), 1.0)


def padded(b: CoreBuilder) -> Value:
    return b.pad(b.input(tensor(5, 137)), b.constant(2.0, DType.F32), (1, 2), (1, 3))


def summed_over_rows(b: CoreBuilder) -> Value:
    return b.sum(b.input(tensor(50, 1037)), (0,))


def pooled(b: CoreBuilder) -> Value:
    window = ((1, 1, 3, 3), (1, 1, 2, 2), ((0, 0), (0, 0), (1, 1), (1, 1)))
    return b.reduce_window(ReduceOp.MAX, b.input(tensor(1, 20, 35, 15)), *window)


def summed_in_blocks(b: CoreBuilder) -> Value:
    x = b.relayout(b.input(tensor(2, 20, 5, 6)), BLOCKED)
    return b.sum(in_layout(b, Pointwise(ScalarOp.EXP), BLOCKED, x), (2, 3))


BODIES: list[Callable[[CoreBuilder], Value]] = [
    relu,
    transposed,
    padded,
    summed,
    summed_over_rows,
    softmax,
    pooled,
    summed_in_blocks,
]


def graph_of(body: Callable[[CoreBuilder], Value]) -> Graph:
    b = CoreBuilder("graph")
    return b.build([body(b)])


def kernel_of(graph: Graph) -> Kernel:
    """The last kernel of the program of a graph."""
    kernel = compile_steps(graph, HOST).steps[-1].kernel
    assert kernel is not None
    return kernel


def near(kernel: Kernel, schedule: Schedule) -> list[Any]:
    return alternatives(kernel, schedule, HOST, NONE)


def default(kernel: Kernel) -> LoopChoice:
    found = HOST.schedule(kernel, NONE)
    assert isinstance(found, LoopChoice)
    return found


def tuned(kernel: Kernel, choice: LoopChoice) -> CpuTarget:
    return HOST.with_tuned(Tuned({kernel_key(kernel, NONE): entry_of(choice)}))


@pytest.mark.parametrize("body", BODIES, ids=lambda f: f.__name__)
def test_alternatives_compute_the_same(body: Callable[[CoreBuilder], Value]) -> None:
    graph = graph_of(body)
    kernel, inputs = kernel_of(graph), random_inputs(graph)
    expected = evaluate_graph(graph, inputs)[0]
    found = near(kernel, default(kernel))
    assert found and default(kernel) not in found
    for choice in found:
        target = tuned(kernel, choice)
        assert target.schedule(kernel, NONE) == choice
        (got,) = run_program(compile_steps(graph, target).program, inputs)
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max(), err_msg=str(choice))


@pytest.mark.parametrize("body", BODIES, ids=lambda f: f.__name__)
def test_neighbours_are_in_the_space(body: Callable[[CoreBuilder], Value]) -> None:
    kernel = kernel_of(graph_of(body))
    for first in near(kernel, default(kernel)):
        assert all(allows(kernel, choice, HOST, NONE) for choice in (first, *near(kernel, first)))


ILLEGAL = {
    "an axis that does not exist": (relu, {"vector": 7}),
    "an axis along which results are apart": (
        transposed,
        {"vector": 1 - default(kernel_of(graph_of(transposed))).vector},
    ),
    "axes that do not exist": (relu, {"shared": 5}),
    "part of a vector": (relu, {"block": 3}),
    "more than the axis": (relu, {"block": 1 << 20}),
    "no grain": (relu, {"grain": 0}),
    "accumulators without a sum": (relu, {"unroll": 2}),
    "many accumulators": (summed, {"unroll": 64}),
    "rows that share their scratch memory": (softmax, {"interleave": 2}),
}


@pytest.mark.parametrize("name", ILLEGAL)
def test_illegal_choices_are_outside(name: str) -> None:
    body, changes = ILLEGAL[name]
    kernel = kernel_of(graph_of(body))
    assert not allows(kernel, replace(default(kernel), **changes), HOST, NONE)


def test_a_choice_that_is_not_in_the_space_is_not_used() -> None:
    kernel = kernel_of(graph_of(relu))
    with pytest.warns(RuntimeWarning, match="tune the model again"):
        assert tuned(kernel, replace(default(kernel), block=3)).schedule(kernel, NONE) == default(kernel)


@pytest.mark.parametrize("shape", [(40, 2600), (300, 768), (9, 130)])
def test_threads_share_sums_over_rows_whose_rounding_does_not_depend_on_them(shape: tuple[int, int]) -> None:
    graph = graph_of(lambda b: b.sum(b.input(tensor(*shape)), (0,)))
    one, two, many = (compile_graph(graph, replace(HOST, threads=n)) for n in (1, 2, 16))
    assert one.launches[0].count == 1
    assert (two.launches[0].count > 1) == (shape[1] > 256)
    (array,) = random_inputs(graph)
    results = [run_program(p, [array])[0] for p in (one, two, many)]
    assert (results[0] == results[1]).all()
    assert (results[0] == results[2]).all()
