"""Products and convolutions of every dtype and form, including those without a contraction kernel."""

from __future__ import annotations

import numpy as np
import pytest
from compiled import check
from mxforge.ir.dialects.core import CoreBuilder
from mxforge.ir.types import DType, TensorType

DTYPES = [d for d in DType if d is not DType.BF16]


def numbers(dtype: DType, *shape: int) -> np.ndarray:
    rng = np.random.default_rng(sum(shape))
    if dtype.is_float:
        return rng.standard_normal(shape).astype(dtype.numpy)
    low = -4 if dtype.is_signed else 0
    return rng.integers(low, 2 if dtype is DType.BOOL else 5, shape).astype(dtype.numpy)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.value)
def test_products(dtype: DType) -> None:
    """A batched matrix product, a matrix-vector product, a dot product, and sums over two axes."""
    b = CoreBuilder("products")
    x, y = b.input(TensorType((2, 5, 7), dtype)), b.input(TensorType((2, 7, 9), dtype))
    left, right = b.reshape(x, (10, 7)), b.slice_axis(b.reshape(y, (18, 7)), 0, 3, 4)
    results = [
        b.dot(x, y, [0], [0], [2], [1]),
        b.dot(left, b.reshape(right, (7,)), [], [], [1], [0]),
        b.dot(b.reshape(right, (7,)), b.reshape(right, (7,)), [], [], [0], [0]),
        b.dot(x, b.reshape(y, (2, 9, 7)), [], [], [0, 2], [0, 2]),
    ]
    check(b.build(results), numbers(dtype, 2, 5, 7), numbers(dtype, 2, 7, 9), tolerance=_tolerance(dtype))


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.value)
def test_convolutions(dtype: DType) -> None:
    """Padded and strided, grouped, with a dilated input, one-dimensional, and with channels that fill blocks."""
    b = CoreBuilder("convolutions")
    x, w = b.input(TensorType((2, 4, 7, 6), dtype)), b.input(TensorType((6, 4, 3, 3), dtype))
    wide = b.concat([x, x, x, x], 1)
    results = [
        b.conv(x, w, (2, 1), [(1, 1), (0, 2)]),
        b.conv(x, b.slice_axis(w, 1, 0, 2), (1, 1), [(0, 0), (0, 0)], groups=2),
        b.conv(x, b.slice_axis(w, 0, 0, 2), (1, 1), [(2, 2), (1, 1)], lhs_dilation=(2, 3)),
        b.conv(b.reshape(x, (2, 4, 42)), b.reshape(w, (6, 4, 9)), (3,), [(4, -2)]),
        b.conv(wide, b.concat([w, w, w, w], 1), (1, 1), [(1, 1), (1, 1)]),
    ]
    check(b.build(results), numbers(dtype, 2, 4, 7, 6), numbers(dtype, 6, 4, 3, 3), tolerance=_tolerance(dtype))


def _tolerance(dtype: DType) -> float:
    """The tolerance relative to the largest sum: one rounding to float16, a few of float32, 0 for integers."""
    return {DType.F16: 1e-3, DType.F32: 1e-5, DType.F64: 1e-12}.get(dtype, 0.0)


@pytest.mark.parametrize(
    ("weights", "dims", "groups"),
    [
        pytest.param((1, 16, 3, 3), (1, 2, 3), 1, id="one filter"),
        pytest.param((16, 16, 3, 3), (1, 2, 3), 1, id="equal filters"),
        pytest.param((16, 16, 3, 3), (0, 2, 3), 1, id="equal channels"),
        pytest.param((16, 4, 3, 3), (1, 3), 4, id="equal filters and lines"),
        pytest.param((16, 1, 3, 3), (2, 3), 16, id="equal groups"),
    ],
)
def test_convolutions_with_weights_that_are_broadcast(
    weights: tuple[int, ...], dims: tuple[int, ...], groups: int
) -> None:
    b = CoreBuilder("convolutions")
    shape = tuple(weights[d] for d in dims)
    x, w = b.input(TensorType((2, 16, 9, 9), DType.F32)), b.input(TensorType(shape, DType.F32))
    results = [b.conv(x, b.broadcast(w, weights, dims), (1, s), [(1, 1), (1, 1)], groups=groups) for s in (1, 2)]
    check(b.build(results), numbers(DType.F32, 2, 16, 9, 9), numbers(DType.F32, *shape), tolerance=1e-5)


def test_two_contractions_in_one_graph() -> None:
    b = CoreBuilder("lstm")
    x, y = b.input(TensorType((5, 7), DType.F32)), b.input(TensorType((7, 9), DType.F32))
    product = b.dot(x, y, [], [], [1], [0])
    check(
        b.build([b.add(product, b.dot(x, b.neg(y), [], [], [1], [0])), product]),
        *(numbers(DType.F32, *s) for s in ((5, 7), (7, 9))),
    )


@pytest.mark.parametrize("dtype", [DType.F32, DType.F64, DType.F16], ids=lambda d: d.value)
def test_an_operand_with_several_readers(dtype: DType) -> None:
    """An operand on both sides of a product and in the epilogue: each use must read its own packed form."""
    b = CoreBuilder("squared")
    x = b.input(TensorType((24, 24), dtype))
    results = [b.dot(x, x, [], [], [1], [0]), b.add(b.dot(b.neg(x), x, [], [], [1], [1]), x)]
    check(b.build(results), numbers(dtype, 24, 24), tolerance=_tolerance(dtype))
