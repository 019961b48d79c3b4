"""The NumPy semantics of core in difficult cases: special values, edges, number formats, random bits."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from mxforge.ir.dialects.core import (
    ArgReduce,
    ArgSort,
    Cast,
    Constant,
    Conv,
    CoreBuilder,
    Cumulative,
    Dot,
    Gather,
    Pad,
    Pointwise,
    RandomBits,
    Reduce,
    ReduceWindow,
    Scan,
    Scatter,
    SelectAndScatter,
    Sort,
    While,
    interpret,
    round_bfloat16,
)
from mxforge.ir.dialects.core.numerics import digamma, erfinv, gamma, lgamma, philox
from mxforge.ir.dialects.core.scalar_rules import SCALAR_RULES
from mxforge.ir.graph import GraphError
from mxforge.ir.scalar import ReduceOp, ScalarOp
from mxforge.ir.types import DType, TensorType

NAN, INF = math.nan, math.inf


def run(op: Any, *arrays: Any) -> list[Any]:
    """The single result as nested lists."""
    (result,) = op.evaluate(*(np.asarray(a) for a in arrays))
    return result.tolist()


def f32(*numbers: float) -> Any:
    return np.array(numbers, np.float32)


def i32(*numbers: int) -> Any:
    return np.array(numbers, np.int32)


def test_scalar_tables_are_total() -> None:
    assert set(SCALAR_RULES) == set(ScalarOp)


SCALARS = [
    # MXNet 1.9.1's results, if it has the operator
    (ScalarOp.MOD, [f32(5, -5, 5, -5, 3, -3.5), f32(3, 3, -3, -3, 0, 2)], [2, 1, -1, -2, 0, 0.5]),
    (ScalarOp.MOD, [i32(5, -5, 5, -5, 3), i32(3, 3, -3, -3, 0)], [2, 1, -1, -2, 0]),
    (ScalarOp.DIV, [i32(7, -7, 7, -7, 7), i32(2, 2, -2, -2, 0)], [3, -3, -3, 3, 0]),
    (ScalarOp.POW, [i32(2, -1, 3, 0), i32(-1, -3, 4, -1)], [0, -1, 81, -(2**31)]),
    (ScalarOp.ROUND, [f32(-2.5, -1.5, -0.5, 0.5, 2.5, 0.49999997)], [-3, -2, -1, 1, 3, 0]),
    (ScalarOp.RINT, [f32(-2.5, -1.5, -0.5, 0.5, 2.5)], [-2, -2, 0, 0, 2]),
    (ScalarOp.MAX, [f32(NAN, 1, 2), f32(1, NAN, 1)], [NAN, NAN, 2]),
    (ScalarOp.FLOOR, [i32(3, -3)], [3, -3]),
    (ScalarOp.RECTIFY, [f32(-1, 0, 2, NAN)], [0, 0, 2, 0]),
    (ScalarOp.SIGMOID, [f32(-1000, 0, 1000, NAN)], [0, 0.5, 1, NAN]),
    (ScalarOp.SHIFT_LEFT, [i32(1, 1, 1), i32(4, 32, -1)], [16, 0, 0]),
    (ScalarOp.SHIFT_RIGHT, [i32(-8, -8, 8), i32(1, 40, 40)], [-4, -1, 0]),
    (ScalarOp.ADD, [np.array([True, True]), np.array([True, False])], [True, True]),
    (ScalarOp.SUB, [np.array([True, True]), np.array([True, False])], [False, True]),
    (ScalarOp.NOT, [np.array([True, False])], [False, True]),
    (ScalarOp.NOT, [i32(0, -1)], [-1, 0]),
]


@pytest.mark.parametrize(("op", "operands", "expected"), SCALARS)
def test_scalar_operations(op: ScalarOp, operands: list[Any], expected: list[Any]) -> None:
    (result,) = Pointwise(op).evaluate(*operands)
    assert result.dtype == operands[-1].dtype
    np.testing.assert_array_equal(result, expected)


def test_special_functions() -> None:
    """Against closed forms (harmonic numbers, halves, reflection); erfinv against erf and erfc."""
    euler = 0.57721566490153286
    half = -euler - 2 * math.log(2)
    harmonic = sum(1 / k for k in range(1, 25))
    expected = [-euler, half, half + 2 + 2 / 3, harmonic - euler]
    np.testing.assert_allclose(digamma(np.array([1, 0.5, -1.5, 25])), expected, 1e-14)
    inside = np.array([-0.9, -0.3, 1e-8, 0.3, 0.75])
    np.testing.assert_allclose([math.erf(x) for x in erfinv(inside)], inside, 1e-14)
    tail = np.array([1e-3, 1e-6, 1e-12])
    np.testing.assert_allclose([math.erfc(x) for x in erfinv(1 - tail)], 1 - (1 - tail), 1e-12)
    np.testing.assert_array_equal(erfinv(np.array([-1, 1, 2.0, 0])), [-INF, INF, NAN, 0])
    np.testing.assert_array_equal(lgamma(np.array([0.0, -1, 1, INF])), [INF, INF, 0, INF])
    np.testing.assert_array_equal(gamma(np.array([0.0, -1, 5, 200])), [INF, NAN, 24, INF])


def test_philox_known_answers() -> None:
    """From the test vectors of the Random123 library."""
    ones = 0xFFFFFFFF
    zeros = philox(np.zeros((1, 4), np.uint32), (0, 0))
    full = philox(np.full((1, 4), ones, np.uint32), (ones, ones))
    pi = philox(np.array([[0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344]], np.uint32), (0xA4093822, 0x299F31D0))
    assert [f"{w:08x}" for w in zeros[0]] == ["6627e8d5", "e169c58d", "bc57ac4c", "9b00dbd8"]
    assert [f"{w:08x}" for w in full[0]] == ["408f276d", "41c83b0e", "a20bc7c6", "6d5451fd"]
    assert [f"{w:08x}" for w in pi[0]] == ["d16cfe09", "94fdcceb", "5001e420", "24126ea1"]


def test_random_bits_follow_the_counter() -> None:
    key = np.array([3, 5, 7, 11], np.uint32)
    (bits,) = RandomBits((3, 3)).evaluate(key)
    expected = philox(np.array([[k, 0, 7, 11] for k in range(3)], np.uint32), (3, 5))
    np.testing.assert_array_equal(bits.ravel(), expected.ravel()[:9])
    assert abs(RandomBits((100_000,)).evaluate(key)[0].mean() / 2**32 - 0.5) < 0.005


def test_bfloat16_rounds_to_nearest_even() -> None:
    x = f32(1.00390625, 1.01171875, 1e-40, NAN, -INF, 3.4e38)
    np.testing.assert_array_equal(round_bfloat16(x), f32(1.0, 1.015625, round_bfloat16(f32(1e-40))[0], NAN, -INF, INF))
    b = CoreBuilder()
    v = b.input(TensorType((2,), DType.BF16))
    outputs = [b.add(v, 1 / 256), b.cast(v, DType.F32), b.constant([1 + 1 / 512], DType.BF16)]
    results = interpret(b.build(outputs), [f32(1, 2 + 1 / 1024)])
    assert [r.tolist() for r in results] == [[1.0, 2.0], [1.0, 2.0], [1.0]]
    assert all(r.dtype == np.float32 for r in results)


def test_cast() -> None:
    assert run(Cast(DType.I32), f32(1.9, -1.9)) == [1, -1]
    assert run(Cast(DType.BOOL), f32(0.5, 0, NAN)) == [True, False, True]
    assert run(Cast(DType.F16), f32(70000.0)) == [INF]


def test_constants_are_compared_by_value() -> None:
    zero, negative = Constant(f32(0.0)), Constant(f32(-0.0))
    assert zero == Constant(f32(0.0)) and hash(zero) == hash(Constant(f32(0.0)))
    assert zero != negative and zero != Constant(f32(0.0).astype(np.float64)) and zero != Constant(f32(0.0)[0])
    assert Constant(f32(1.0)) != Constant(f32(1.0), DType.BF16)
    array = f32(1, 2)
    kept = Constant(array)
    array[0] = 5
    assert kept.value.tolist() == [1, 2]
    with pytest.raises(ValueError, match="read-only"):
        kept.value[0] = 3


def test_sort_puts_nan_last_and_keeps_ties() -> None:
    key, place = f32(2, NAN, 1, 2, -INF), i32(0, 1, 2, 3, 4)
    assert Sort(0).evaluate(key, place)[1].tolist() == [4, 2, 0, 3, 1]
    assert Sort(0, descending=True).evaluate(key, place)[1].tolist() == [0, 3, 2, 4, 1]
    assert run(ArgSort(0), key) == [4, 2, 0, 3, 1]
    assert run(ArgSort(0, descending=True, count=3), key) == [0, 3, 2]
    assert run(Sort(0, descending=True), np.array([0, 255, 7], np.uint8)) == [255, 7, 0]
    assert run(Sort(0, descending=True), np.array([-128, 127], np.int8)) == [127, -128]


def test_positions_of_extrema() -> None:
    assert run(ArgReduce("max", 0), f32(1, 3, 3)) == 1
    assert run(ArgReduce("min", 0), f32(1, NAN, 0)) == 1


def test_gather_clamps_and_scatter_drops() -> None:
    x, at = i32(10, 20, 30), i32(-5, 1, 7)[:, None]
    assert run(Gather((0,)), x, at) == [10, 20, 30]
    assert run(Scatter("set", (0,)), x, at, i32(1, 2, 3)) == [10, 2, 30]
    repeated = i32(1, 1, 0)[:, None]
    assert run(Scatter("set", (0,)), x, repeated, i32(1, 2, 3)) == [3, 2, 30]
    assert run(Scatter("add", (0,)), x, repeated, i32(1, 2, 3)) == [13, 23, 30]


def test_reductions_of_nothing_and_of_narrow_types() -> None:
    assert run(Reduce(ReduceOp.MAX, (0,)), np.zeros((0, 1), np.float32)) == [-INF]
    assert run(Reduce(ReduceOp.MIN, (0,)), np.zeros(0, np.uint8)) == 255
    assert run(Reduce(ReduceOp.ADD, (0,)), np.full(4096, 1, np.float16)) == 4096
    assert run(Reduce(ReduceOp.ADD, (0,)), np.full(3, 100, np.int8)) == 44
    assert run(Reduce(ReduceOp.ADD, (0,)), np.array([True, True])) is True
    assert run(Cumulative(ReduceOp.ADD, 0, True), f32(1, 2, 3)) == [6, 5, 3]


def test_windows_ignore_their_padding() -> None:
    x = f32(-1, -2, -3)
    pooled = ReduceWindow(ReduceOp.MAX, (2,), (1,), ((1, 1),), (1,))
    assert run(pooled, x) == [-1, -1, -2, -3]
    scattered = SelectAndScatter((2,), (1,), ((1, 1),))
    assert run(scattered, x, f32(1, 10, 100, 1000)) == [11, 100, 1000]
    assert run(scattered, f32(-INF, -INF, -INF), f32(1, 10, 100, 1000)) == [11, 100, 1000]
    assert run(ReduceWindow(ReduceOp.ADD, (2,), (2,), ((-1, 1),), (1,)), x) == [-5]


def test_padding_between_and_cropping() -> None:
    assert run(Pad((1,), (-1,), (1,)), i32(1, 2, 3), np.int32(9)) == [9, 1, 9, 2, 9]
    assert run(Pad((2,), (1,), (3,)), np.zeros(0, np.int32), np.int32(9)) == [9, 9, 9]


@pytest.mark.parametrize(("window", "strides"), [((3, 2), (2, 1)), ((5, 6), (1, 1))])
def test_convolution_against_its_definition(window: tuple[int, int], strides: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(2, 4, 6, 7)), rng.normal(size=(6, 2, *window))
    (y,) = Conv(strides, ((1, 0), (0, 2)), (1, 1), (1, 1), groups=2).evaluate(x, w)
    padded = np.pad(x, ((0, 0), (0, 0), (1, 0), (0, 2)))
    for n, o, i, j in np.ndindex(*y.shape):
        first = 2 * (o // 3)
        at = (slice(i * strides[0], i * strides[0] + window[0]), slice(j * strides[1], j * strides[1] + window[1]))
        assert math.isclose(y[n, o, i, j], (padded[n, first : first + 2, *at] * w[o]).sum(), abs_tol=1e-12)


def test_bytes_are_summed_in_the_accumulator() -> None:
    x, y = np.full((1, 300), 255, np.uint8), np.full((300, 1), -128, np.int8)
    (total,) = Dot((), (), (1,), (0,), DType.I32).evaluate(x, y)
    assert (total.dtype, total.item()) == (np.int32, -255 * 128 * 300)
    (convolved,) = Conv((1,), ((0, 0),), (1,), (1,), accumulator=DType.I32).evaluate(x[None], y.T[None])
    assert (convolved.dtype, convolved.item()) == (np.int32, -255 * 128 * 300)


def test_short_floats_keep_the_precision_of_the_accumulator() -> None:
    x = np.array([[1, 2**-13]], np.float16)
    assert Dot((), (), (1,), (1,)).evaluate(x, np.ones_like(x))[0].item() == 1
    assert Dot((), (), (1,), (1,), DType.F32).evaluate(x, np.ones_like(x))[0].item() == 1 + 2**-13


def test_loops() -> None:
    body = CoreBuilder("body")
    count, total = body.input(TensorType((), DType.I64)), body.input(TensorType((), DType.F32))
    doubled = body.build([body.add(count, 1), body.mul(total, 2)])
    condition = CoreBuilder("condition")
    count, total = condition.input(TensorType((), DType.I64)), condition.input(TensorType((), DType.F32))
    below = condition.build([condition.lt(total, 100)])
    results = While(below, doubled).evaluate(np.array(0, np.int64), np.array(3, np.float32))
    assert [r.item() for r in results] == [6, 192]

    step = CoreBuilder("step")
    carry, x, scale = (step.input(TensorType((), DType.F32)) for _ in range(3))
    new = step.add(carry, step.mul(x, scale))
    last, running = Scan(step.build([new, new]), 3, 1, 1).evaluate(
        np.array(1, np.float32), f32(1, 2, 3), np.array(10, np.float32)
    )
    assert (last.item(), running.tolist()) == (61, [11, 31, 61])


def test_interpreter_errors_name_the_input_or_node() -> None:
    b = CoreBuilder()
    x = b.input(TensorType((2,), DType.F32), "data")
    g = b.build([b.exp(x)])
    with pytest.raises(GraphError, match=r"input data is float32\(3,\), the graph takes float32\(2,\)"):
        interpret(g, [f32(1, 2, 3)])
    with pytest.raises(GraphError, match="input data is float64"):
        interpret(g, [np.zeros(2)])
