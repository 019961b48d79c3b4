"""Products whose epilogue reads pieces of their columns: kernels with several sums and results."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from compiled import check, compiled
from mxforge.codegen.llvm.contract.micro import MicroKernel, micro_kernel
from mxforge.codegen.llvm.contract.vector_epilogue import Access, VectorEpilogue
from mxforge.codegen.llvm.emitter import ModuleBuilder
from mxforge.ir.dialects.core import CoreBuilder
from mxforge.ir.graph import Graph, Value
from mxforge.ir.kernel import Ref, Scalar
from mxforge.ir.scalar import ScalarOp
from mxforge.ir.types import DType, TensorType
from mxforge.runtime.host.machine import host_target

F32 = DType.F32


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def pieces(b: CoreBuilder, z: Value, count: int) -> list[Value]:
    n = z.type.shape[1] // count
    return [b.slice_axis(z, 1, k * n, (k + 1) * n) for k in range(count)]


def sigmoid(b: CoreBuilder, x: Value) -> Value:
    return b.div(1, b.add(1, b.exp(b.neg(x))))


def lstm_step(rows: int, n: int, inner: int, dtype: DType = F32) -> Graph:
    """x, state, cell, weight -> state, cell."""
    b = CoreBuilder("lstm")
    x, state, cell, weight = (
        b.input(TensorType(s, dtype)) for s in ((rows, 4 * n), (rows, inner), (rows, n), (4 * n, inner))
    )
    i, f, g, o = pieces(b, b.add(b.dot(state, weight, (), (), (1,), (1,)), x), 4)
    new = b.add(b.mul(sigmoid(b, f), cell), b.mul(sigmoid(b, i), b.tanh(g)))
    return b.build([b.mul(sigmoid(b, o), b.tanh(new)), new])


def gru_step(rows: int, n: int) -> Graph:
    """x, state, weight, bias, active -> the states, in which rows that are not active keep the old state."""
    b = CoreBuilder("gru")
    x, state, weight = (b.input(TensorType(s, F32)) for s in ((rows, 3 * n), (rows, n), (n, 3 * n)))
    bias, active = b.input(TensorType((3 * n,), F32)), b.input(TensorType((rows,), DType.BOOL))
    hidden = b.matmul(state, weight)
    h = pieces(b, b.add(hidden, b.broadcast_along(bias, hidden.type.shape, 1)), 3)
    r, z, m = pieces(b, x, 3)
    reset, update = sigmoid(b, b.add(r, h[0])), sigmoid(b, b.add(z, h[1]))
    new = b.tanh(b.add(m, b.mul(reset, h[2])))
    out = b.add(b.mul(b.sub(1, update), new), b.mul(update, state))
    kept = b.broadcast_along(active, out.type.shape, 0)
    return b.build([b.select(kept, out, state), b.select(kept, out, b.full_like(out, 0))])


@pytest.mark.parametrize(("rows", "n", "inner"), [(1, 40, 33), (2, 5, 8), (7, 16, 24), (33, 100, 650), (64, 24, 40)])
def test_the_gates_of_an_lstm(rows: int, n: int, inner: int) -> None:
    arrays = normal(rows, 4 * n), normal(rows, inner), normal(rows, n), normal(4 * n, inner) / 4
    check(lstm_step(rows, n, inner), *arrays)


@pytest.mark.parametrize(("rows", "n"), [(1, 40), (5, 17), (40, 48)])
def test_the_gates_of_a_gru_with_ended_sequences(rows: int, n: int) -> None:
    active = np.arange(rows) % 3 > 0
    graph = replace(gru_step(rows, n), parameters=frozenset({2}))
    program = check(graph, normal(rows, 3 * n), normal(rows, n), normal(n, 3 * n) / 4, normal(3 * n), active)
    assert len(program.computations) == 1
    assert not list(program.fallbacks())


def test_operands_of_an_epilogue_of_several_sums_are_prefetched() -> None:
    """For each of 3 rows of 16 floats, the lines of the first and of the last one."""
    rows = Access(table=1, block=1)
    total = Scalar(ScalarOp.ADD, (Scalar(ScalarOp.MUL, (Ref("sum"), Ref("sum1"))), Ref("l0")))
    epilogue = VectorEpilogue(expr=total, loads=(rows,), out=rows, dtype=F32)
    module = ModuleBuilder(host_target())
    micro_kernel(
        module,
        MicroKernel(
            element="float",
            weights="float",
            lanes=16,
            rows=3,
            vectors=2,
            unroll=(0,),
            tables=2,
            epilogue=epilogue,
            parts=2,
        ),
    )
    assert module.text().count("call void @llvm.prefetch") == 6


def test_gates_in_float64() -> None:
    arrays = [a.astype(np.float64) for a in (normal(5, 48), normal(5, 9), normal(5, 12), normal(48, 9))]
    check(lstm_step(5, 12, 9, DType.F64), *arrays, tolerance=1e-12)


def test_one_result_of_pieces_that_are_not_all_of_the_columns() -> None:
    b = CoreBuilder()
    x, w = b.input(TensorType((6, 20), F32)), b.input(TensorType((20, 90), F32))
    z = b.matmul(x, w)
    graph = b.build([b.mul(b.slice_axis(z, 1, 30, 60), b.slice_axis(z, 1, 60, 90))])
    program = check(replace(graph, parameters=frozenset({1})), normal(6, 20), normal(20, 90))
    assert len(program.computations) == 1


def test_an_operand_of_the_product_is_also_an_operand_of_the_gates() -> None:
    """And pieces of it are: it is packed for the product, and read as it is by the gates."""
    b = CoreBuilder()
    x, w = b.input(TensorType((8, 8), F32)), b.input(TensorType((8, 16), F32))
    left, right = pieces(b, b.matmul(x, w), 2)
    check(b.build([b.add(b.mul(left, x), right), b.mul(right, pieces(b, w, 2)[1])]), normal(8, 8), normal(8, 16))


@pytest.mark.parametrize("length", [256, 257])
@pytest.mark.parametrize("reverse", [False, True])
def test_a_loop_of_steps_copies_no_state(length: int, reverse: bool) -> None:
    """One part of the state is stacked too, one is not, and one is never replaced."""
    body = CoreBuilder("step")
    state, cell, fixed = (body.input(TensorType((3, 8), F32)) for _ in range(3))
    x, weight = body.input(TensorType((3, 32), F32)), body.input(TensorType((8, 32), F32))
    i, f, g, o = pieces(body, body.add(body.matmul(state, weight), x), 4)
    new = body.add(body.mul(sigmoid(body, f), cell), body.mul(sigmoid(body, i), body.add(body.tanh(g), fixed)))
    out = body.mul(sigmoid(body, o), body.tanh(new))
    step = body.build([out, new, fixed, out])
    b = CoreBuilder("loop")
    shapes = ((3, 8), (3, 8), (3, 8), (length, 3, 32), (8, 32))
    values = [b.input(TensorType(s, F32)) for s in shapes]
    graph = b.build(list(b.scan(step, values[:3], values[3:4], values[4:], length, reverse)))
    program = check(graph, *(normal(*s) for s in shapes), tolerance=1e-4)
    assert {launch.kind for launch in program.computations} == {"pack", "scan"}


@pytest.mark.parametrize("reverse", [False, True])
def test_parts_of_a_state_are_exchanged_repeated_and_stacked(reverse: bool) -> None:
    """A part is stacked twice, one is the last value of another, and one is never replaced but stacked."""
    body = CoreBuilder("step")
    first, second, fixed, x = (body.input(TensorType((3, 8), F32)) for _ in range(4))
    new = body.tanh(body.add(second, x))
    step = body.build([new, first, fixed, fixed, new, first, new])
    b = CoreBuilder("loop")
    shapes = ((3, 8), (3, 8), (3, 8), (301, 3, 8))
    values = [b.input(TensorType(s, F32)) for s in shapes]
    graph = b.build(list(b.scan(step, values[:3], values[3:], [], 301, reverse)))
    check(graph, *(k * normal(*s) for k, s in enumerate(shapes, 1)), tolerance=1e-4)


def test_a_loop_without_steps_returns_its_start() -> None:
    body = CoreBuilder("step")
    state = body.input(TensorType((3, 4), F32))
    step = body.build([body.exp(state)])
    b = CoreBuilder()
    outer = CoreBuilder("outer")
    start = outer.input(TensorType((3, 4), F32))
    inner = outer.build(list(outer.scan(step, [outer.sin(start)], [], [], 0)))
    x = b.input(TensorType((3, 4), F32))
    check(b.build(list(b.scan(inner, [x], [], [], 400))), normal(3, 4), tolerance=1e-4)


def test_threads_share_the_steps_of_a_loop() -> None:
    """The loop is one launch of one unit; its steps have many."""
    body = CoreBuilder("step")
    state, weight = body.input(TensorType((16, 256), F32)), body.input(TensorType((256, 256), F32))
    step = body.build([body.tanh(body.matmul(state, weight))])
    b = CoreBuilder()
    start, w = b.input(TensorType((16, 256), F32)), b.input(TensorType((256, 256), F32))
    graph = b.build(list(b.scan(step, [start], [], [w], 300)))
    program = compiled(graph)
    assert [launch.count for launch in program.computations][-1] == 1
    check(graph, normal(16, 256), normal(256, 256) / 16, tolerance=1e-3)
