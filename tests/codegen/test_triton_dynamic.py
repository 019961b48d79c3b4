"""Programs of GPUs for any shapes: one compilation serves all extents that satisfy its guards."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

import mxforge as mx
import numpy as np
import pytest

pytest.importorskip("triton", reason="Triton is not installed: pip install mxforge[cuda]")

from dynamic_programs import (
    DYNAMIC,
    Array,
    assert_close,
    assert_equal_programs,
    graph_of,
    interpreted,
    random_graph,
    values_for,
    varied,
)
from mxforge.codegen.dynamic import compile_dynamic
from mxforge.codegen.dynamic_program import DynamicProgram
from mxforge.codegen.statistics import statistics
from mxforge.codegen.triton.kernel_code import KernelCode
from mxforge.codegen.triton.target import SM90
from mxforge.ir.code_store import MemoryStore
from mxforge.ir.graph import Graph
from mxforge.ir.program import Program
from mxforge.runtime.devices import open_device
from mxforge.runtime.storage import as_numpy, storage_of
from random_program_steps import make_program

pytestmark = pytest.mark.usefixtures("simulated_gpus")
sym: Any = mx.sym
Shape = tuple[int, ...]
x: Any = sym.var("x")
STORE = MemoryStore()


def dynamic_of(graph: Graph) -> DynamicProgram:
    device: Any = open_device("gpu", 0)
    return compile_dynamic(graph, device.target, DYNAMIC, STORE)


def run(program: Program, arrays: Sequence[Array]) -> list[Array]:
    device: Any = open_device("gpu", 0)
    inputs = [storage_of(np.ascontiguousarray(a), device) for a in arrays]
    outputs = [device.allocate(t.nbytes) for t in program.results]
    device.load(program).run([s.address for s in inputs], [s.address for s in outputs])
    return [as_numpy(s, t.dtype.memory, t.shape) for s, t in zip(outputs, program.results, strict=True)]


@pytest.mark.parametrize("first", range(0, 24, 8))
def test_random_programs(first: int) -> None:
    """Also with other extents, of which equal ones remain equal."""
    served = 0
    for seed in range(first, first + 8):
        program = make_program(seed)
        if any(0 in x.shape for x in (*program.inputs, *program.expected)):
            continue
        dynamic = dynamic_of(random_graph(program, [x.shape for x in program.inputs]))
        for by in range(3):
            try:
                graph = random_graph(program, varied(program, by))
            except mx.MXNetError:  # a step's parameter is invalid for the new extents
                continue
            evaluated = dynamic.at(graph.input_types())
            if evaluated is not None:
                served += 1
                arrays = [x.astype(np.float32).astype(x.dtype) for x in values_for(graph, by)]
                assert_close(run(evaluated, arrays), interpreted(graph, arrays), max(1e-4, 4 * program.tolerance))
    assert served


def conv(channels: int, **parameters: Any) -> Any:
    return sym.Convolution(x, num_filter=channels, name="c", **parameters)


def network() -> Any:
    y = sym.BatchNorm(conv(8, kernel=(3, 3), stride=(2, 2), pad=(1, 1)), name="b")
    y = sym.Pooling(sym.Activation(y, act_type="relu"), global_pool=True, pool_type="avg", kernel=(1, 1))
    return sym.softmax(sym.FullyConnected(y, num_hidden=5, name="f"))


NETWORKS: dict[str, tuple[Any, Shape, list[Shape]]] = {
    "pointwise": (sym.relu(x) * 2, (3, 4), [(5, 7), (2, 9)]),
    "rows": (sym.softmax(x * 2 + 1), (3, 4), [(5, 7), (2, 1030)]),
    "a divisor that depends on the shape": (sym.mean(x, axis=1) / 3, (3, 4), [(5, 7), (2, 1030)]),
    "columns": (sym.sum(x, axis=0), (3, 4), [(5, 7), (1040, 3)]),
    "transpose": (sym.transpose(x) + 1, (3, 4), [(5, 7), (200, 33)]),
    "dense": (sym.FullyConnected(x, num_hidden=7, name="f"), (3, 4), [(5, 4), (200, 4)]),
    "product": (sym.dot(x, sym.transpose(x)), (3, 4), [(5, 7), (70, 130)]),
    "attention": (
        sym.batch_dot(sym.softmax(sym.batch_dot(x, x, transpose_b=True)), x),
        (2, 6, 16),
        [(3, 9, 16), (2, 40, 16)],
    ),
    "convolution": (conv(8, kernel=(3, 3), pad=(1, 1)), (2, 3, 8, 8), [(3, 3, 9, 7)]),
    "depthwise": (conv(6, kernel=(3, 3), num_group=6), (2, 6, 8, 8), [(2, 6, 5, 7)]),
    "transposed convolution": (
        sym.Deconvolution(x, num_filter=4, kernel=(2, 2), stride=(2, 2), name="d"),
        (2, 3, 4, 4),
        [(2, 3, 5, 6)],
    ),
    "pooling": (
        sym.Pooling(x, kernel=(3, 3), stride=(2, 2), pad=(1, 1), pool_type="avg"),
        (2, 3, 8, 8),
        [(3, 3, 10, 6)],
    ),
    "a window of one element": (
        sym.Pooling(x, kernel=(1, 1), stride=(2, 2), pool_type="max"),
        (2, 3, 8, 7),
        [(3, 4, 5, 6)],
    ),
    "layer norm": (sym.LayerNorm(x, name="n"), (2, 6, 16), [(3, 9, 16)]),
    "reshape": (
        sym.FullyConnected(sym.reshape(x, shape=(-3, 0)), num_hidden=5, name="f"),
        (2, 6, 16),
        [(3, 9, 16)],
    ),
    "slice": (sym.slice_axis(x, axis=1, begin=1, end=None) * 2, (2, 6, 4), [(3, 9, 4)]),
    "concat": (sym.concat(x, x * 2, dim=1), (2, 6), [(3, 9)]),
    "reverse": (sym.reverse(x, axis=1), (2, 6), [(3, 9)]),
    "padding": (sym.pad(x, mode="constant", pad_width=(0, 0, 0, 0, 1, 1, 2, 2)), (2, 3, 4, 5), [(2, 3, 6, 8)]),
    "embedding": (sym.Embedding(x, input_dim=10, output_dim=8, name="e"), (2, 6), [(3, 9)]),
    "positions": (sym.broadcast_add(x, sym.contrib.arange_like(x, axis=1)), (2, 6), [(3, 9)]),
    "computed by the host": (
        sym.cumsum(sym.reverse(sym.sort(x * 2, axis=1), axis=1), axis=0) + 1,
        (3, 4),
        [(5, 7), (2, 33)],
    ),
    "loop": (
        sym.RNN(x, sym.var("p"), sym.var("h"), sym.var("c"), state_size=5, num_layers=1, mode="lstm"),
        (4, 2, 3),
        [(7, 2, 3), (60, 2, 3)],
    ),
    "network": (network(), (2, 3, 8, 8), [(3, 3, 11, 7)]),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_one_compilation_serves_other_extents(name: str) -> None:
    """Each program equals a separate compilation, needs no further code, and agrees with the interpreter."""
    net, base, others = NETWORKS[name]
    dynamic = dynamic_of(graph_of(net, {"x": base}))
    modules = statistics.modules
    for shape in (base, *others):
        graph = graph_of(net, {"x": shape})
        program = dynamic.at(graph.input_types())
        assert program is not None, f"{shape} does not satisfy the guards"
        assert_equal_programs(program, dynamic_of(graph).at(graph.input_types()) or program)
        arrays = values_for(graph)
        assert_close(run(program, arrays), interpreted(graph, arrays), 2e-5)
    assert statistics.modules == modules


def test_extents_of_one_have_programs_of_their_own() -> None:
    net, base, _ = NETWORKS["rows"]
    graph = graph_of(net, {"x": (1, 4)})
    assert dynamic_of(graph_of(net, {"x": base})).at(graph.input_types()) is None
    program = dynamic_of(graph).at(graph.input_types())
    assert program is not None
    arrays = values_for(graph)
    assert_close(run(program, arrays), interpreted(graph, arrays), 1e-6)


@pytest.mark.parametrize("name", ["rows", "computed by the host"])
def test_a_stored_program_serves_other_extents(name: str) -> None:
    net, base, (other, _) = NETWORKS[name]
    dynamic = pickle.loads(pickle.dumps(dynamic_of(graph_of(net, {"x": base}))))
    graph = graph_of(net, {"x": other})
    program = dynamic.at(graph.input_types())
    arrays = values_for(graph)
    assert_close(run(program, arrays), interpreted(graph, arrays), 1e-6)


def test_kernels_for_any_shapes_are_equal_in_all_programs() -> None:
    """Their names and texts do not depend on extents, or on the numbers of the compilation before."""
    relu = sym.relu(x) * 2
    first = dynamic_of(graph_of(relu, {"x": (3, 4)})).at(graph_of(relu, {"x": (3, 4)}).input_types())
    deep = sym.softmax(sym.transpose(x)) + sym.var("x2")
    shapes = {"x": (6, 9), "x2": (9, 6)}
    dynamic_of(graph_of(deep, shapes))
    again = dynamic_of(graph_of(relu, {"x": (50, 60)})).at(graph_of(relu, {"x": (50, 60)}).input_types())
    assert first is not None and again is not None and first.code == again.code


def test_kernels_for_any_shapes_compile_for_hardware() -> None:
    """Also numbers that are floats: the divisor of a mean."""
    graph = graph_of(sym.mean(x, axis=1), {"x": (3, 4)})
    program = compile_dynamic(graph, SM90, DYNAMIC).at(graph.input_types())
    assert program is not None
    (kernel,) = map(KernelCode.from_bytes, program.code)
    assert kernel.form == "cubin" and kernel.parameters == ("*fp32", "*fp32", "i64", "i64")
