"""Sorts on the CPU: exactly the interpreter's results for every dtype, direction, axis and length."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from compiled import compiled, launches_of, run_program
from mxforge.codegen.dynamic import compile_dynamic
from mxforge.ir.dialects.core import CoreBuilder, evaluate_graph
from mxforge.ir.graph import Graph, Value
from mxforge.ir.types import DType, TensorType
from mxforge.passes.manager import Options
from mxforge.runtime.host.machine import host_target

Array = np.ndarray[Any, Any]
RANDOM = np.random.default_rng(5)
LENGTHS = (1, 2, 15, 16, 17, 63, 64, 65, 128, 129, 300, 1000, 5000)
DTYPES = [d for d in DType if d is not DType.BF16]


def varied(shape: Sequence[int], dtype: DType) -> Array:
    """Random bits: numbers of all magnitudes, NaN; some are zeros of either sign, extrema or equal to others."""
    kind = np.dtype(dtype.numpy)
    x = RANDOM.integers(0, 256, (*shape, kind.itemsize), np.uint8).view(kind)[..., 0].copy()
    if dtype is DType.BOOL:
        return RANDOM.random(shape) < 0.5
    if kind.kind == "f":
        x[np.isnan(x)] = np.nan
        special: Sequence[float] = (0.0, -0.0, np.inf, -np.inf, np.nan, 1.5)
    else:
        special = (0, 7, int(np.iinfo(kind).min), int(np.iinfo(kind).max))
    for value in special:
        x[RANDOM.random(shape) < 0.04] = value
    return x


def sorts(b: CoreBuilder, x: Value, axis: int, descending: bool) -> list[Value]:
    """The sorted elements, their order, and the beginnings of it."""
    length = x.type.shape[axis]
    counts = [None, *sorted({min(k, length) for k in (0, 1, 10, length // 2)})]
    orders = [b.argsort(x, axis, descending, count) for count in counts]
    return [*b.sort(x, axis, descending), *orders]


def graph_of(arrays: Sequence[Array], axis: int, descending: bool) -> Graph:
    b = CoreBuilder("sorts")
    inputs = [b.input(TensorType(x.shape, DType.from_numpy(x.dtype))) for x in arrays]
    return b.build([y for x in inputs for y in sorts(b, x, axis, descending)])


def assert_exact(graph: Graph, arrays: Sequence[Array], options: Options | None = None, threads: int = 2) -> None:
    found = run_program(compiled(graph, options, host_target(threads)), arrays)
    for i, (x, y) in enumerate(zip(found, evaluate_graph(graph, arrays), strict=True)):
        np.testing.assert_array_equal(x, y, f"result {i}")


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_rows_of_all_lengths(dtype: DType, descending: bool) -> None:
    arrays = [varied((3, n), dtype) for n in LENGTHS]
    assert_exact(graph_of(arrays, 1, descending), arrays)


@pytest.mark.parametrize("dtype", [DType.F32, DType.F16, DType.I64, DType.U8], ids=str)
def test_other_axes(dtype: DType) -> None:
    arrays = [varied(shape, dtype) for shape in ((70, 3), (3, 40, 5), (130, 2, 2), (1, 1), (0, 4), (4, 0))]
    for axis in (0, 1):
        assert_exact(graph_of(arrays, axis, axis == 1), arrays)


@pytest.mark.parametrize("threads", [2, 5])
@pytest.mark.parametrize("dtype", [DType.F32, DType.F64, DType.I8], ids=str)
def test_parts_of_long_rows(dtype: DType, threads: int) -> None:
    """Threads sort parts of a row, which are merged."""
    rows, column = varied((1, 40003), dtype), varied((40001, 1), dtype)
    assert_exact(graph_of([rows], 1, False), [rows], threads=threads)
    assert_exact(graph_of([column], 0, True), [column], threads=threads)


@pytest.mark.parametrize("kind", ["sorted", "reversed", "equal", "organ", "two", "sawtooth"])
@pytest.mark.parametrize("dtype", [DType.F32, DType.I64], ids=str)
def test_patterns(dtype: DType, kind: str) -> None:
    """Orders for which simple choices of pivots are slow or do not end."""
    n = 20000
    i = np.arange(n)
    patterns = {
        "sorted": i, "reversed": n - i, "equal": i * 0, "organ": np.minimum(i, n - i), "two": i % 2, "sawtooth": i % 100
    }  # fmt: skip
    x = patterns[kind].astype(dtype.numpy)[None]
    assert_exact(graph_of([x], 1, False), [x])


@pytest.mark.parametrize("dtype", [DType.F64, DType.I64, DType.U64], ids=str)
def test_keys_of_64_bits(dtype: DType) -> None:
    """Keys whose upper halves are equal, near keys, and both at the ends of the range."""
    n = 3000
    near, lower = (RANDOM.integers(0, most, n, np.uint64) for most in (50, 1 << 32))
    upper = RANDOM.integers(0, 4, n, np.uint64) << np.uint64(40)
    bits = [near, near + np.uint64((1 << 63) - 60), upper + near, upper * 2 + near * 7, upper + lower]
    arrays = [x.view(dtype.numpy)[None] for x in bits]
    for descending in (False, True):
        assert_exact(graph_of(arrays, 1, descending), arrays)
    long = np.tile(bits[3], 14).view(dtype.numpy)[None]
    assert_exact(graph_of([long], 1, False), [long])


def test_several_operands_are_sorted_by_the_first() -> None:
    key, others = varied((4, 300), DType.F32), [varied((4, 300), d) for d in (DType.F64, DType.I8, DType.F16)]
    b = CoreBuilder("several")
    operands = [b.input(TensorType(x.shape, DType.from_numpy(x.dtype))) for x in (key, *others)]
    graph = b.build([*b.sort(operands, 1), *b.sort(operands, 0, descending=True)])
    assert_exact(graph, [key, *others])


def test_taken_along_an_axis() -> None:
    x = varied((6, 5, 4), DType.F32)
    for axis in range(3):
        b = CoreBuilder("taken")
        v = b.input(TensorType(x.shape, DType.F32))
        graph = b.build([b.take_along(v, b.argsort(v, axis, count=3), axis)])
        assert_exact(graph, [x])
        (found,) = evaluate_graph(graph, [x])
        np.testing.assert_array_equal(found, np.take(np.sort(x, axis), range(3), axis))


def test_code_is_the_same_for_all_shapes() -> None:
    """It depends on the width of elements only."""
    options = Options(static_shape=False)

    def program_of(shape: tuple[int, int], axis: int, dtype: str) -> Any:
        return compiled(graph_of([np.zeros(shape, dtype)], axis, axis == 0), options, host_target(2))

    first, second = program_of((3, 90), 1, "float32"), program_of((100, 4), 0, "int32")
    symbols = [{s.symbol for s in launches_of(p.steps) if "sort" in s.symbol} for p in (first, second)]
    assert symbols[0] == symbols[1] and len(symbols[0]) == 3


def test_programs_for_any_shapes() -> None:
    def graph(rows: int, length: int) -> tuple[Graph, list[Array]]:
        x = varied((rows, length), DType.F32)
        b = CoreBuilder("any")
        v = b.input(TensorType(x.shape, DType.F32))
        return b.build([*b.sort(v, 1), b.argsort(v, 1, True), *b.sort(v, 0), b.argsort(v, 1, False, 3)]), [x]

    target = host_target(2)
    dynamic = compile_dynamic(graph(5, 600)[0], target, Options(static_shape=False, dynamic=True))
    for rows, length in ((5, 600), (9, 77), (3, 2000)):
        expected, arrays = graph(rows, length)
        program = dynamic.at(expected.input_types())
        assert program is not None
        for x, y in zip(run_program(program, arrays), evaluate_graph(expected, arrays), strict=True):
            np.testing.assert_array_equal(x, y)
