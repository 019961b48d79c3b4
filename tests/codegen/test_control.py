"""Data-dependent branches and loops, compiled to native control flow."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from compiled import check, compiled, launches_of, run_program
from mxforge.codegen.driver import compile_graph
from mxforge.codegen.statistics import statistics
from mxforge.ir.code_store import MemoryStore
from mxforge.ir.dialects.core import CoreBuilder, evaluate_graph
from mxforge.ir.graph import Graph, Value
from mxforge.ir.program import PACK
from mxforge.ir.types import DType, TensorType
from mxforge.passes.manager import Options
from mxforge.runtime.host.machine import host_target

F32 = DType.F32


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def less(*types: TensorType, limit: float) -> Graph:
    """A condition graph: true if the first of several values is below a limit."""
    b = CoreBuilder("less")
    first, *_ = [b.input(t) for t in types]
    return b.build([b.lt(first, b.full((), limit, types[0].dtype))])


@pytest.mark.parametrize("start", [0.0, 7.0, 9.0], ids=lambda n: f"from {n}")
def test_a_loop_stops_by_its_condition(start: float) -> None:
    """The state is larger than a page; one part is constant, and one depends only on constants."""
    types = (TensorType((), F32), TensorType((50, 70), F32), TensorType((70,), F32))
    b = CoreBuilder("step")
    count, total, row = [b.input(t) for t in types]
    table = b.sin(b.constant(np.arange(70, dtype=np.float32)))
    added = b.broadcast_along(b.mul(row, table), (50, 70), 1)
    body = b.build([b.add(count, 1), b.add(total, added), row])
    b = CoreBuilder("loop")
    values = [b.input(t) for t in types]
    check(b.build(b.while_(less(*types, limit=8.0), body, *values)), np.float32(start), normal(50, 70), normal(70))


def test_a_loop_of_convolutions() -> None:
    """The body's halos and packed weights remain in the workspace."""
    types = (TensorType((), F32), TensorType((2, 16, 7, 6), F32))
    b = CoreBuilder("step")
    count, x = [b.input(t) for t in types]
    w = b.constant(normal(16, 16, 3, 3) / 12)
    y = b.conv(x, w, (1, 1), [(1, 1), (1, 1)])
    body = b.build([b.add(count, 1), b.conv(b.tanh(y), w, (1, 1), [(1, 1), (1, 1)])])
    b = CoreBuilder("loop")
    count, x = [b.input(t) for t in types]
    _, y = b.while_(less(*types, limit=3.0), body, count, b.tanh(x))
    check(b.build([b.neg(y)]), np.float32(0), normal(2, 16, 7, 6))


def test_loops_in_loops() -> None:
    types = (TensorType((), F32), TensorType((5,), F32))
    b = CoreBuilder("inner")
    count, x = [b.input(t) for t in types]
    inner = b.build([b.add(count, 1), b.mul(x, 1.5)])
    b = CoreBuilder("outer")
    count, x = [b.input(t) for t in types]
    _, x = b.while_(less(*types, limit=2.0), inner, b.full((), 0, F32), x)
    outer = b.build([b.add(count, 1), b.sub(x, 1)])
    b = CoreBuilder("loop")
    check(b.build(b.while_(less(*types, limit=3.0), outer, *(b.input(t) for t in types))), np.float32(0), normal(5))


def test_a_loop_is_found_by_its_text() -> None:
    types = (TensorType((), F32), TensorType((5,), F32))
    b = CoreBuilder("step")
    count, x = [b.input(t) for t in types]
    step = b.build([b.add(count, 1), b.mul(x, 1.5)])
    b = CoreBuilder("loop")
    graph = b.build(b.while_(less(*types, limit=3.0), step, *(b.input(t) for t in types)))
    store = MemoryStore()
    first = compile_graph(graph, host_target(), Options(), store)
    modules = statistics.modules
    second = compile_graph(graph, host_target(), Options(), store)
    assert statistics.modules == modules
    inputs = np.zeros((), np.float32), normal(5)
    for program in (first, second):
        _, found = run_program(program, inputs)
        assert np.allclose(found, inputs[1] * 1.5**3)


def swapped(x: TensorType, y: TensorType) -> Graph:
    b = CoreBuilder("swapped")
    left, right = b.input(x), b.input(y)
    return b.build([right, left])


def computed(x: TensorType, y: TensorType) -> Graph:
    b = CoreBuilder("computed")
    left, right = b.input(x), b.input(y)
    return b.build([b.add(left, right), b.constant(np.arange(1200, dtype=np.float32))])


@pytest.mark.parametrize("pred", [False, True])
def test_branches(pred: bool) -> None:
    type = TensorType((1200,), F32)
    b = CoreBuilder("branch")
    condition, x, y = b.input(TensorType((), DType.BOOL)), b.input(type), b.input(type)
    results = b.cond(condition, swapped(type, type), computed(type, type), x, b.neg(y))
    check(b.build([b.abs(v) for v in results]), np.bool_(pred), normal(1200), normal(1200))


def test_a_loop_that_swaps_its_state() -> None:
    types = (TensorType((), F32), TensorType((3,), F32), TensorType((3,), F32))
    b = CoreBuilder("step")
    count, x, y = [b.input(t) for t in types]
    body = b.build([b.add(count, 1), y, x])
    b = CoreBuilder("loop")
    values: list[Value] = [b.input(t) for t in types]
    graph = b.build(b.while_(less(*types, limit=3.0), body, *values))
    arrays = [np.float32(0), normal(3), normal(3) + 1]
    for found, expected in zip(run_program(compiled(graph), arrays), evaluate_graph(graph, arrays), strict=True):
        np.testing.assert_array_equal(found, expected)


