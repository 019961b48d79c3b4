"""Contractions of any extents through upstream MLIR: tiles in registers, what they leave over, and parallel pieces."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from mxforge.codegen.driver import compile_graph
from mxforge.codegen.llvm.target import AVX2
from mxforge.codegen.mlir.modules import lowered_module
from mxforge.codegen.mlir.pipeline import SCHEDULED
from mxforge.codegen.mlir.target import MlirTarget
from mxforge.codegen.stablehlo.export import stablehlo_text
from mxforge.ir.dialects.core import Broadcast, Conv, CoreBuilder, evaluate_graph
from mxforge.ir.graph import Value
from mxforge.ir.scalar import ReduceOp
from mxforge.ir.types import DType, TensorType
from mxforge.passes.manager import Context
from mxforge.runtime.devices import HOST

pytest.importorskip("torch_mlir.ir", reason="the torch-mlir wheel, which holds upstream MLIR, is not installed")

TARGET = MlirTarget.of(HOST.target_for(2))
PRODUCTS = [(1, 1, 1), (1, 300, 70), (3, 5, 7), (17, 64, 33), (13, 40, 100), (64, 9, 16), (50, 30, 1)]
"""Rows, inner extent and columns."""

CONVOLUTIONS = [
    # channels, filters, height, window, stride, dilation, groups
    (8, 16, 7, 3, 1, 1, 1),
    (5, 33, 9, 3, 2, 1, 1),
    (3, 17, 12, 5, 2, 1, 1),
    (16, 8, 6, 1, 1, 1, 1),
    (16, 16, 11, 3, 1, 2, 16),
    (12, 12, 8, 3, 2, 1, 12),
    (8, 12, 5, 3, 1, 1, 2),
]


def compare(b: CoreBuilder, results: list[Value], threads: int) -> None:
    """Compare a graph's results with the definition, on this machine with so many threads and on a CPU of AVX2."""
    graph = b.build(results)
    rng = np.random.default_rng(1)
    arrays = [rng.normal(size=v.type.shape).astype(v.type.dtype.numpy) for v in graph.inputs]
    expected = evaluate_graph(graph, arrays)
    for cpu in (HOST.target_for(threads), AVX2):
        executable = HOST.load(compile_graph(graph, MlirTarget.of(cpu)))
        computed: list[np.ndarray[Any, Any]] = [np.empty(t.shape, t.dtype.numpy) for t in graph.output_types()]
        executable.run([a.ctypes.data for a in arrays], [r.ctypes.data for r in computed])
        for result, known in zip(computed, expected, strict=True):
            np.testing.assert_allclose(result, known, 1e-4, 1e-4)


@pytest.mark.parametrize("threads", [1, 4])
def test_products(threads: int) -> None:
    b = CoreBuilder("products")
    results: list[Value] = []
    for m, k, n in PRODUCTS:
        for dtype in (DType.F32, DType.F64):
            x, w = (b.input(TensorType(shape, dtype)) for shape in ((m, k), (k, n)))
            results.append(b.tanh(b.dot(x, w, (), (), (1,), (0,))))
    x, w = (b.input(TensorType(shape, DType.F32)) for shape in ((3, 20, 8), (3, 8, 35)))
    results.append(b.dot(x, w, (0,), (0,), (2,), (1,)))
    results.append(b.dot(x, b.input(TensorType((35, 8), DType.F32)), (), (), (2,), (1,)))
    compare(b, results, threads)


@pytest.mark.parametrize("threads", [1, 4])
def test_convolutions(threads: int) -> None:
    b = CoreBuilder("convolutions")
    results: list[Value] = []
    for channels, filters, height, window, stride, dilation, groups in CONVOLUTIONS:
        x = b.input(TensorType((2, channels, height, height + 1), DType.F32))
        w = b.input(TensorType((filters, channels // groups, window, window), DType.F32), parameter=groups == 1)
        pad = dilation * (window // 2)
        op = Conv((stride, stride), ((pad, pad),) * 2, (1, 1), (dilation, dilation), groups)
        y = b.add_node(op, x, w)
        results += [y, b.tanh(b.add(y, 1.0))]
        results.append(b.reduce_window(ReduceOp.MAX, y, (1, 1, 3, 3), (1, 1, 2, 2), ((0, 0), (0, 0), (1, 1), (1, 1))))
    compare(b, results, threads)


@pytest.mark.parametrize("threads", [1, 4])
def test_rows(threads: int) -> None:
    """Reductions and what reads their results, in blocks of rows; sums whose rows are not the innermost axis."""
    b = CoreBuilder("rows")
    results: list[Value] = []
    for shape in ((5, 1), (37, 100), (2, 3, 4, 33)):
        x = b.input(TensorType(shape, DType.F32))
        for axis in (len(shape) - 1, 0):
            others = tuple(k for k in range(len(shape)) if k != axis)

            def row(value: Value, shape: tuple[int, ...] = shape, others: tuple[int, ...] = others) -> Value:
                return b.add_node(Broadcast(shape, others), value)

            shifted = b.exp(b.sub(x, row(b.max(x, (axis,)))))
            total = b.sum(shifted, (axis,))
            centred = b.sub(x, row(b.div(b.sum(x, (axis,)), float(shape[axis]))))
            results += [b.div(shifted, row(total)), b.mul(centred, row(b.sum(b.mul(centred, centred), (axis,))))]
            results += [b.sum(x, (axis,)), b.max(b.mul(x, x), (axis,)), total]
    compare(b, results, threads)


def test_rows_that_are_read_twice_are_computed_once() -> None:
    """Each step reads the rows of the one before three times, so copies for each reader would be 3 ** steps."""

    def lines(steps: int) -> int:
        b = CoreBuilder("steps")
        x = b.input(TensorType((64, 40), DType.F32))
        for _ in range(steps):
            greatest = b.add_node(Broadcast((64, 40), (0,)), b.max(x, (1,)))
            shifted = b.exp(b.sub(x, greatest))
            x = b.sub(x, b.mul(shifted, b.add_node(Broadcast((64, 40), (0,)), b.sum(shifted, (1,)))))
        module = lowered_module(stablehlo_text(b.build([x])), SCHEDULED, TARGET, Context(TARGET))
        return str(module).count("\n")

    assert lines(4) < 4 * lines(1)


@pytest.mark.parametrize("threads", [1, 4])
def test_elements_of_several_types(threads: int) -> None:
    b = CoreBuilder("elements")
    x = b.input(TensorType((300, 203), DType.F32))
    positive = b.gt(x, 0.0)
    wide, narrow, small = (b.cast(x, dtype) for dtype in (DType.F64, DType.F16, DType.I8))
    results = [positive, b.select(positive, x, b.tanh(x)), wide, b.mul(wide, wide), narrow, small, b.add(small, small)]
    compare(b, [*results, b.transpose(b.exp(x), (1, 0)), b.sum(b.cast(positive, DType.I32), (1,))], threads)


def test_operands_that_are_read_backwards() -> None:
    """A piece of them has its first element at its end."""
    b = CoreBuilder("backwards")
    x, y = (b.input(TensorType(shape, DType.F32)) for shape in ((64, 512), (2, 20, 4, 3)))
    results = [b.exp(b.reverse(x, (1,))), b.reverse(b.max(y, (3,)), (2,)), b.sum(b.mul(b.reverse(x, (0, 1)), x), (1,))]
    compare(b, results, 4)
