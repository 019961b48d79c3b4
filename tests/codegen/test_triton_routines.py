"""Hand-written Triton kernels on a simulated GPU: sorts, scatters, cumulative operations and gradients of maxima."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

pytest.importorskip("triton", reason="Triton is not installed: pip install mxforge[cuda]")

from compiled import TARGETS, compiled, run_on_gpu
from mxforge.codegen.dynamic import compile_dynamic
from mxforge.codegen.triton.compile import compile_triton
from mxforge.codegen.triton.routines import scatter, sort
from mxforge.codegen.triton.routines.emit import emit_routine
from mxforge.codegen.triton.target import SM90
from mxforge.ir.dialects.core import CoreBuilder, evaluate_graph
from mxforge.ir.graph import Graph, Value
from mxforge.ir.program import HostCall, Program
from mxforge.ir.scalar import ReduceOp
from mxforge.ir.types import DType, TensorType
from mxforge.passes.manager import Options

Array = np.ndarray[Any, Any]
STATIC = pytest.mark.parametrize("static", [True, False], ids=["static", "any-extents"])


class Cases:
    """Several primitives in one graph, on operands with these values."""

    def __init__(self) -> None:
        self.b, self.arrays, self.results = CoreBuilder("cases"), list[Array](), list[Value]()
        self.rng = np.random.default_rng(0)

    def input(self, array: Array) -> Value:
        self.arrays.append(np.ascontiguousarray(array))
        return self.b.input(TensorType(array.shape, DType.from_numpy(array.dtype)))

    def few(self, shape: Sequence[int], dtype: DType, missing: float = 0.0) -> Array:
        """Small integers, of which many are equal, so that sums are exact; a part of floats is NaN."""
        x = self.rng.integers(0, 4, shape).astype(dtype.numpy)
        if dtype.is_float and missing:
            x[self.rng.random(x.shape) < missing] = np.nan
        return x

    def graph(self) -> Graph:
        return self.b.build(self.results)


def assert_exact(found: Sequence[Array], expected: Sequence[Array]) -> None:
    for i, (x, y) in enumerate(zip(found, expected, strict=True)):
        np.testing.assert_array_equal(x, y, f"result {i}")


def assert_runs_exactly(cases: Cases, static: bool = True) -> Program:
    """The results are equal to the interpreter's, and the host computes none."""
    graph = cases.graph()
    program = compiled(graph, Options(static_shape=static), TARGETS["gpu"]())
    assert [step for step in program.steps if isinstance(step, HostCall)] == []
    assert_exact(run_on_gpu(program, cases.arrays), evaluate_graph(graph, cases.arrays))
    return program


# -- gradients of maxima


