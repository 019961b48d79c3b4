"""Cumulative operations on the CPU: along the last axis, and along others, where vectors hold columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from compiled import check, compiled, launches_of, run_program
from mxforge.codegen.dynamic import compile_dynamic
from mxforge.ir.dialects.core import CoreBuilder, evaluate_graph
from mxforge.ir.graph import Graph
from mxforge.ir.scalar import ReduceOp
from mxforge.ir.types import DType, TensorType
from mxforge.passes.manager import Options
from mxforge.runtime.host.machine import host_target

Array = np.ndarray[Any, Any]
RANDOM = np.random.default_rng(2)
SHAPES = ((3, 5), (40, 3, 17), (9, 300), (2, 7, 256), (1, 70), (2, 0))
ARITHMETIC = (ReduceOp.ADD, ReduceOp.MUL, ReduceOp.MAX, ReduceOp.MIN)


def graph_of(shape: tuple[int, ...], dtype: DType, ops: tuple[ReduceOp, ...]) -> Graph:
    b = CoreBuilder("cumulative")
    x = b.input(TensorType(shape, dtype))
    return b.build([b.cumulative(op, x, axis, r) for op in ops for axis in range(len(shape)) for r in (False, True)])


def values(shape: tuple[int, ...], dtype: DType) -> Array:
    x = RANDOM.integers(-2, 3, shape) if not dtype.is_float else RANDOM.uniform(-1.5, 1.5, shape)
    return x.astype(dtype.numpy)


@pytest.mark.parametrize("dtype", [DType.F32, DType.F64, DType.F16, DType.I32, DType.I64, DType.U8], ids=str)
def test_all_axes(dtype: DType) -> None:
    for shape in SHAPES:
        x = values(shape, dtype)
        check(graph_of(shape, dtype, ARITHMETIC), x, tolerance=2e-3 if dtype is DType.F16 else 1e-5)


def test_booleans() -> None:
    for shape in SHAPES:
        check(graph_of(shape, DType.BOOL, (ReduceOp.AND, ReduceOp.OR)), RANDOM.random(shape) < 0.9)


def test_code_serves_all_shapes() -> None:
    """It depends on the operation, the dtype, and whether vectors hold columns."""
    programs = [compiled(graph_of(s, DType.F32, (ReduceOp.ADD,)), target=host_target(2)) for s in ((5, 90), (70, 40))]
    symbols = [{launch.symbol for launch in launches_of(p.steps)} for p in programs]
    assert symbols[0] == symbols[1]
    dynamic = compile_dynamic(
        graph_of((5, 90), DType.F32, (ReduceOp.ADD,)), host_target(2), Options(static_shape=False, dynamic=True)
    )
    for shape in ((5, 90), (33, 300)):
        graph, x = graph_of(shape, DType.F32, (ReduceOp.ADD,)), values(shape, DType.F32)
        program = dynamic.at(graph.input_types())
        assert program is not None
        for found, expected in zip(run_program(program, [x]), evaluate_graph(graph, [x]), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
