"""Rows are multiplied by the reciprocal of their sum; other divisions are unchanged."""

from __future__ import annotations

from mxforge.ir.dialects.core import CoreBuilder
from mxforge.passes.divide_once import DivideOnce
from rewriting import assert_rewrites, assert_unchanged, tensor


def test_rows_by_their_sum() -> None:
    b = CoreBuilder()
    x = b.input(tensor(2, 5))
    assert_rewrites(
        DivideOnce(),
        b.build([b.div(x, b.broadcast_along(b.sum(x, 1), (2, 5), 0))]),
        """
        (%arg0: 2x5xf32):
          %0 = reduce(%arg0) {op = "add", axes = [1]} : 2xf32
          %1 = broadcast(%0) [0] : 2x5xf32
          %2 = div(%arg0, %1) : 2x5xf32
          return %2
        ->
        (%arg0: 2x5xf32):
          %0 = reduce(%arg0) {op = "add", axes = [1]} : 2xf32
          %1 = broadcast(%0) [0] : 2x5xf32
          %2 = dense<1.0> : f32
          %3 = broadcast(%2) [] : 2xf32
          %4 = div(%3, %0) : 2xf32
          %5 = broadcast(%4) [0] : 2x5xf32
          %6 = mul(%arg0, %5) : 2x5xf32
          return %6
        """,
    )


def test_other_divisions_stay() -> None:
    b = CoreBuilder()
    x, y, whole = b.input(tensor(2, 5)), b.input(tensor(2)), b.input(tensor(2, 5))
    by_input = b.div(x, b.broadcast_along(y, (2, 5), 0))
    assert_unchanged(DivideOnce(), b.build([by_input, b.div(x, whole), b.div(x, 3.0)]))
