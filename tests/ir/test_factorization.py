"""The factors of matrices satisfy their definitions, in the NumPy semantics of the primitives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from mxforge.ir.dialects.core import LQ, LU, Cholesky, SymmetricEigen, TriangularSolve

Array = np.ndarray[Any, Any]


@pytest.mark.parametrize("shape", [(3, 3), (2, 4, 4), (2, 0, 0)])
def test_factors_multiply_to_the_matrix(shape: tuple[int, ...]) -> None:
    def transposed(matrix: Array) -> Array:
        return np.swapaxes(matrix, -1, -2)

    random = np.random.default_rng(2)
    x = random.normal(size=shape)
    definite = x @ transposed(x) + np.eye(shape[-1])
    (factor,) = Cholesky().evaluate(definite)
    np.testing.assert_allclose(factor @ transposed(factor), definite)
    np.testing.assert_array_equal(factor, np.tril(factor))
    packed, order = LU().evaluate(x)
    lower, upper = np.tril(packed, -1) + np.eye(shape[-1]), np.triu(packed)
    np.testing.assert_allclose(lower @ upper, np.take_along_axis(x, order[..., None], -2))
    assert np.all(np.abs(lower) <= 1)
    triangle, q = LQ().evaluate(x)
    np.testing.assert_allclose(triangle @ q, x, atol=1e-12)
    np.testing.assert_allclose(q @ transposed(q), np.broadcast_to(np.eye(shape[-1]), shape), atol=1e-12)
    np.testing.assert_array_equal(triangle, np.tril(triangle))
    values, vectors = SymmetricEigen().evaluate(np.tril(definite))
    np.testing.assert_allclose(transposed(vectors) @ (values[..., None] * vectors), definite, atol=1e-12)
    for op in [TriangularSolve(low, t) for low in (True, False) for t in (True, False)]:
        read = np.tril(definite) if op.lower else np.triu(definite)
        (solved,) = op.evaluate(definite, x)
        np.testing.assert_allclose((transposed(read) if op.transpose else read) @ solved, x, atol=1e-12)


def test_a_matrix_without_a_factor_gives_nan() -> None:
    (factor,) = Cholesky().evaluate(np.array([[4.0, 0, 0], [2, 2, 0], [1, 1, -1]]))
    np.testing.assert_array_equal(np.isnan(factor), [[False] * 3, [False] * 3, [False, False, True]])
