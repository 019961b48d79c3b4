"""Products that a loop adds up are computed after it; other carries and stacks stay as they are."""

from __future__ import annotations

import pytest
from mxforge.ir.dialects.core import CoreBuilder, Dot, Scan
from mxforge.ir.graph import Graph, Node
from mxforge.passes.hoist_sums import HoistSums
from rewriting import assert_same_values, assert_unchanged, run_pass, tensor

HOIST = HoistSums()
STEPS = 3


def loop(graph: Graph) -> Node:
    (found,) = [n for n in graph.nodes if isinstance(n.op, Scan)]
    return found


def accumulating(
    contract: tuple[int, int] = (0, 0), x: tuple[int, ...] = (4, 5), y: tuple[int, ...] = (4, 6), *, reads: bool = False
) -> Graph:
    """state, total, x, y -> exp(state) * x, total + dot(exp(state) * x, y): the left factor is not a stack yet. If
    `reads`, the loop also stacks the total."""
    b = CoreBuilder("step")
    state, total = b.input(tensor(*x)), b.input(tensor(x[1 - contract[0]], y[1 - contract[1]]))
    left, right = b.input(tensor(*x)), b.input(tensor(*y))
    moved = b.mul(b.exp(state), left)
    new = b.add(total, b.dot(moved, right, (), (), contract[:1], contract[1:]))
    body = b.build([b.tanh(moved), new, *([total] if reads else [])])
    whole = CoreBuilder("loop")
    start = [whole.input(v.type) for v in body.inputs[:2]]
    scanned = [whole.input(tensor(STEPS, *s)) for s in (x, y)]
    return whole.build(list(whole.scan(body, start, scanned, [], STEPS, reverse=True)))


@pytest.mark.parametrize("contract", [(0, 0), (1, 1), (1, 0)])
def test_a_sum_of_products_is_one_product(contract: tuple[int, int]) -> None:
    y = (6, 5) if contract == (1, 1) else (5, 6) if contract == (1, 0) else (4, 6)
    graph = accumulating(contract, y=y)
    result = run_pass(HOIST, graph)
    assert_same_values(graph, result, 1e-5)
    assert loop(result).op.carries == 1  # type: ignore[attr-defined]
    assert not any(isinstance(n.op, Dot) for n in loop(result).op.regions()[0].nodes)
    assert sum(isinstance(n.op, Dot) for n in result.nodes) == 1


def test_a_total_that_the_loop_reads_stays() -> None:
    assert_unchanged(HOIST, accumulating(reads=True))


def test_a_product_smaller_than_its_factors_stays() -> None:
    assert_unchanged(HOIST, accumulating(x=(40, 2), y=(40, 2)))


def test_a_sum_of_zeros_is_its_first_value() -> None:
    b = CoreBuilder("step")
    total, x = b.input(tensor(2)), b.input(tensor(2))
    body = b.build([b.add(total, b.full((2,), 0.0, total.type.dtype)), b.exp(x)])
    whole = CoreBuilder("loop")
    start, scanned = whole.input(tensor(2)), whole.input(tensor(STEPS, 2))
    graph = whole.build(list(whole.scan(body, [start], [scanned], [], STEPS)))
    result = run_pass(HOIST, graph)
    assert_same_values(graph, result)
    assert result.outputs[0] is result.inputs[0]
    assert loop(result).op.carries == 0  # type: ignore[attr-defined]
