"""Executables of one computation for many shapes: shared memory and code, and the cost of a new signature."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import mxforge as mx
import numpy as np
import pytest
from dynamic_programs import DYNAMIC, Array, assert_close, graph_of, interpreted, values_for
from mxforge.codegen.statistics import statistics
from mxforge.ir.caches import clear_caches
from mxforge.ir.program import PACK, Computation, Program
from mxforge.runtime.compile import dynamic_programs, executable_for
from mxforge.runtime.device import Runnable
from mxforge.runtime.host.executable import listen
from mxforge.runtime.prepared import Version

sym: Any = mx.sym


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    clear_caches()
    yield
    clear_caches()


def network() -> Any:
    y = sym.relu(sym.Convolution(sym.var("x"), num_filter=32, kernel=(3, 3), pad=(1, 1), name="c0"))
    y = sym.Pooling(y, kernel=(2, 2), stride=(2, 2), pool_type="max")
    y = sym.relu(sym.Convolution(y, num_filter=32, kernel=(3, 3), pad=(1, 1), name="c1"))
    y = sym.Pooling(y, global_pool=True, kernel=(1, 1), pool_type="avg")
    return sym.FullyConnected(y, num_hidden=10, name="d")


def run(executable: Runnable, arrays: list[Array], version: Any = 1) -> list[Array]:
    outputs = [np.zeros(t.shape, t.dtype.numpy) for t in executable.outputs]
    executable.run([a.ctypes.data for a in arrays], [y.ctypes.data for y in outputs], version)
    return outputs


def test_a_second_signature_compiles_and_prepares_nothing() -> None:
    net = network()
    first, second = (graph_of(net, {"x": shape}) for shape in ((2, 3, 32, 32), (3, 3, 24, 40)))
    arrays = values_for(first)
    assert_close(run(executable_for(first, DYNAMIC), arrays), interpreted(first, arrays), 1e-5)
    arrays[0] = values_for(second)[0]
    modules, launched = statistics.modules, list[Computation]()

    def note(program: Program, launch: Computation | None, begin: int, end: int) -> None:
        if launch is not None:
            launched.append(launch)

    executable = executable_for(second, DYNAMIC)
    listen(note)
    try:
        found = run(executable, arrays)
    finally:
        listen(None)
    assert_close(found, interpreted(second, arrays), 1e-5)
    assert statistics.modules == modules
    assert launched
    assert not any(launch.kind == PACK for launch in launched)


def test_owners_of_parameters_alternate() -> None:
    net = network()
    graphs = [graph_of(net, {"x": shape}) for shape in ((2, 3, 32, 32), (3, 3, 24, 40))]
    executables = [executable_for(graph, DYNAMIC) for graph in graphs]
    owners = [values_for(graphs[0], seed) for seed in range(2)]
    for turn in range(3):
        for owner, arrays in enumerate(owners):
            for graph, executable in zip(graphs, executables, strict=True):
                own = [values_for(graph, turn)[0], *arrays[1:]]
                assert_close(run(executable, own, Version(owner, 1)), interpreted(graph, own), 1e-5)
    changed = [a * 2 for a in owners[0]]
    own = [values_for(graphs[1])[0], *changed[1:]]
    assert_close(run(executables[1], own, Version(0, 2)), interpreted(graphs[1], own), 1e-5)


def test_shapes_run_concurrently_in_threads() -> None:
    net = network()
    graphs = [graph_of(net, {"x": (2, 3, 16 + 2 * k, 24)}) for k in range(4)]
    arrays = values_for(graphs[0])
    inputs = [[values_for(g)[0], *arrays[1:]] for g in graphs]
    expected = [interpreted(g, i) for g, i in zip(graphs, inputs, strict=True)]
    failures: list[Exception] = []

    def work(k: int) -> None:
        try:
            for _ in range(10):
                assert_close(run(executable_for(graphs[k], DYNAMIC), inputs[k]), expected[k], 1e-5)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_code_on_disk_serves_other_shapes() -> None:
    net = network()
    first, second = (graph_of(net, {"x": shape}) for shape in ((2, 3, 30, 30), (3, 3, 22, 40)))
    executable_for(first, DYNAMIC)
    clear_caches()
    modules = statistics.modules
    for version, graph in enumerate((first, second)):
        arrays = values_for(graph)
        assert_close(run(executable_for(graph, DYNAMIC), arrays, version), interpreted(graph, arrays), 1e-5)
    assert statistics.modules == modules


def test_graphs_that_differ_only_in_extents_are_one_computation() -> None:
    net = network()
    first, second = (graph_of(net, {"x": shape}) for shape in ((2, 3, 30, 30), (3, 3, 22, 40)))
    assert dynamic_programs(first, DYNAMIC) is dynamic_programs(second, DYNAMIC)
    other = graph_of(sym.relu(net), {"x": (2, 3, 30, 30)})
    assert dynamic_programs(other, DYNAMIC) is not dynamic_programs(first, DYNAMIC)


def test_python_functions_get_plain_shapes() -> None:
    """A custom operator receives the extents, so each signature has its own program."""

    class Doubled(mx.operator.CustomOp):
        def forward(self, is_train: bool, req: list[str], in_data: Any, out_data: Any, aux: Any) -> None:
            self.assign(out_data[0], req[0], in_data[0] * 2)

    @mx.operator.register("dynamic_doubled")
    class DoubledProp(mx.operator.CustomOpProp):
        def create_operator(self, ctx: Any, in_shapes: Any, in_dtypes: Any) -> Doubled:
            assert all(type(n) is int for shape in in_shapes for n in shape)
            return Doubled()

    assert DoubledProp
    net = sym.Custom(sym.relu(sym.var("x")), op_type="dynamic_doubled")
    for shape in ((2, 3), (5, 4)):  # without parameters
        graph = graph_of(net, {"x": shape})
        arrays = values_for(graph)
        assert_close(run(executable_for(graph, DYNAMIC), arrays), [np.maximum(arrays[0], 0) * 2], 1e-6)
