"""Padding around and between elements, and cropping, of inputs and of values computed in regions."""

from __future__ import annotations

import numpy as np
import pytest
from compiled import check
from mxforge.ir.dialects.core import CoreBuilder
from mxforge.ir.scalar import ReduceOp
from mxforge.ir.types import DType, TensorType

X = np.arange(24, dtype=np.float32).reshape(4, 6)


@pytest.mark.parametrize(
    ("low", "high", "interior"),
    [
        ((1, 2), (3, 0), (0, 0)),
        ((-1, 2), (0, -3), (0, 0)),
        ((0, 0), (0, 0), (1, 2)),
        ((2, -3), (-1, 4), (2, 1)),
        ((-2, 0), (-2, 0), (0, 0)),
        ((-1, -1), (-1, -1), (3, 3)),
    ],
)
def test_padding_of_an_input(low: tuple[int, int], high: tuple[int, int], interior: tuple[int, int]) -> None:
    b = CoreBuilder("padded")
    x = b.input(TensorType((4, 6), DType.F32))
    check(b.build([b.pad(x, b.constant(np.float32(7)), low, high, interior)]), X)


def test_padding_by_a_computed_value() -> None:
    b = CoreBuilder("padded")
    x, value = b.input(TensorType((4, 6), DType.F32)), b.input(TensorType((), DType.F32))
    check(b.build([b.pad(x, b.neg(value), (1, 0), (0, 2), (0, 1))]), X, np.float32(3))


def test_padding_of_a_value_computed_in_the_region() -> None:
    b = CoreBuilder("padded")
    x = b.input(TensorType((6,), DType.F32))
    value = b.constant(np.float32(-1))
    spread = b.broadcast(x, (4, 6), (1,))
    counted = b.iota((4, 6), DType.F32, 0)
    full = b.full((4, 6), 5.0, DType.F32)
    padded = [b.pad(v, value, (1, -2), (-1, 3), (1, 2)) for v in (spread, counted, full)]
    check(b.build(padded), X[0])


def test_windows_over_a_value_computed_in_the_region() -> None:
    b = CoreBuilder("windows")
    x = b.input(TensorType((6,), DType.F32))
    spread = b.broadcast(x, (4, 6), (1,))
    arguments = ((3, 2), (1, 2), ((1, 1), (0, 1)), (1, 1))
    results = [b.reduce_window(op, spread, *arguments) for op in (ReduceOp.MAX, ReduceOp.ADD)]
    check(b.build(results), X[0])


def test_convolution_of_a_value_computed_in_the_region() -> None:
    b = CoreBuilder("conv")
    x = b.input(TensorType((6,), DType.F32))
    spread = b.broadcast(x, (1, 2, 5, 6), (3,))
    w = b.constant(np.arange(36, dtype=np.float32).reshape(2, 2, 3, 3) - 18)
    check(b.build([b.conv(spread, w, (1, 1), [(1, 1), (0, 2)])]), X[0])
    b = CoreBuilder("conv")
    x = b.input(TensorType((6,), DType.F32))
    spread = b.broadcast(x, (1, 2, 5, 6), (3,))
    w = b.constant(np.arange(36, dtype=np.float32).reshape(2, 2, 3, 3) - 18)
    check(b.build([b.conv(spread, w, (1, 1), [(1, 1), (0, 2)], lhs_dilation=(2, 3))]), X[0])


def test_nothing_padded() -> None:
    b = CoreBuilder("empty")
    x = b.input(TensorType((0, 3), DType.F32))
    value = b.constant(np.float32(2))
    check(
        b.build([b.pad(x, value, (2, 1), (1, 0)), b.pad(b.neg(x), value, (2, 0), (1, 0))]), np.zeros((0, 3), np.float32)
    )
