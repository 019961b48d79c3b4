"""Products of matrices in compressed rows on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from compiled import check, compiled, launches_of, run_program
from mxforge.codegen.dynamic import compile_dynamic
from mxforge.ir.dialects.core import CoreBuilder, evaluate_graph
from mxforge.ir.graph import Graph
from mxforge.ir.types import DType, TensorType
from mxforge.passes.manager import Options
from mxforge.runtime.host.machine import host_target

Array = np.ndarray[Any, Any]
RANDOM = np.random.default_rng(4)


def operands(rows: int, inner: int, width: int, density: float, dtype: DType, index: DType = DType.I64) -> list[Array]:
    """A random sparse matrix, some of whose rows are empty, and a dense one."""
    mask = RANDOM.random((rows, inner)) < density
    mask[RANDOM.random(rows) < 0.2] = False
    columns = np.nonzero(mask)[1].astype(index.numpy)
    pointers = np.concatenate([[0], np.cumsum(mask.sum(1))]).astype(index.numpy)
    data, dense = (RANDOM.integers(-8, 9, shape).astype(dtype.numpy) for shape in ((len(columns),), (inner, width)))
    return [data, columns, pointers, dense]


def graph_of(arrays: list[Array]) -> Graph:
    b = CoreBuilder("product")
    return b.build([b.csr_dot(*(b.input(TensorType(x.shape, DType.from_numpy(x.dtype))) for x in arrays))])


@pytest.mark.parametrize("dtype", [DType.F32, DType.F64, DType.F16, DType.I32, DType.I64], ids=str)
def test_products(dtype: DType) -> None:
    for width in (1, 3, 16, 17, 64, 200):
        arrays = operands(30, 50, width, 0.2, dtype, DType.I32 if width == 17 else DType.I64)
        check(graph_of(arrays), *arrays, tolerance=0)


def test_empty_matrices() -> None:
    for shape in ((4, 3, 5), (1, 1, 1), (3, 4, 0)):
        arrays = operands(*shape, 0, DType.F32)
        check(graph_of(arrays), *arrays)


def test_code_serves_all_shapes() -> None:
    first, second = (operands(*shape, 0.3, DType.F32) for shape in ((30, 20, 40), (7, 60, 300)))
    programs = [compiled(graph_of(a), target=host_target(2)) for a in (first, second)]
    assert len({launch.symbol for p in programs for launch in launches_of(p.steps)}) == 1
    dynamic = compile_dynamic(graph_of(first), host_target(2), Options(static_shape=False, dynamic=True))
    program = dynamic.at(graph_of(second).input_types())
    assert program is not None
    np.testing.assert_array_equal(run_program(program, second)[0], evaluate_graph(graph_of(second), second)[0])
