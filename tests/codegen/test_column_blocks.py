"""Reductions across rows that read several rows together: every order of bits, extents, dtypes, several reductions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from compiled import compiled, run_program
from mxforge.codegen.llvm.schedule.columns import column_block
from mxforge.ir.dialects.core import CoreBuilder, evaluate_graph
from mxforge.ir.graph import Graph, Value
from mxforge.ir.types import DType
from mxforge.runtime.host.machine import host_target
from rewriting import tensor

nd = pytest.importorskip("mxforge").nd
Array = np.ndarray


def graph_of(body: Callable[[CoreBuilder], Value]) -> Graph:
    b = CoreBuilder("g")
    return b.build([body(b)])


SHAPES = [(15, 600), (16, 512), (17, 1025), (23, 519), (40, 2500), (260, 64)]


def in_order(x: Array) -> Array:
    """The sums of the columns of float32, added one row after another."""
    return np.add.accumulate(np.vstack([np.zeros_like(x[:1]), x]), axis=0, dtype=np.float32)[-1]


def with_extremes(shape: tuple[int, ...], dtype: str = "float32") -> Array:
    """Numbers with NaN of both signs, infinities and zeros of both signs, in some rows."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal(shape).astype(dtype)
    for number in (np.nan, -np.nan, np.inf, -np.inf):
        x[rng.random(shape) < 0.02] = number
    x[:, ::3] = rng.choice([0.0, -0.0], x[:, ::3].shape)
    return x


def extreme_in_order(x: Array, larger: bool) -> Array:
    """Extrema of columns: the first NaN, and the last of equal zeros."""
    total = np.full_like(x[0], -np.inf if larger else np.inf)
    for row in x:
        keep = (total > row if larger else total < row) | np.isnan(total)
        total = np.where(keep, total, row)
    return total


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_sums_are_added_in_the_order_of_rows(shape: tuple[int, int]) -> None:
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    graph = graph_of(lambda b: b.sum(b.input(tensor(*shape)), (0,)))
    for found in (run_program(compiled(graph), [x])[0], nd.sum(nd.array(x), axis=0).asnumpy()):
        np.testing.assert_array_equal(found.view(np.int32), in_order(x).view(np.int32))


@pytest.mark.parametrize("larger", [True, False], ids=["max", "min"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_extrema_have_the_bits_of_the_order_of_rows(shape: tuple[int, int], larger: bool) -> None:
    x = with_extremes(shape)
    expected = extreme_in_order(x, larger)
    graph = graph_of(lambda b: (b.max if larger else b.min)(b.input(tensor(*shape)), (0,)))
    eager = (nd.max if larger else nd.min)(nd.array(x), axis=0).asnumpy()
    for found in (run_program(compiled(graph), [x])[0], eager):
        np.testing.assert_array_equal(found.view(np.int32), expected.view(np.int32))


def moments(b: CoreBuilder) -> Value:
    x = b.input(tensor(37, 1100))
    mean = b.div(b.sum(x, (0,)), 37.0)
    rest = b.sub(x, b.broadcast(mean, (37, 1100), (1,)))
    return b.div(b.sum(b.mul(rest, rest), (0,)), 37.0)


def two_axes(b: CoreBuilder) -> Value:
    return b.sum(b.mul(b.input(tensor(5, 11, 520)), b.input(tensor(5, 11, 520))), (0, 1))


def middle_axis(b: CoreBuilder) -> Value:
    return b.add(b.max(b.abs(b.input(tensor(6, 19, 530))), (1,)), 1.0)


def scaled_sum(b: CoreBuilder) -> Value:
    """An update of a row by a sum of rows."""
    return b.sub(b.input(tensor(700)), b.mul(b.sum(b.input(tensor(23, 700)), (0,)), 0.5))


def joined_reductions(b: CoreBuilder) -> Value:
    x = b.input(tensor(33, 533))
    return b.sub(b.max(x, (0,)), b.min(x, (0,)))


BODIES = [moments, two_axes, middle_axis, scaled_sum, joined_reductions]


def inputs_of(graph: Graph) -> list[Array]:
    rng = np.random.default_rng(2)
    return [rng.standard_normal(v.type.shape).astype(v.type.dtype.numpy) for v in graph.inputs]


@pytest.mark.parametrize("body", BODIES, ids=lambda f: f.__name__)
def test_rows_of_several_steps(body: Callable[[CoreBuilder], Value]) -> None:
    graph = graph_of(body)
    inputs = inputs_of(graph)
    (found,) = run_program(compiled(graph), inputs)
    np.testing.assert_allclose(found, evaluate_graph(graph, inputs)[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [DType.F64, DType.F16, DType.I32, DType.U8, DType.I64, DType.BOOL], ids=str)
def test_dtypes(dtype: DType) -> None:
    def body(b: CoreBuilder) -> Value:
        x = b.input(tensor(45, 675, dtype=dtype))
        return b.any(x, (0,)) if dtype is DType.BOOL else b.sub(b.sum(x, (0,)), b.max(x, (0,)))

    graph = graph_of(body)
    x = (np.random.default_rng(3).integers(0, 4, (45, 675))).astype(dtype.numpy)
    (found,) = run_program(compiled(graph), [x])
    np.testing.assert_array_equal(found, evaluate_graph(graph, [x])[0])


def test_the_order_does_not_depend_on_threads() -> None:
    graph = graph_of(lambda b: b.sum(b.input(tensor(50, 4000)), (0,)))
    x = np.random.default_rng(4).standard_normal((50, 4000)).astype(np.float32)
    results = [run_program(compiled(graph, target=host_target(n)), [x])[0] for n in (1, 2, 16)]
    assert all(np.array_equal(results[0], other) for other in results)


def test_wide_rows_are_read_in_long_pieces() -> None:
    assert [column_block(n, 8) for n in (9, 512, 1000, 4096, 100_000)] == [256, 256, 256, 1024, 1024]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_sums_of_rows_with_a_mean_and_a_scale_are_added_in_the_order_of_rows(shape: tuple[int, int]) -> None:
    """What is the same in a whole row is no further operand of which pieces are read."""
    rng = np.random.default_rng(1)
    x, g = (rng.standard_normal(shape).astype(np.float32) for _ in range(2))
    mean, scale = (rng.standard_normal(shape[0]).astype(np.float32) for _ in range(2))
    b = CoreBuilder("g")
    operands = b.input(tensor(*shape)), b.input(tensor(*shape)), b.input(tensor(shape[0])), b.input(tensor(shape[0]))
    centred = b.sub(operands[0], b.broadcast_along(operands[2], shape, 0))
    value = b.mul(operands[1], b.mul(centred, b.broadcast_along(operands[3], shape, 0)))
    (found,) = run_program(compiled(b.build([b.sum(value, (0,))])), [x, g, mean, scale])
    expected = in_order(g * ((x - mean[:, None]) * scale[:, None]))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
