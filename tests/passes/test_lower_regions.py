"""Graphs in loops and branches are lowered, and the state of a loop stays in the layout of its body."""

from __future__ import annotations

import pytest
from mxforge.ir.dialects.core import Cond, CoreBuilder, Fused, Relayout, Scan, While
from mxforge.ir.graph import Graph
from mxforge.ir.types import DType
from mxforge.passes.pipeline import LOWER
from rewriting import assert_same_values, run_pass, tensor

STEPS, SIZE = 3, 16
SAME = ((1, 1), (1, 1))


def lowered(graph: Graph) -> Graph:
    result = graph
    for step in LOWER:
        result = run_pass(step, result)
    assert_same_values(graph, result, 1e-4)
    return result


def step(channels: int, shows: bool = False) -> Graph:
    """state, item, weights -> the tanh of two convolutions plus half of the state; then that if it `shows`, else its
    sums."""
    b = CoreBuilder("step")
    state, item = (b.input(tensor(1, channels, SIZE, SIZE)) for _ in range(2))
    weights = b.input(tensor(channels, channels, 3, 3))
    convolved = b.add(b.conv(state, weights, (1, 1), SAME), b.conv(item, weights, (1, 1), SAME))
    following = b.add(b.tanh(convolved), b.mul(state, 0.5))
    return b.build([following, following if shows else b.sum(following, (2, 3))])


def loop(channels: int, shows: bool = False) -> Graph:
    b = CoreBuilder()
    start, items = b.input(tensor(1, channels, SIZE, SIZE)), b.input(tensor(STEPS, 1, channels, SIZE, SIZE))
    weights = b.input(tensor(channels, channels, 3, 3), parameter=True)
    return b.build(list(b.scan(step(channels, shows), [start], [items], [weights], STEPS)))


def scan_of(graph: Graph) -> Scan:
    (found,) = (n.op for n in graph.nodes if isinstance(n.op, Scan))
    return found


def relayouts(graph: Graph) -> int:
    inside = [n.op.body.nodes if isinstance(n.op, Fused) else (n,) for n in graph.nodes]
    return sum(isinstance(node.op, Relayout) for nodes in inside for node in nodes)


def test_a_state_stays_in_blocks() -> None:
    graph = lowered(loop(32))
    body = scan_of(graph).body
    layout = body.inputs[0].type.layout
    assert layout is not None and layout.block > 1 and body.outputs[0].type.layout == layout
    assert all(v.type.layout is None for v in (*body.inputs[1:], *body.outputs[1:]))
    assert relayouts(graph) == 2  # before the first step and after the last one
    assert all(v.type.layout is None for v in graph.outputs)


@pytest.mark.parametrize(("channels", "shows"), [(20, False), (32, True)])
def test_a_state_is_row_major(channels: int, shows: bool) -> None:
    """If its blocks have gaps, which nothing would write, or each step returns it row-major anyway."""
    body = scan_of(lowered(loop(channels, shows))).body
    assert all(v.type.layout is None for v in (*body.inputs, *body.outputs))


def test_a_state_that_the_body_does_not_compute_in_blocks_is_row_major() -> None:
    b, inner = CoreBuilder(), CoreBuilder("step")
    state, item = (inner.input(tensor(1, 32, SIZE, SIZE)) for _ in range(2))
    body = inner.build([inner.add(state, item)])
    start, items = b.input(tensor(1, 32, SIZE, SIZE)), b.input(tensor(STEPS, 1, 32, SIZE, SIZE))
    graph = lowered(b.build(list(b.scan(body, [start], [items], [], STEPS))))
    assert relayouts(graph) == 0 and scan_of(graph).body.inputs[0].type.layout is None


def test_graphs_of_branches_and_while_loops_are_lowered() -> None:
    def of_state(*results: str) -> Graph:
        inner = CoreBuilder()
        x, n = inner.input(tensor(4)), inner.input(tensor(dtype=DType.I32))
        values = {
            "x": inner.add(inner.exp(inner.neg(x)), x),
            "n": inner.sub(n, 1),
            "more": inner.gt(n, 0),
        }
        return inner.build([values[name] for name in results])

    b = CoreBuilder()
    x, n = b.input(tensor(4)), b.input(tensor(dtype=DType.I32))
    repeated, rest = b.while_(of_state("more"), of_state("x", "n"), x, n, limit=5)
    (chosen,) = b.cond(b.gt(rest, n), of_state("x"), of_state("x"), repeated, n)
    graph = lowered(b.build([chosen]))
    for op in (n.op for n in graph.nodes if isinstance(n.op, While | Cond)):
        assert all(not node.op.name.startswith("core.exp") for region in op.regions() for node in region.nodes)
        assert any(isinstance(node.op, Fused) for region in op.regions() for node in region.nodes)
