"""Graphs of core as StableHLO: upstream MLIR accepts them, and StableHLO's interpreter computes what core means."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mxforge.codegen.llvm.target import AVX512
from mxforge.codegen.stablehlo.export import CONTROL, REFUSED, stablehlo_text
from mxforge.codegen.stablehlo.rules import RULES
from mxforge.codegen.stablehlo.scalars import SCALARS
from mxforge.ir.dialects.core import (
    LQ,
    LU,
    Cholesky,
    CoreBuilder,
    Pointwise,
    SymmetricEigen,
    TriangularSolve,
    evaluate_graph,
)
from mxforge.ir.graph import Graph, GraphError
from mxforge.ir.registry import find_dialect
from mxforge.ir.scalar import ScalarOp, result_dtype
from mxforge.ir.types import DType, TensorType
from mxforge.passes.manager import Context, Options, run_passes
from mxforge.passes.pipeline import FOR_REFERENCE
from mxforge.tools.inputs import random_arrays
from mxforge.tools.model_files import find_model
from mxforge.tools.models import data_types, load_model, model_graph
from printed_graphs import every_primitive

pytest.importorskip("torch_mlir.ir", reason="the torch-mlir wheel, which holds upstream MLIR, is not installed")
from single_results import numbers_for, single_results
from stablehlo_judge import judged, verified

FIXTURES = Path(__file__).resolve().parents[1] / "data" / "fixtures"
UNSUPPORTED = (LQ, LU, Cholesky, SymmetricEigen, TriangularSolve)
"""What the interpreter does not run."""

FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 1.5, 3.25, 1e-3, 40.0, -7.0, np.inf, -np.inf, np.nan)
INTEGERS = (0, 1, -1, 2, -2, 3, 7, -7, 31, 33, 100, -100)


def test_tables_are_total() -> None:
    assert set(SCALARS) == set(ScalarOp)
    known = [*RULES, *CONTROL, *REFUSED]
    assert len(known) == len(set(known))
    assert set(known) == set(find_dialect("core").operations())


def test_upstream_accepts_every_primitive() -> None:
    text = verified(every_primitive())
    assert 'loc("a"("odd place"))' in text and "mxforge.symmetric_eigen" in text


def assert_agrees(graph: Graph, arrays: list[Any], tolerance: float = 1e-5) -> None:
    for ours, theirs, value in zip(evaluate_graph(graph, arrays), judged(graph, *arrays), graph.outputs, strict=True):
        if value.type.dtype.is_float:
            np.testing.assert_allclose(theirs, ours, tolerance, tolerance)
        else:
            np.testing.assert_array_equal(theirs, ours)


def test_the_interpreter_agrees_on_every_primitive() -> None:
    graphs = single_results(every_primitive(), UNSUPPORTED)
    assert len(graphs) > 50
    for graph in graphs:
        try:
            arrays = numbers_for(graph.input_types())
            evaluate_graph(graph, arrays)
        except GraphError as error:
            assert "its limit" in str(error)
            continue
        assert_agrees(graph, arrays)


SCALAR_CASES = [
    (op, dtype)
    for op in ScalarOp
    for dtype in (DType.F32, DType.F64, DType.I8, DType.I32, DType.I64, DType.U8, DType.U32, DType.BOOL)
    if dtype.is_float or op not in (ScalarOp.IS_NAN, ScalarOp.IS_INF, ScalarOp.IS_FINITE)
]


@pytest.mark.parametrize("op", ScalarOp, ids=lambda op: op.value)
def test_scalar_operations(op: ScalarOp) -> None:
    """All pairs of difficult numbers, in each dtype that has the operation."""
    tested = 0
    for dtype in (dtype for known, dtype in SCALAR_CASES if known is op):
        operands = [DType.BOOL, dtype, dtype] if op is ScalarOp.SELECT else [dtype] * op.arity
        try:
            result_dtype(op, *operands)
        except TypeError:
            continue
        tested += 1
        integers = INTEGERS[:7] if op is ScalarOp.POW else INTEGERS  # how larger powers wrap depends on the processor
        values = (False, True) if dtype is DType.BOOL else FLOATS if dtype.is_float else integers
        listed = np.array(values).astype(dtype.numpy)
        pairs = np.array(list(itertools.product(listed, repeat=min(op.arity, 2))), dtype.numpy)
        columns = [np.ascontiguousarray(c) for c in pairs.T]
        if op is ScalarOp.SELECT:
            columns = [np.arange(len(pairs)) % 3 == 0, *columns]
        b = CoreBuilder()
        inputs = [b.input(TensorType(c.shape, kind)) for c, kind in zip(columns, operands, strict=True)]
        graph = b.build([b.add_node(Pointwise(op), *inputs)])
        with np.errstate(all="ignore"):
            assert_agrees(graph, columns, 1e-14 if dtype is DType.F64 and op.arity > 1 else 2e-5)
    assert tested


def test_a_network() -> None:
    model = load_model(find_model(str(FIXTURES / "convnet")))
    graph = model_graph(model, data_types(model, {"data": ((1, 3, 16, 16), None)}))
    core = run_passes(FOR_REFERENCE, graph, Context(AVX512, Options()))
    text = verified(core)
    assert "stablehlo.convolution" in text and 'loc("' in text
    assert_agrees(core, random_arrays({str(i): t for i, t in enumerate(graph.input_types())}), 1e-4)


def test_a_python_function_is_refused() -> None:
    b = CoreBuilder()
    x = b.input(TensorType((2,), DType.F32))
    graph = b.build(b.host_callback(lambda a: [a], [x.type], x))
    with pytest.raises(GraphError, match=r"core\.host_callback has no form in StableHLO"):
        stablehlo_text(graph)
