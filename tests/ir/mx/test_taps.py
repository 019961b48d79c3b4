"""Weighted sums of slices and their gradients, against products with matrices."""

from __future__ import annotations

import numpy as np
import pytest
from mxforge.ir.dialects.core import evaluate_graph
from mxforge.ir.dialects.core.gradient import pull_back
from mxforge.ir.dialects.mx.builder import MxBuilder
from mxforge.ir.dialects.mx.taps import Taps, blend, transposed
from mxforge.ir.types import DType, TensorType


def matrix(taps: Taps, n: int) -> np.ndarray:
    """(new extent, old extent)."""
    weights = np.zeros((taps[0].shape[1], n))
    for positions, shares in zip(*taps, strict=True):
        np.add.at(weights, (np.arange(len(positions)), positions), shares)
    return weights


def random_taps(count: int, n: int, size: int) -> Taps:
    rng = np.random.default_rng(count + n + size)
    return rng.integers(0, n, (count, size)), np.where(rng.random((count, size)) < 0.2, 0, rng.random((count, size)))


CASES = [(2, 5, 9), (3, 9, 5), (2, 1, 4), (2, 4, 1), (4, 7, 7), (2, 3, 60)]


@pytest.mark.parametrize(("count", "n", "size"), CASES)
def test_transposed_taps(count: int, n: int, size: int) -> None:
    taps = random_taps(count, n, size)
    np.testing.assert_allclose(matrix(transposed(taps, n), size), matrix(taps, n).T)


def test_no_taps() -> None:
    positions, weights = transposed((np.zeros((1, 3), np.int64), np.zeros((1, 3))), 2)
    assert positions.shape == weights.shape == (1, 2)
    assert not weights.any()


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize(("count", "n", "size"), CASES)
def test_values_and_gradients(count: int, n: int, size: int, axis: int) -> None:
    """The last case has so many taps in its gradient that this is a product."""
    taps = random_taps(count, n, size)
    shape = [2, 3, 4]
    shape[axis] = n
    b = MxBuilder("blend")
    b.own_gradients = True
    x = b.input(TensorType(tuple(shape), DType.F64))
    y = blend(b, x, axis, taps)
    g = b.input(y.type)
    (pulled,) = pull_back(b, list(b.nodes), {y: g}, [x])
    rng = np.random.default_rng(0)
    arrays = rng.random(x.type.shape), rng.random(y.type.shape)
    found = evaluate_graph(b.build([y, pulled]), list(arrays))
    weights = matrix(taps, n)
    np.testing.assert_allclose(found[0], np.moveaxis(np.tensordot(arrays[0], weights, (axis, 1)), -1, axis))
    np.testing.assert_allclose(found[1], np.moveaxis(np.tensordot(arrays[1], weights, (axis, 0)), -1, axis))