def add_maxima(cases: Cases, shape: Sequence[int], windows: Sequence[tuple[int, int, tuple[int, int]]], dtype: DType):
    x = cases.few(shape, dtype, missing=0.1)
    out = [(n + sum(p) - w) // s + 1 for n, (w, s, p) in zip(shape, windows, strict=True)]
    g = cases.few(out, dtype)
    sizes, strides, padding = zip(*windows, strict=True)
    cases.results.append(cases.b.select_and_scatter(cases.input(x), cases.input(g), sizes, strides, padding))


UNIT = (1, 1, (0, 0))
WINDOWS: dict[str, list[tuple[int, int, tuple[int, int]]]] = {
    "apart": [UNIT, UNIT, (2, 2, (0, 0)), (2, 3, (0, 1))],
    "overlapping": [UNIT, UNIT, (3, 2, (1, 1)), (2, 1, (0, 1))],
    "along three axes": [UNIT, (2, 1, (0, 1)), (3, 1, (2, 2)), (3, 3, (1, 1))],
    "channels last": [UNIT, (3, 2, (1, 1)), (3, 2, (1, 1)), UNIT],
    "all": [UNIT, UNIT, (7, 1, (0, 0)), (6, 1, (0, 0))],
    "outside": [UNIT, UNIT, (2, 1, (3, 2)), (2, 1, (2, 4))],
}


@STATIC
def test_gradients_of_maxima(static: bool) -> None:
    cases = Cases()
    for windows in WINDOWS.values():
        add_maxima(cases, (2, 3, 7, 6), windows, DType.F32)
    for dtype in (DType.F16, DType.F64, DType.U8, DType.I32) if static else ():
        add_maxima(cases, (2, 2, 5, 4), [UNIT, UNIT, (2, 2, (0, 0)), (3, 2, (1, 1))], dtype)
    assert_runs_exactly(cases, static)


# -- scatters


def add_scatter(
    cases: Cases,
    x: Array,
    groups: Sequence[int],
    axes: Sequence[int],
    op: str,
    batch: int = 0,
    index_dtype: Any = np.int32,
    spread: int = 2,
) -> None:
    """Updates of many equal positions, some of them outside."""
    shape = (*x.shape[:batch], *groups)
    columns = [cases.rng.integers(-(spread // 2), x.shape[a] + spread // 2, shape) for a in axes]
    indices = np.stack(columns, -1).astype(index_dtype)
    rest = [n for k, n in enumerate(x.shape) if k >= batch and k not in axes]
    updates = cases.few((*shape, *rest), DType.from_numpy(x.dtype))
    operands = cases.input(x), cases.input(indices), cases.input(updates)
    cases.results.append(cases.b.scatter(*operands, op, tuple(axes), batch))


@STATIC
def test_scatters_of_all_forms(static: bool) -> None:
    cases = Cases()
    f32 = DType.F32
    for op in ("set", "add"):
        add_scatter(cases, cases.few((5, 7), f32), (200,), (0,), op)
        add_scatter(cases, cases.few((3, 4, 5), f32), (2, 9), (1,), op, index_dtype=np.int64)
        add_scatter(cases, cases.few((2, 3, 4, 5), f32), (8,), (3, 1), op)
        add_scatter(cases, cases.few((3, 6, 2), f32), (7,), (1,), op, batch=1)
        add_scatter(cases, cases.few((9,), f32), (300,), (0,), op)
    add_scatter(cases, cases.few((3, 1), f32), (0,), (0,), "add")
    add_scatter(cases, cases.few((3, 0), f32), (4,), (0,), "add")
    add_scatter(cases, cases.few((1, 1), f32), (1,), (0,), "set", spread=0)
    assert_runs_exactly(cases, static)


def test_scatters_of_all_operations_and_dtypes() -> None:
    cases = Cases()
    for op in ("mul", "max", "min"):
        add_scatter(cases, cases.few((3, 2), DType.F32, 0.2), (12,), (0,), op)
    for op in ("and", "or"):
        add_scatter(cases, cases.few((3, 2), DType.I32), (70,), (0,), op)
    for dtype in DType:
        if dtype is not DType.BF16:
            add_scatter(cases, cases.few((3, 2), dtype), (70,), (0,), "add", index_dtype=np.uint8)
    add_scatter(cases, cases.few((3, 2), DType.BOOL), (5,), (0,), "mul")
    assert_runs_exactly(cases)


@STATIC
def test_scatters_of_many_updates(static: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are sorted by merging, here for less updates than usual."""
    monkeypatch.setattr(scatter, "_COUNTED", 100)
    monkeypatch.setattr(sort, "_COUNTED", 100)
    monkeypatch.setattr(sort, "_WIDTH", 64)
    cases = Cases()
    add_scatter(cases, cases.few((5,), DType.F32), (300,), (0,), "add")
    add_scatter(cases, cases.few((70, 2), DType.F32), (120,), (0,), "set")
    assert_runs_exactly(cases, static)


def test_scatters_take_their_updates_in_order() -> None:
    """Sums are rounded as in a loop over the updates."""
    cases = Cases()
    x = cases.rng.standard_normal((4, 600)).astype(np.float32)
    indices = cases.rng.integers(0, 3, (50, 1)).astype(np.int32)
    updates = cases.rng.standard_normal((50, 600)).astype(np.float32)
    cases.results.append(cases.b.scatter(cases.input(x), cases.input(indices), cases.input(updates), "add", (0,)))
    (found,) = run_on_gpu(compiled(cases.graph(), None, TARGETS["gpu"]()), cases.arrays)
    expected = x.copy()
    for (row,), update in zip(indices, updates, strict=True):
        expected[row] += update
    assert_exact([found], [expected])


def test_sums_of_rows_begin_in_place() -> None:
    """The gradient of a lookup adds rows to zeros, which are not copied."""
    cases = Cases()
    zeros = cases.b.full((6, 3), 0, DType.F32)
    ids, rows = np.array([[5], [1], [5]], np.int32), cases.few((3, 3), DType.F32)
    cases.results.append(cases.b.scatter(zeros, cases.input(ids), cases.input(rows), "add", (0,)))
    program = assert_runs_exactly(cases)
    assert [launch.symbol for launch in program.launches if "copied" in launch.symbol] == []


# -- cumulative operations


@STATIC
def test_cumulative_operations(static: bool) -> None:
    """Along each axis, from both ends, in short rows, in several blocks, and in parts."""
    cases = Cases()
    for shape, axis, reverse in [
        ((5, 300), 1, False),
        ((4, 7, 3), 1, True),
        ((6, 5), 0, False),
        ((2, 5000), 1, True),
        ((2300, 2), 0, False),
        ((300, 2100), 1, False) if static else ((1, 1), 0, True),
        ((0, 3), 1, False),
    ]:
        cases.results.append(cases.b.cumulative(ReduceOp.ADD, cases.input(cases.few(shape, DType.F32)), axis, reverse))
    assert_runs_exactly(cases, static)


def test_cumulative_operations_of_all_dtypes() -> None:
    cases = Cases()
    for dtype in DType:
        if dtype is not DType.BF16:
            cases.results.append(cases.b.cumulative(ReduceOp.ADD, cases.input(cases.few((2, 9), dtype)), 1))
    for op in (ReduceOp.MUL, ReduceOp.MAX, ReduceOp.MIN):
        for dtype in (DType.F32, DType.I8, DType.U8, DType.BOOL):
            cases.results.append(cases.b.cumulative(op, cases.input(cases.few((2, 9), dtype, 0.1)), 1, op is op.MIN))
    for op in (ReduceOp.AND, ReduceOp.OR):
        cases.results.append(cases.b.cumulative(op, cases.input(cases.few((2, 9), DType.I32)), 1))
    assert_runs_exactly(cases)


# -- sorts


def add_sort(cases: Cases, shape: Sequence[int], axis: int, dtype: DType, descending: bool = False) -> None:
    """Sorts many equal elements with their numbers, which shows whether equal elements keep their order."""
    x = cases.few(shape, dtype, missing=0.1)
    if dtype.is_float:
        x[cases.rng.random(shape) < 0.1] *= -1
        x[cases.rng.random(shape) < 0.1] = -np.inf
    elif dtype.is_integer and x.size:
        x[cases.rng.random(shape) < 0.1] = np.iinfo(x.dtype).min
        x[cases.rng.random(shape) < 0.1] = np.iinfo(x.dtype).max
    numbers = cases.b.iota(x.shape, DType.I64, axis)
    operand = cases.input(x)
    cases.results += cases.b.sort([operand, numbers], axis, descending=descending)
    cases.results.append(cases.b.argsort(operand, axis, descending, min(2, x.shape[axis])))


@STATIC
@pytest.mark.parametrize("descending", [False, True])
def test_sorts(static: bool, descending: bool) -> None:
    """Rows of which a program has several, one or a part, and rows of several runs."""
    cases = Cases()
    shapes = [((40, 7), 1), ((3, 4, 5), 1), ((1, 1), 0), ((2, 0), 0), ((2, 200), 1), ((90, 3), 0), ((2, 1100), 1)]
    for shape, axis in shapes[descending::2]:
        add_sort(cases, shape, axis, DType.F32, descending)
    assert_runs_exactly(cases, static)


def test_sorts_of_all_dtypes() -> None:
    cases = Cases()
    for dtype in DType:
        for descending in (False, True) if dtype is not DType.BF16 else ():
            add_sort(cases, (4, 9), 1, dtype, descending)
    assert_runs_exactly(cases)


# -- any shapes, and real code


def test_programs_for_any_shapes() -> None:
    """One compilation has the kernels of all extents."""

    def graph(rows: int, count: int) -> tuple[Graph, list[Array]]:
        cases = Cases()
        add_scatter(cases, cases.few((rows, 3), DType.F32), (count,), (0,), "add")
        add_maxima(cases, (2, rows, count), [UNIT, (2, 1, (0, 1)), (3, 2, (1, 1))], DType.F32)
        return cases.graph(), cases.arrays

    first, _ = graph(9, 80)
    program = compile_dynamic(first, TARGETS["gpu"](), Options(static_shape=False, dynamic=True))
    for extents in ((9, 80), (7, 130)):
        other, arrays = graph(*extents)
        found = program.at(other.input_types())
        assert found is not None
        assert_exact(run_on_gpu(found, arrays), evaluate_graph(other, arrays))


@pytest.mark.parametrize("build", [add_scatter, add_maxima], ids=lambda f: f.__name__)
def test_kernels_compile_without_spills(build: Any) -> None:
    cases = Cases()
    if build is add_scatter:
        add_scatter(cases, cases.few((50, 300), DType.F16), (100,), (0,), "add")
    else:
        add_maxima(cases, (2, 3, 17, 16), WINDOWS["overlapping"], DType.F32)
    (node,) = cases.graph().nodes
    emitted = emit_routine(node, True, True, False)
    assert emitted is not None
    for source in emitted[1]:
        assert compile_triton(source, SM90).resources.stack == 0, source.name
