"""Loops and branches on a GPU whose operands are not aligned: rows of a sequence and pieces of values."""

from __future__ import annotations

from typing import Any

import mxforge as mx
import numpy as np
import pytest

pytestmark = pytest.mark.usefixtures("simulated_gpus")
sym: Any = mx.sym
x: Any = sym.var("x")
LONG = 60  # steps, which are a loop of the program


def results(net: Any, context: Any, shape: tuple[int, ...]) -> list[np.ndarray]:
    """The results of a symbol on random operands."""
    executor = net.simple_bind(context, x=shape, grad_req="null")
    for i, array in enumerate(executor.arg_arrays):
        array[:] = np.random.default_rng(i).standard_normal(array.shape) / 2
    return [y.asnumpy() for y in executor.forward()]


def lstm(hidden: int) -> Any:
    return sym.RNN(x, sym.var("p"), sym.var("h"), sym.var("c"), state_size=hidden, num_layers=1, mode="lstm")


def sums_of_rows() -> Any:
    def step(row: Any, states: Any) -> Any:
        total = states[0] + row
        return total * 2, [total]

    stacked, states = sym.contrib.foreach(step, x, [sym.zeros((3,))])
    return sym.Group([stacked, states[0]])


def branch_on_a_piece() -> Any:
    piece = sym.slice_axis(x, axis=0, begin=1, end=2)
    return sym.contrib.cond(sym.sum(x) < 100, lambda: piece * 2 + 1, lambda: piece - 1)


def loop_on_a_piece() -> Any:
    def step(count: Any, value: Any) -> Any:
        return [], [count + 1, value * 1.5 + 1]

    piece = sym.slice_axis(x, axis=0, begin=1, end=2)
    return sym.contrib.while_loop(lambda count, value: count < 5, step, [sym.zeros((1,)), piece], 9)[1][1]


@pytest.mark.parametrize(
    ("net", "shape"),
    [
        (lstm(5), (LONG, 3, 3)),
        (lstm(8), (LONG, 2, 4)),
        (sums_of_rows(), (LONG, 3)),
        (branch_on_a_piece(), (3, 5)),
        (loop_on_a_piece(), (3, 5)),
    ],
    ids=["rows of 60 bytes", "aligned rows", "sums of rows", "branch", "loop"],
)
def test_operands_that_are_not_aligned(net: Any, shape: tuple[int, ...]) -> None:
    for found, expected in zip(results(net, mx.gpu(0), shape), results(net, mx.cpu(), shape), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