def long_scan(body: Graph, length: int, carries: int, scanned: int, *types: TensorType, reverse: bool = False) -> Graph:
    """A scan that is too long to be unrolled."""
    b = CoreBuilder("scan")
    values = [b.input(t) for t in types]
    slices, rest = values[carries : carries + scanned], values[carries + scanned :]
    results = b.scan(body, values[:carries], slices, rest, length, reverse)
    return b.build([b.neg(v) for v in results])


@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
def test_a_long_scan_remains_a_loop(reverse: bool) -> None:
    """Carries, slices, stacks, an invariant weight that is packed once, and a carry that is passed on unchanged."""
    b = CoreBuilder("step")
    total, fixed = b.input(TensorType((4, 24), F32)), b.input(TensorType((3,), F32))
    item, weight = b.input(TensorType((4, 24), F32)), b.input(TensorType((24, 24), F32))
    new = b.tanh(b.add(b.matmul(total, b.transpose(weight)), item))
    body = b.build([new, fixed, b.mul(new, 2), item, b.sum(new)])
    types = (total.type, fixed.type, TensorType((700, 4, 24), F32), weight.type)
    graph = long_scan(body, 700, 2, 1, *types, reverse=reverse)
    program = compiled(graph)
    assert len(program.computations) < 20
    arrays = [normal(4, 24), normal(3), normal(700, 4, 24), normal(24, 24) / 5]
    for found, expected in zip(run_program(program, arrays), evaluate_graph(graph, arrays), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def scans_in_a_scan() -> Graph:
    """Each of 90 steps runs 50 of another scan, with a weight that both hand to every step."""
    state, rows, weight = (TensorType(shape, F32) for shape in ((9, 24), (50, 9, 24), (24, 24)))
    b = CoreBuilder("inner")
    total, item, w = b.input(state), b.input(TensorType((9, 24), F32)), b.input(weight)
    inner = b.build([b.tanh(b.add(b.matmul(total, w), item))])
    b = CoreBuilder("outer")
    total, item, w = b.input(state), b.input(rows), b.input(weight)
    outer = b.build(b.scan(inner, [total], [item], [w], 50))
    return long_scan(outer, 90, 1, 1, state, TensorType((90, *rows.shape), F32), weight)


@pytest.mark.parametrize("is_parameter", [True, False], ids=["parameter", "data"])
def test_weights_of_a_scan_are_packed_outside_of_it(is_parameter: bool) -> None:
    """Those of nested scans too: ahead of the runs if they are parameters."""
    graph = replace(scans_in_a_scan(), parameters=frozenset({2} if is_parameter else ()))
    program = compiled(graph)
    assert any(launch.kind == PACK for launch in launches_of(program.prepare)) == is_parameter
    assert any(launch.kind == PACK for launch in program.computations) != is_parameter
    arrays = [normal(9, 24), normal(90, 50, 9, 24), normal(24, 24) / 5]
    for found, wanted in zip(run_program(program, arrays), evaluate_graph(graph, arrays), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


def test_a_long_scan_of_branches_and_loops() -> None:
    """Each step has a branch and an inner loop; carries are swapped."""
    types = (TensorType((), F32), TensorType((5,), F32))
    b = CoreBuilder("inner")
    count, x = [b.input(t) for t in types]
    inner = b.build([b.add(count, 1), b.mul(x, 0.5)])
    b = CoreBuilder("step")
    left, right, item = (b.input(types[1]) for _ in range(3))
    positive = b.gt(b.sum(item), 0.0)
    in_order = swapped(types[1], types[1])
    in_order = replace(in_order, outputs=in_order.outputs[::-1])
    one, other = b.cond(positive, swapped(types[1], types[1]), in_order, b.mul(left, 0.3), item)
    _, halved = b.while_(less(*types, limit=2.0), inner, b.full((), 0, F32), b.sub(one, other))
    body = b.build([right, halved, b.add(left, right)])
    graph = long_scan(body, 2000, 2, 1, types[1], types[1], TensorType((2000, 5), F32))
    program = compiled(graph)
    assert len(program.computations) < 20
    arrays = [normal(5), normal(5) + 1, normal(2000, 5)]
    for found, expected in zip(run_program(program, arrays), evaluate_graph(graph, arrays), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_random_bits_in_a_loop_use_the_key_of_the_step() -> None:
    """The key is computed inside the region that draws; its elements may be as many as the key's."""
    b = CoreBuilder("step")
    count, key = b.input(TensorType((4,), DType.U32)), b.input(TensorType((4,), DType.U32))
    own = b.add(key, b.mul(count, b.constant(np.array([0, 0, 0, 3], np.uint32))))
    bits = b.add(b.random_bits(own, (4,)), b.random_bits(b.add(own, 1), (4,)))
    graph = long_scan(b.build([b.add(count, 1), bits]), 1000, 1, 0, count.type, key.type)
    arrays = [np.zeros(4, np.uint32), np.arange(4, dtype=np.uint32)]
    found, expected = run_program(compiled(graph), arrays), evaluate_graph(graph, arrays)
    np.testing.assert_array_equal(found[1], expected[1])
    assert len(np.unique(found[1])) > 3990
