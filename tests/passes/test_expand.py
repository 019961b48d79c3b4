"""Positions of extrema become reductions: the first of equal elements, and NaN before numbers."""

from __future__ import annotations

import numpy as np
import pytest
from mxforge.ir.dialects.core import CoreBuilder
from mxforge.ir.types import DType
from mxforge.passes.expand import Expand
from rewriting import assert_rewrites, assert_same_values, assert_unchanged, run_pass, tensor


def test_argmax_is_the_smallest_position_of_the_maximum() -> None:
    b = CoreBuilder()
    assert_rewrites(
        Expand(),
        b.build([b.arg_reduce("max", b.input(tensor(2, 5)), 1)]),
        """
        (%arg0: 2x5xf32):
          %0 = arg_reduce(%arg0) {kind = "max", axis = 1} : 2xi64
          return %0
        ->
        (%arg0: 2x5xf32):
          %0 = reduce(%arg0) {op = "max", axes = [1]} : 2xf32
          %1 = broadcast(%0) [0] : 2x5xf32
          %2 = eq(%arg0, %1) : 2x5xi1
          %3 = is_nan(%arg0) : 2x5xi1
          %4 = or(%2, %3) : 2x5xi1
          %5 = iota() {shape = [2, 5], dtype = i64, axis = 1} : 2x5xi64
          %6 = dense<5> : i64
          %7 = broadcast(%6) [] : 2x5xi64
          %8 = select(%4, %5, %7) : 2x5xi64
          %9 = reduce(%8) {op = "min", axes = [1]} : 2xi64
          return %9
        """,
    )


@pytest.mark.parametrize("kind", ["max", "min"])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_ties_nan_and_infinities(kind: str, axis: int) -> None:
    b = CoreBuilder()
    graph = b.build([b.arg_reduce(kind, b.input(tensor(4, 5, 6)), axis)])
    x = np.round(np.random.default_rng(0).standard_normal((4, 5, 6))).astype(np.float32)
    x[1, 2, 3], x[1, 4, 3], x[2, 2, 2], x[0, 0, 0], x[3] = np.nan, np.nan, np.inf, -np.inf, -np.inf
    assert_same_values(graph, run_pass(Expand(), graph), arrays=[x])


@pytest.mark.parametrize("dtype", [DType.I32, DType.U8, DType.F16, DType.BF16, DType.F64])
def test_other_dtypes(dtype: DType) -> None:
    b = CoreBuilder()
    x = b.input(tensor(3, 7, dtype=dtype))
    graph = b.build([b.arg_reduce("max", x, 1), b.arg_reduce("min", x, 0)])
    assert_same_values(graph, run_pass(Expand(), graph))


def test_the_rest_stays() -> None:
    b = CoreBuilder()
    assert_unchanged(Expand(), b.build([b.max(b.input(tensor(2, 5)))]))
