"""Reductions of all elements of large tensors are divided by their shape alone; others are unchanged."""

from __future__ import annotations

import numpy as np
import pytest
from compiled import compiled, run_program
from mxforge.ir.dialects.core import CoreBuilder
from mxforge.ir.scalar import ReduceOp
from mxforge.ir.types import DType
from mxforge.passes.divide_reductions import DivideReductions
from mxforge.runtime.host.machine import host_target
from rewriting import assert_rewrites, assert_unchanged, tensor


def test_last_axes_first() -> None:
    b = CoreBuilder()
    assert_rewrites(
        DivideReductions(),
        b.build([b.sum(b.input(tensor(16, 20, 30, 50)))]),
        """
        (%arg0: 16x20x30x50xf32):
          %0 = reduce(%arg0) {op = "add", axes = [0, 1, 2, 3]} : f32
          return %0
        ->
        (%arg0: 16x20x30x50xf32):
          %0 = reduce(%arg0) {op = "add", axes = [2, 3]} : 16x20xf32
          %1 = reduce(%0) {op = "add", axes = [0, 1]} : f32
          return %1
        """,
    )


def test_a_vector() -> None:
    b = CoreBuilder()
    assert_rewrites(
        DivideReductions(),
        b.build([b.max(b.input(tensor(300_000)))]),
        """
        (%arg0: 300000xf32):
          %0 = reduce(%arg0) {op = "max", axes = [0]} : f32
          return %0
        ->
        (%arg0: 300000xf32):
          %0 = slice(%arg0) {start = [0], stop = [299008], step = [1]} : 299008xf32
          %1 = reshape(%0) : 73x4096xf32
          %2 = reduce(%1) {op = "max", axes = [1]} : 73xf32
          %3 = reduce(%2) {op = "max", axes = [0]} : f32
          %4 = slice(%arg0) {start = [299008], stop = [300000], step = [1]} : 992xf32
          %5 = reduce(%4) {op = "max", axes = [0]} : f32
          %6 = max(%3, %5) : f32
          return %6
        """,
    )


def test_other_reductions_stay() -> None:
    b = CoreBuilder()
    small, narrow = b.input(tensor(500, 500)), b.input(tensor(600, 600, dtype=DType.F16))
    few = b.input(tensor(3, 200_000))
    assert_unchanged(DivideReductions(), b.build([b.sum(small), b.sum(narrow), b.sum(few, (1,)), b.sum(few)]))


@pytest.mark.parametrize("shape", [(700, 400), (300_001,)], ids=str)
@pytest.mark.parametrize("op", [ReduceOp.ADD, ReduceOp.MIN], ids=lambda op: op.value)
def test_numbers_do_not_depend_on_threads(shape: tuple[int, ...], op: ReduceOp) -> None:
    b = CoreBuilder()
    graph = b.build([b.reduce(op, b.mul(b.input(tensor(*shape)), 0.5))])
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    one, two = (run_program(compiled(graph, target=host_target(n)), [x])[0] for n in (1, 2))
    assert one == two
    expected = x.astype(np.float64).sum() / 2 if op is ReduceOp.ADD else x.min() / 2
    np.testing.assert_allclose(one, expected, rtol=1e-4, atol=1e-3)
