"""Calls are replaced by their bodies, also in nested graphs; names and lines are kept."""

from __future__ import annotations

from mxforge.ir.dialects.core import Call, CoreBuilder, Scan
from mxforge.ir.graph import Graph
from mxforge.passes.inline_calls import InlineCalls
from rewriting import assert_rewrites, assert_same_values, assert_unchanged, run_pass, tensor

INLINE = InlineCalls()


def difference() -> Graph:
    """x, y -> x - y, x."""
    body = CoreBuilder("body")
    x, y = body.input(tensor(2)), body.input(tensor(2))
    return body.build([body.sub(x, y), x])


def test_a_call_becomes_its_body() -> None:
    b = CoreBuilder()
    p, q = b.input(tensor(2)), b.input(tensor(2))
    assert_rewrites(
        INLINE,
        b.build(list(b.call(difference(), q, p))),
        """
        (%arg0: 2xf32, %arg1: 2xf32):
          %0:2 = call(%arg1, %arg0) ({
          (%arg2: 2xf32, %arg3: 2xf32):
            %1 = sub(%arg2, %arg3) : 2xf32
            yield %1, %arg2
          }) : (2xf32, 2xf32)
          return %0#0, %0#1
        ->
        (%arg0: 2xf32, %arg1: 2xf32):
          %0 = sub(%arg1, %arg0) : 2xf32
          return %0, %arg1
        """,
    )


def test_nodes_carry_the_name_and_the_line_of_the_call() -> None:
    b = CoreBuilder()
    call = b.node(Call(difference()), b.input(tensor(2)), b.input(tensor(2)), name="gap", location="net.py:4")
    nodes = run_pass(INLINE, b.build(call.outputs)).nodes
    assert {(n.name, n.location) for n in nodes} == {("gap", "net.py:4")}


def test_calls_in_calls_and_in_loops_go_too() -> None:
    inner = CoreBuilder("inner")
    doubled = inner.build(inner.call(difference(), inner.input(tensor(2)), inner.input(tensor(2)))[:1])
    step = CoreBuilder("step")
    state, item = step.input(tensor(2)), step.input(tensor(2))
    body = step.build(step.call(doubled, state, item))
    b = CoreBuilder()
    start, rows = b.input(tensor(2)), b.input(tensor(3, 2))
    graph = b.build([b.scan(body, [start], [rows], [], 3)[0], b.scan(body, [start], [rows], [], 3)[0]])
    result = run_pass(INLINE, graph)
    loops = [n.op for n in result.nodes if isinstance(n.op, Scan)]
    assert [n.op.name for n in loops[0].body.nodes] == ["core.pointwise"]
    assert loops[0].body is loops[1].body
    assert_same_values(graph, result)


def test_calls_with_a_gradient_stay_where_it_is_still_needed() -> None:
    b = CoreBuilder()
    graph = b.build([b.stop_gradient(b.input(tensor(2)))])
    assert_unchanged(InlineCalls(own_gradients=False), graph)
    inlined = run_pass(INLINE, graph)
    assert inlined.outputs == inlined.inputs


def test_other_graphs_stay() -> None:
    b = CoreBuilder()
    assert_unchanged(INLINE, b.build([b.exp(b.input(tensor(2)))]))
