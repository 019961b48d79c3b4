"""Positions of extrema in long rows: first of equal elements, NaN before numbers, all dtypes and lengths."""

from __future__ import annotations

import numpy as np
import pytest
from compiled import compiled, run_program
from mxforge.ir.dialects.core import ArgReduce, CoreBuilder
from mxforge.ir.graph import Graph
from mxforge.ir.types import DType
from mxforge.passes.expand import Expand
from mxforge.passes.manager import Context
from mxforge.runtime.host.machine import host_target
from rewriting import tensor

np_ = pytest.importorskip("mxforge").np
DTYPES = [DType.F32, DType.F64, DType.F16, DType.I8, DType.U8, DType.I32, DType.U32, DType.I64, DType.U64, DType.BOOL]
FIND = {"max": np.argmax, "min": np.argmin}


def graph_of(kind: str, shape: tuple[int, ...], dtype: DType = DType.F32) -> Graph:
    b = CoreBuilder()
    return b.build([b.arg_reduce(kind, b.input(tensor(*shape, dtype=dtype)), len(shape) - 1)])


def has_kernel(graph: Graph) -> bool:
    """True if the position is found by one kernel."""
    lowered = Expand().run(graph, Context(host_target(1)))
    return any(isinstance(node.op, ArgReduce) for node in lowered.nodes)


def test_other_rows_are_reduced() -> None:
    assert has_kernel(graph_of("max", (3, 256))) and not has_kernel(graph_of("max", (300, 10)))
    b = CoreBuilder()
    x = b.input(tensor(300, 300))
    assert has_kernel(b.build([b.arg_reduce("max", b.reshape(x, (90_000,)), 0)]))
    b = CoreBuilder()
    x = b.input(tensor(300, 300))
    assert not has_kernel(b.build([b.arg_reduce("max", b.exp(x), 1), b.arg_reduce("min", x, 0)]))


@pytest.mark.parametrize("kind", FIND)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_dtypes(dtype: DType, kind: str) -> None:
    rng = np.random.default_rng(0)
    for length in (256, 299, 1030):
        if dtype.is_float:
            x = np.round(rng.standard_normal((5, length)), 1).astype(dtype.numpy)
        else:
            low, high = (0, 2) if dtype is DType.BOOL else (np.iinfo(dtype.numpy).min, np.iinfo(dtype.numpy).max)
            x = rng.integers(low, high, (5, length), dtype.numpy, endpoint=dtype is not DType.BOOL)
        (found,) = run_program(compiled(graph_of(kind, x.shape, dtype)), [x])
        np.testing.assert_array_equal(found, FIND[kind](x, 1))


@pytest.mark.parametrize("kind", FIND)
def test_special_numbers(kind: str) -> None:
    rng = np.random.default_rng(1)
    length = 391
    rows = [np.full(length, number, np.float32) for number in (np.inf, -np.inf, 0.0, np.nan, -0.0)]
    for place in (0, 7, 31, 32, 200, 383, 384, 390):
        for number in (np.nan, np.inf, -np.inf):
            rows.append(rng.standard_normal(length).astype(np.float32))
            rows[-1][place] = number
    rows.append(rng.choice(np.array([0.0, -0.0, np.nan], np.float32), length))
    x = np.stack(rows)
    (found,) = run_program(compiled(graph_of(kind, x.shape)), [x])
    np.testing.assert_array_equal(found, FIND[kind](x, 1))


def test_eager_calls_of_several_lengths() -> None:
    rng = np.random.default_rng(2)
    for shape in ((4, 500), (7, 300), (2, 3, 1000), (9, 40)):
        x = rng.integers(0, 30, shape).astype(np.float32)
        array = np_.array(x)
        for axis in (None, -1, 0):
            assert np.array_equal(np_.argmax(array, axis).asnumpy(), np.argmax(x, axis))
            assert np.array_equal(np_.argmin(array, axis).asnumpy(), np.argmin(x, axis))
