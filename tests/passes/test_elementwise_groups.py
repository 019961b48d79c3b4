"""Elementwise groups of one space that read each other become one region with several results."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from mxforge.codegen.llvm.target import AVX512
from mxforge.ir.dialects.core import CoreBuilder, Fused
from mxforge.ir.graph import Graph, Value
from mxforge.passes.fuse import Fuse
from mxforge.passes.groups import MAX_RESULTS
from mxforge.passes.manager import Context
from rewriting import assert_same_values, tensor


def regions(graph: Graph) -> list[tuple[str, int]]:
    """The kind and the number of results of each region of the fused graph, which has the values of the graph."""
    fused = Fuse().run(graph, Context(AVX512))
    assert_same_values(graph, fused, 1e-5)
    return [(n.op.kind, len(n.outputs)) for n in fused.nodes if isinstance(n.op, Fused)]


def test_a_value_with_several_readers_is_not_stored_for_them() -> None:
    b = CoreBuilder()
    x, y, z = (b.input(tensor(3, 7)) for _ in range(3))
    shared = b.mul(x, y)
    assert regions(b.build([b.add(shared, z), b.tanh(b.sub(shared, z))])) == [("pointwise", 2)]


def test_a_result_that_others_read_stays_a_result() -> None:
    b = CoreBuilder()
    x, y = b.input(tensor(3, 7)), b.input(tensor(3, 7))
    shared = b.mul(x, y)
    assert regions(b.build([shared, b.exp(shared), b.tanh(shared)])) == [("pointwise", 3)]


def test_readers_of_another_space_read_memory() -> None:
    b = CoreBuilder()
    x, row = b.input(tensor(3, 7)), b.input(tensor(7))
    scale = b.exp(row)
    wide = b.mul(x, b.broadcast(scale, (3, 7), (1,)))
    assert regions(b.build([wide, b.tanh(scale)])) == [("pointwise", 2), ("pointwise", 1)]


def test_a_product_between_two_groups_separates_them() -> None:
    b = CoreBuilder()
    x, w = b.input(tensor(5, 5)), b.input(tensor(5, 5))
    first = b.exp(x)
    found = regions(b.build([b.mul(first, b.matmul(first, w)), b.tanh(first)]))
    assert found == [("pointwise", 2), ("contract", 1)]


def test_a_region_has_a_limit_of_results() -> None:
    b = CoreBuilder()
    value = b.input(tensor(3, 7))
    results: list[Value] = []
    for _ in range(2 * MAX_RESULTS):
        value = b.tanh(value)
        results.append(value)
    found = regions(b.build(results))
    assert len(found) == 2
    assert all(count <= MAX_RESULTS for _, count in found)


def _gates(b: CoreBuilder) -> list[Value]:
    """The results of an LSTM's step with its gates, as the backward graph reads them."""
    state, weight, old = b.input(tensor(8, 5)), b.input(tensor(5, 24)), b.input(tensor(8, 6))
    z = b.matmul(state, weight)
    i, f, o = (b.sigmoid(b.slice_axis(z, 1, k * 6, k * 6 + 6)) for k in range(3))
    g = b.tanh(b.slice_axis(z, 1, 18, 24))
    cell = b.add(b.mul(f, old), b.mul(i, g))
    return [cell, b.mul(o, b.tanh(cell)), i, f, o, g]


def _cotangents(b: CoreBuilder) -> list[Value]:
    """The cotangents of gates side by side, and that of the old cell."""
    i, f, g, cell, grad = (b.input(tensor(8, 6)) for _ in range(5))
    into = b.mul(grad, b.sub(1, b.mul(cell, cell)))
    pieces = [b.mul(b.mul(into, y), b.sub(x, b.mul(x, x))) for x, y in ((i, g), (f, cell), (g, i))]
    return [b.mul(into, f), b.concat(pieces, 1)]


@pytest.mark.parametrize(
    ("step", "expected"),
    [(_gates, [("contract", 6)]), (_cotangents, [("pointwise", 4), ("join", 1)])],
    ids=["forward", "backward"],
)
def test_a_training_step_of_a_cell_is_one_kernel(
    step: Callable[[CoreBuilder], list[Value]], expected: list[tuple[str, int]]
) -> None:
    b = CoreBuilder()
    assert regions(b.build(step(b))) == expected


def test_a_reduction_of_parameters_is_not_repeated_in_every_run() -> None:
    b = CoreBuilder()
    weights, x = b.input(tensor(7, 5), parameter=True), b.input(tensor(7))
    assert regions(b.build([b.add(b.sum(weights, (1,)), x)])) == [("row", 1), ("pointwise", 1)]
