"""The target `mlir`: programs through upstream MLIR compute what the reference computes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from mxforge.codegen.driver import compile_graph
from mxforge.codegen.llvm.target import AVX2
from mxforge.codegen.mlir.link import linked
from mxforge.codegen.mlir.target import MlirTarget
from mxforge.ir.dialects.core import Call, CoreBuilder, SymmetricEigen, evaluate_graph
from mxforge.ir.graph import Graph
from mxforge.ir.scalar import ReduceOp
from mxforge.ir.types import DType, TensorType
from mxforge.passes.manager import Context, Options, run_passes
from mxforge.runtime.devices import HOST
from printed_graphs import every_primitive

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


def test_every_primitive() -> None:
    """One program computes every result that has no layout, and an order."""
    graph = every_primitive()
    rng = np.random.default_rng(0)
    drawn = [(3 * np.abs(rng.normal(size=v.type.shape)), v.type.dtype.numpy) for v in graph.inputs]
    arrays = [np.asarray(x, dtype) for x, dtype in drawn]
    others = {v for n in graph.nodes if isinstance(n.op, SymmetricEigen) for v in n.outputs}
    outputs = [v for v in graph.outputs if v.type.layout is None and v.type.dtype is not DType.BF16]
    kept = replace(graph, outputs=tuple(v for v in outputs if v not in others), updates=(), private=frozenset[int]())
    for result, expected in zip(run(kept, *arrays), evaluate_graph(kept, arrays), strict=True):
        np.testing.assert_allclose(result, expected, 1e-5, 1e-5)


def test_arrays_without_elements() -> None:
    """As operands, results and operands of reductions, beside others."""
    b = CoreBuilder("empty")
    x, y = b.input(TensorType((2, 0, 3), DType.F32)), b.input(TensorType((2, 3), DType.F32))
    graph = b.build([b.neg(x), b.sum(x, (1,)), b.max(x, (0, 1)), b.exp(y), b.dot(x, x, (0,), (0,), (1,), (1,))])
    arrays = np.zeros((2, 0, 3), np.float32), np.ones((2, 3), np.float32)
    for result, expected in zip(run(graph, *arrays), evaluate_graph(graph, arrays), strict=True):
        np.testing.assert_allclose(result, expected, 1e-6)


@pytest.mark.parametrize("extent", [2, 3, 4, 5])
def test_windows_with_rests(extent: int) -> None:
    """The axis has one window or two, and elements that no window reads."""
    b = CoreBuilder("windows")
    x = b.input(TensorType((2, 5, extent), DType.F32))
    sizes = (1, 1, 2), (1, 1, 2), ((0, 0),) * 3
    pooled = [b.reduce_window(op, x, *sizes) for op in (ReduceOp.ADD, ReduceOp.MAX)]
    w = b.constant(np.arange(10, dtype=np.float32).reshape(5, 1, 2))
    graph = b.build([*pooled, b.conv(x, w, (2,), ((0, 0),), groups=5)])
    array = np.random.default_rng(0).normal(size=(2, 5, extent)).astype(np.float32)
    for result, expected in zip(run(graph, array), evaluate_graph(graph, [array]), strict=True):
        np.testing.assert_allclose(result, expected, 1e-5, 1e-5)


def test_minima_of_integers_in_parallel_loops() -> None:
    """MLIR declares the function of LLVM that computes them."""
    b = CoreBuilder("least")
    x, y = (b.input(TensorType((4, 8), DType.U64)) for _ in range(2))
    graph = b.build([b.minimum(x, y)])
    arrays = [np.arange(32, dtype=np.uint64).reshape(4, 8), np.full((4, 8), 7, np.uint64)]
    assert np.array_equal(run(graph, *arrays)[0], np.minimum(*arrays))


@pytest.mark.parametrize("dtype", [DType.F32, DType.F64])
def test_small_numbers_keep_their_digits(dtype: DType) -> None:
    b = CoreBuilder("small")
    x = b.input(TensorType((1000,), dtype))
    graph = b.build([b.expm1(x), b.log1p(x), b.sinh(x), b.asinh(x), b.atanh(x)])
    numbers = np.random.default_rng(0).normal(size=1000).astype(dtype.numpy) * dtype.numpy.type(1e-5)
    for result, expected in zip(run(graph, numbers), evaluate_graph(graph, [numbers]), strict=True):
        np.testing.assert_allclose(result, expected, 4 * np.finfo(dtype.numpy).eps, 0)


LOOP = """
@values = private constant [2 x float] [float 1.0, float {value}]
define void @main(ptr %0) {{
  call void (ptr, i32, ptr, ...) @__kmpc_fork_call(ptr @1, i32 1, ptr @main..omp_par, ptr %0)
  ret void
}}
define internal void @main..omp_par(ptr noalias %tid, ptr noalias %zero, ptr %context{number}) #0 {{
entry{number}:
  %v{number} = load float, ptr @values, align 4
  store float %v{number}, ptr %context{number}, align 4
  ret void
}}
declare void @__kmpc_fork_call(ptr, i32, ptr, ...)
"""


def test_loops_are_named_after_their_constants_too() -> None:
    """Modules of one program can have constants of one name. The names of values differ without a meaning."""
    first, renamed, other = (
        linked(LOOP.format(value=value, number=number), "kernel", AVX2)[1]
        for value, number in ((2.0, 1), (2.0, 7), (3.0, 1))
    )
    assert first == renamed and first.name != other.name
