"""Batch norm in training between convolutions: rows that are channels of blocked values, one kernel in each direction,
and the loops of such a kernel."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby

import numpy as np
import pytest
from compiled import Array, check, compiled, run_program
from mxforge.codegen.hoist import hoist_reductions
from mxforge.codegen.llvm.schedule.steps import LoopGroup, plan_steps, scratch_rows
from mxforge.codegen.lower import lower_region
from mxforge.codegen.nest import build_nest
from mxforge.ir.dialects.core import CoreBuilder, Fused
from mxforge.ir.graph import Value
from mxforge.ir.kernel import Load, Local, Ref, Scalar, Store
from mxforge.ir.scalar import ScalarOp
from rewriting import tensor

AXES = (0, 2, 3)
Rows = Callable[[CoreBuilder, Value], list[Value]]


def normal(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def along(b: CoreBuilder, vector: Value, x: Value) -> Value:
    return b.broadcast_along(vector, x.type.shape, 1)


def batch_norm(b: CoreBuilder, x: Value) -> tuple[Value, Value, Value]:
    mean = b.mean(x, AXES)
    centred = b.sub(x, along(b, mean, x))
    var = b.mean(b.mul(centred, centred), AXES)
    return b.mul(centred, along(b, b.rsqrt(b.add(var, 1e-5)), x)), mean, var


def gradient(b: CoreBuilder, x: Value, g: Value) -> tuple[Value, Value, Value]:
    """The cotangent of x from that of its normalized value, and two sums."""
    count = x.type.size // x.type.shape[1]
    centred = b.sub(x, along(b, b.input(tensor(x.type.shape[1])), x))
    total, product = b.sum(g, AXES), b.sum(b.mul(g, centred), AXES)
    rest = b.sub(b.sub(g, along(b, b.div(total, count), x)), b.mul(centred, along(b, b.div(product, count), x)))
    return rest, total, product


def conv(b: CoreBuilder, x: Value, w: Value) -> Value:
    return b.conv(x, w, (1, 1), ((1, 1), (1, 1)))


SHAPES = [(2, 16, 7, 5), (1, 20, 6, 9), (3, 24, 1, 3), (1, 16, 1, 2)]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_batch_norm_between_convolutions_is_one_kernel(shape: tuple[int, ...]) -> None:
    b = CoreBuilder()
    x, w = b.input(tensor(*shape)), b.input(tensor(shape[1], shape[1], 3, 3), parameter=True)
    y = conv(b, x, w)
    normalized, mean, var = batch_norm(b, y)
    z = conv(b, b.maximum(b.add(normalized, y), 0.0), w)
    program = check(b.build([z, mean, var]), normal(*shape), normal(*w.type.shape), tolerance=2e-5)
    kinds = [x.kind for x in program.launches if x.kind != "layout"]
    assert [kind for kind, _ in groupby(kinds)] == ["contract", "row", "contract"]  # a Winograd transform is a launch


@pytest.mark.parametrize("shape", SHAPES)
def test_the_gradient_of_a_batch_norm_between_convolutions_is_one_kernel(shape: tuple[int, ...]) -> None:
    b = CoreBuilder()
    x, w = b.input(tensor(*shape)), b.input(tensor(shape[1], shape[1], 3, 3), parameter=True)
    g, total, product = gradient(b, conv(b, x, w), conv(b, x, b.mul(w, 0.5)))
    program = check(
        b.build([conv(b, g, w), total, product]),
        normal(*shape),
        normal(*w.type.shape),
        normal(shape[1]),
        tolerance=2e-5,
    )
    kinds = [x.kind for x in program.launches if x.kind != "layout"]
    assert (kinds.count("row"), kinds.count("pointwise")) == (1, 0)


def test_sums_of_many_elements_round_little() -> None:
    """The sum over 65,536 elements of a channel: one accumulator would lose four digits."""
    b = CoreBuilder()
    x, w = b.input(tensor(4, 8, 128, 128)), b.input(tensor(8, 8, 1, 1), parameter=True)
    total = b.sum(b.conv(x, w, (1, 1), ((0, 0), (0, 0))), AXES)
    data, weight = np.full(x.type.shape, 0.1, np.float32), np.eye(8, dtype=np.float32)[:, :, None, None]
    (found,) = run_program(compiled(b.build([total])), [data, weight])
    np.testing.assert_allclose(found, np.full(8, 4 * 128 * 128 * np.float64(np.float32(0.1))), rtol=5e-6)


# -- the loops of a row


def steps(*shape: int, rows: Rows) -> tuple[list[int], list[str]]:
    """The number of stages in each loop of a row, and the rows on the stack."""
    b = CoreBuilder()
    graph = b.build(rows(b, b.input(tensor(*shape))))
    found = plan_steps(build_nest(hoist_reductions(lower_region(Fused(graph, "row")))))
    return [len(s.stages) for s in found if isinstance(s, LoopGroup)], scratch_rows(found)


def softmax(b: CoreBuilder, x: Value) -> Value:
    e = b.exp(b.sub(x, b.broadcast_to(b.max(x, 1, keepdims=True), x.type.shape)))
    return b.div(e, b.broadcast_to(b.sum(e, 1, keepdims=True), x.type.shape))


def test_sums_that_do_not_depend_on_each_other_share_a_loop() -> None:
    """Also if the result of one is stored first."""
    loops, scratch = steps(4, 50, rows=lambda b, x: [b.sum(x, 1), b.sum(b.mul(x, x), 1), b.max(x, 1)])
    assert (loops, scratch) == ([3], [])


def test_a_simple_value_of_one_element_is_computed_again() -> None:
    loops, scratch = steps(2, 3, 4, 4, rows=lambda b, x: [*batch_norm(b, x)])
    assert (loops, scratch) == ([1, 2, 1], [])  # a sum; the centred value and a sum of squares; the result


def test_an_expensive_value_is_stored() -> None:
    loops, scratch = steps(4, 50, rows=lambda b, x: [softmax(b, x)])
    assert (loops, len(scratch)) == ([1, 2, 1], 1)


def test_results_of_the_space_share_the_last_loop() -> None:
    b = CoreBuilder()
    x = b.input(tensor(4, 50))
    y = b.sub(x, b.broadcast_to(b.sum(x, 1, keepdims=True), (4, 50)))
    kernel = lower_region(Fused(b.build([b.add(x, 1.0), y]), "row"))
    *_, last = plan_steps(build_nest(hoist_reductions(kernel)))
    assert isinstance(last, LoopGroup) and sum(isinstance(s, Store) for s in last.stages) == 2


def test_a_row_in_one_loop_has_no_scratch_for_values_that_a_later_loop_reads_first() -> None:
    """A value is computed in the first loop that reads it, not in the first loop that could compute it."""

    def rows(b: CoreBuilder, x: Value) -> list[Value]:
        e = b.exp(x)
        peak = b.max(x, 1, keepdims=True)
        return [b.mul(b.mul(e, e), b.broadcast_to(peak, x.type.shape))]

    assert steps(4, 50, rows=rows) == ([1, 2], [])


def test_scratch_rows_are_in_the_order_in_which_they_are_read() -> None:
    """Not in that of a set of their names, which changes with Python's hash seed."""
    names = [f"v{i}" for i in range(12)]
    loads = [Local(n, ("r",), Scalar(ScalarOp.EXP, (Load("x", ()),))) for n in names]
    total = Scalar(ScalarOp.ADD, tuple(map(Ref, reversed(names))))
    assert scratch_rows([LoopGroup([*loads]), LoopGroup([Store("y", (), total)])]) == names[::-1]
