"""Loops of known length are replaced by their steps; names and lines are kept."""

from __future__ import annotations

from mxforge.ir.dialects.core import CoreBuilder, Scan
from mxforge.ir.graph import Graph
from mxforge.passes.unroll_scan import UnrollScan
from rewriting import assert_rewrites, assert_same_values, assert_unchanged, run_pass, tensor

UNROLL = UnrollScan()


def running_sum() -> Graph:
    """carry, item, scale -> carry + scale * item, which is also stacked."""
    b = CoreBuilder("step")
    carry, item, scale = b.input(tensor(2)), b.input(tensor(2)), b.input(tensor(2))
    total = b.add(carry, b.mul(scale, item))
    return b.build([total, total])


def test_a_loop_becomes_its_steps() -> None:
    b = CoreBuilder()
    start, items, scale = b.input(tensor(2)), b.input(tensor(2, 2)), b.input(tensor(2))
    assert_rewrites(
        UNROLL,
        b.build(list(b.scan(running_sum(), [start], [items], [scale], 2))),
        """
        (%arg0: 2xf32, %arg1: 2x2xf32, %arg2: 2xf32):
          %0:2 = scan(%arg0, %arg1, %arg2) ({
          (%arg3: 2xf32, %arg4: 2xf32, %arg5: 2xf32):
            %1 = mul(%arg5, %arg4) : 2xf32
            %2 = add(%arg3, %1) : 2xf32
            yield %2, %2
          }) {length = 2, carries = 1, scanned = 1, reverse = false} : (2xf32, 2x2xf32)
          return %0#0, %0#1
        ->
        (%arg0: 2xf32, %arg1: 2x2xf32, %arg2: 2xf32):
          %0 = slice(%arg1) {start = [0, 0], stop = [1, 2], step = [1, 1]} : 1x2xf32
          %1 = reshape(%0) : 2xf32
          %2 = mul(%arg2, %1) : 2xf32
          %3 = add(%arg0, %2) : 2xf32
          %4 = reshape(%3) : 1x2xf32
          %5 = slice(%arg1) {start = [1, 0], stop = [2, 2], step = [1, 1]} : 1x2xf32
          %6 = reshape(%5) : 2xf32
          %7 = mul(%arg2, %6) : 2xf32
          %8 = add(%3, %7) : 2xf32
          %9 = reshape(%8) : 1x2xf32
          %10 = concat(%4, %9) {axis = 0} : 2x2xf32
          return %8, %10
        """,
    )


def test_a_loop_from_the_last_step_to_the_first() -> None:
    b = CoreBuilder()
    start, items, scale = b.input(tensor(2)), b.input(tensor(3, 2)), b.input(tensor(2))
    graph = b.build(list(b.scan(running_sum(), [start], [items], [scale], 3, reverse=True)))
    unrolled = run_pass(UNROLL, graph)
    assert not any(isinstance(n.op, Scan) for n in unrolled.nodes)
    assert_same_values(graph, unrolled)


def test_steps_carry_the_loops_name() -> None:
    b = CoreBuilder()
    start, items, scale = b.input(tensor(2)), b.input(tensor(3, 2)), b.input(tensor(2))
    loop = b.node(Scan(running_sum(), 3, 1, 1), start, items, scale, name="rnn0", location="net.py:4")
    nodes = run_pass(UNROLL, b.build(loop.outputs)).nodes
    assert {(n.name, n.location) for n in nodes} == {("rnn0", "net.py:4")}


def test_a_loop_in_a_loop_is_unrolled() -> None:
    inner = running_sum()
    outer = CoreBuilder("outer")
    carry, rows, scale = outer.input(tensor(2)), outer.input(tensor(2, 2)), outer.input(tensor(2))
    last, _ = outer.scan(inner, [carry], [rows], [scale], 2)
    b = CoreBuilder()
    start, items, factor = b.input(tensor(2)), b.input(tensor(3, 2, 2)), b.input(tensor(2))
    graph = b.build(list(b.scan(outer.build([last]), [start], [items], [factor], 3)))
    result = run_pass(UNROLL, graph)
    assert not any(isinstance(n.op, Scan) for n in result.nodes)
    assert_same_values(graph, result, 1e-6)


def test_a_loop_without_carries_maps() -> None:
    body = CoreBuilder("body")
    square = body.build([body.square(body.input(tensor(2)))])
    b = CoreBuilder()
    graph = b.build(list(b.scan(square, [], [b.input(tensor(3, 2))], [], 3)))
    assert_same_values(graph, run_pass(UNROLL, graph))


def test_a_loop_without_steps_gives_its_start_and_no_rows() -> None:
    b = CoreBuilder()
    start, items, scale = b.input(tensor(2)), b.input(tensor(0, 2)), b.input(tensor(2))
    unrolled = run_pass(UNROLL, b.build(list(b.scan(running_sum(), [start], [items], [scale], 0))))
    assert unrolled.outputs[0] is unrolled.inputs[0]
    assert unrolled.outputs[1].type == tensor(0, 2)


def test_other_graphs_stay() -> None:
    b = CoreBuilder()
    assert_unchanged(UNROLL, b.build([b.exp(b.input(tensor(2)))]))


def test_a_loop_of_too_many_nodes_stays() -> None:
    b = CoreBuilder()
    start, items, scale = b.input(tensor(2)), b.input(tensor(3000, 2)), b.input(tensor(2))
    assert_unchanged(UNROLL, b.build(list(b.scan(running_sum(), [start], [items], [scale], 3000))))


def test_many_steps_that_stack_nothing_stay_a_loop() -> None:
    body = CoreBuilder("step")
    carry, item, scale = body.input(tensor(2)), body.input(tensor(2)), body.input(tensor(2))
    step = body.build([body.add(carry, body.mul(scale, item))])
    b = CoreBuilder()
    start, scale = b.input(tensor(2)), b.input(tensor(2))
    short, long = (b.scan(step, [start], [b.input(tensor(n, 2))], [scale], n)[0] for n in (20, 200))
    nodes = run_pass(UNROLL, b.build([short, long])).nodes
    assert [n.op.length for n in nodes if isinstance(n.op, Scan)] == [200]
