"""The executor of TTIR: its results, and the accesses and operations that it refuses."""

from __future__ import annotations

import numpy as np
import pytest
from support.ttir import OutOfBounds, run_ttir

COPY = """
module {
  tt.func public @copy(%x: !tt.ptr<f32> {tt.divisibility = 16 : i32} loc("x"(#loc)), %y: !tt.ptr<f32>, %n: i32) {
    %c4 = arith.constant 4 : i32 loc(#loc1)
    %zero = arith.constant dense<1.500000e+00> : tensor<4xf32>
    %pid = tt.get_program_id x : i32 loc(callsite(#loc1 at #loc2))
    %start = arith.muli %pid, %c4 : i32
    %r = tt.make_range {end = 4 : i32, start = 0 : i32} : tensor<4xi32>
    %s = tt.splat %start : i32 -> tensor<4xi32>
    %i = arith.addi %s, %r : tensor<4xi32>
    %b = tt.splat %n : i32 -> tensor<4xi32>
    %m = arith.cmpi slt, %i, %b : tensor<4xi32>
    %p = tt.splat %x : !tt.ptr<f32> -> tensor<4x!tt.ptr<f32>>
    %q = tt.addptr %p, %i : tensor<4x!tt.ptr<f32>>, tensor<4xi32>
    %v = tt.load %q, %m, %zero : tensor<4x!tt.ptr<f32>>
    %o = tt.splat %y : !tt.ptr<f32> -> tensor<4x!tt.ptr<f32>>
    %t = tt.addptr %o, %i : tensor<4x!tt.ptr<f32>>, tensor<4xi32>
    tt.store %t, %v : tensor<4x!tt.ptr<f32>>
    tt.return
  }
}
"""


def test_programs_copy() -> None:
    x, y = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    run_ttir(COPY, 2, [x, y, 6])
    np.testing.assert_array_equal(y, [0, 1, 2, 3, 4, 5, 1.5, 1.5])


def test_an_access_outside_a_buffer_is_refused() -> None:
    with pytest.raises(OutOfBounds, match=r"store of elements \[6 7\] of a buffer of 6"):
        run_ttir(COPY, 2, [np.zeros(6, np.float32), np.zeros(6, np.float32), 6])


def test_masked_lanes_may_point_anywhere() -> None:
    run_ttir(COPY, 2, [np.zeros(5, np.float32), np.zeros(8, np.float32), 5])


def test_unknown_operation_is_named() -> None:
    with pytest.raises(NotImplementedError, match=r"tt\.unheard_of"):
        run_ttir(COPY.replace("tt.get_program_id", "tt.unheard_of"), 1, [np.zeros(8, np.float32)] * 2 + [8])


def test_a_constant_truth_value_has_no_type() -> None:
    x, y = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    text = COPY.replace("%m = arith", "%yes = arith.constant true loc(#loc1)\n    %m = arith")
    text = text.replace("%m, %zero", "%all, %zero").replace(
        "%p = tt", "%all = tt.splat %yes : i1 -> tensor<4xi1>\n    %p = tt"
    )
    run_ttir(text, 2, [x, y, 6])
    np.testing.assert_array_equal(y, x)
