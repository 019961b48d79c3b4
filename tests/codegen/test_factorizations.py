"""Matrix factorizations on the CPU, against the interpreter and their definitions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from compiled import check, compiled, run_program
from mxforge.ir.dialects.core import LQ, LU, Cholesky, CoreBuilder, Primitive, SymmetricEigen, TriangularSolve
from mxforge.ir.graph import Graph
from mxforge.ir.types import DType, TensorType

Array = np.ndarray[Any, Any]
RANDOM = np.random.default_rng(3)
SIZES = (1, 2, 8, 9, 43)


def single(op: Primitive, *arrays: Array) -> Graph:
    b = CoreBuilder(op.name)
    operands = [b.input(TensorType(a.shape, DType.from_numpy(a.dtype))) for a in arrays]
    return b.build(b.node(op, *operands).outputs)


def run(op: Primitive, *arrays: Array) -> list[Array]:
    return run_program(compiled(single(op, *arrays)), arrays)


def square(n: int, dtype: str) -> Array:
    return RANDOM.uniform(-1, 1, (3, n, n)).astype(dtype)


def definite(n: int, dtype: str) -> Array:
    x = square(n, dtype)
    return x @ np.swapaxes(x, 1, 2) + np.eye(n, dtype=dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", SIZES)
def test_factors_agree_with_the_interpreter(n: int, dtype: str) -> None:
    limit = 2e-4 if dtype == "float32" else 1e-10
    x, wide = definite(n, dtype), RANDOM.uniform(-1, 1, (2, n, n + 5)).astype(dtype)
    check(single(Cholesky(), x), x, tolerance=limit)
    check(single(LU(), x), x, tolerance=limit)
    check(single(LQ(), x), x, tolerance=limit)
    check(single(LQ(), wide), wide, tolerance=limit)
    for op in [TriangularSolve(lower, transpose) for lower in (True, False) for transpose in (True, False)]:
        a, y = square(n, dtype) / n + np.eye(n, dtype=dtype), RANDOM.uniform(-1, 1, (3, n, 11)).astype(dtype)
        check(single(op, a, y), a, y, tolerance=limit)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", SIZES)
def test_eigenvectors_diagonalize(n: int, dtype: str) -> None:
    x = square(n, dtype)
    values, vectors = run(SymmetricEigen(), x)
    limit = 2e-5 * n if dtype == "float32" else 1e-13 * n
    symmetric = np.tril(x) + np.swapaxes(np.tril(x, -1), 1, 2)
    np.testing.assert_allclose(vectors @ np.swapaxes(vectors, 1, 2), np.broadcast_to(np.eye(n), x.shape), atol=limit)
    np.testing.assert_allclose(np.swapaxes(vectors, 1, 2) @ (values[..., None] * vectors), symmetric, atol=limit)


@pytest.mark.parametrize(
    "matrix",
    [np.zeros((4, 4)), np.ones((4, 4)), np.eye(5), np.diag([3.0, -1, 2]), np.diag(np.ones(5), -1) * 1e-30],
    ids=["zeros", "ones", "identity", "diagonal", "tiny"],
)
def test_equal_and_zero_eigenvalues(matrix: Array) -> None:
    values, vectors = run(SymmetricEigen(), matrix)
    symmetric = np.tril(matrix) + np.tril(matrix, -1).T
    np.testing.assert_allclose(np.sort(values), np.linalg.eigvalsh(symmetric), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(vectors @ vectors.T, np.eye(len(matrix)), atol=1e-14)


def test_matrices_without_a_factor() -> None:
    """Results are NaN from the failing row on, and the call returns."""
    x = np.array([[4.0, 0, 0], [2, 2, 0], [1, 1, -1]])
    (factor,) = run(Cholesky(), x)
    np.testing.assert_array_equal(np.isfinite(factor[:2]), True)
    assert np.isnan(factor[2, 2])
    assert np.isnan(run(Cholesky(), -x)[0][:, 0]).all()
    assert np.isnan(run(SymmetricEigen(), x * np.nan)[0]).all()
    packed, order = run(LU(), np.array([[0.0, 1], [0, 2]]))
    np.testing.assert_array_equal(np.diag(packed), [0, 2])
    np.testing.assert_array_equal(order, [0, 1])


def test_zero_batch_and_wrong_operands() -> None:
    for empty in (np.zeros((0, 3, 3)), np.zeros((2, 0, 0))):
        for op in (Cholesky(), LU(), LQ(), SymmetricEigen()):
            assert empty.shape in [y.shape for y in run(op, empty)]
        assert run(TriangularSolve(), empty, empty)[0].shape == empty.shape
    with pytest.raises(TypeError, match="float32 or float64, got float16"):
        Cholesky().infer(TensorType((2, 2), DType.F16))
    with pytest.raises(ValueError, match="must be square"):
        LU().infer(TensorType((2, 3), DType.F32))
    with pytest.raises(ValueError, match="at least as many columns"):
        LQ().infer(TensorType((3, 2), DType.F32))
    with pytest.raises(ValueError, match="do not fit"):
        TriangularSolve().infer(TensorType((3, 3), DType.F32), TensorType((2, 3), DType.F32))


@pytest.mark.parametrize(
    ("dtype", "size"),
    [("float32", s) for s in (1e-36, 1e-22, 1e20)] + [("float64", s) for s in (1e-300, 1e-160, 1e160)],
)
def test_reflections_of_rows_whose_squares_have_no_range(dtype: str, size: float) -> None:
    x, limit = RANDOM.uniform(-1, 1, (3, 5, 5)), 1e-4 if dtype == "float32" else 1e-12
    symmetric = x + np.swapaxes(x, 1, 2)
    values, _ = run(SymmetricEigen(), (symmetric * size).astype(dtype))
    np.testing.assert_allclose(np.sort(values) / size, np.linalg.eigvalsh(symmetric), atol=limit)
    factor, orthogonal = (y.astype(np.float64) for y in run(LQ(), (x * size).astype(dtype)))
    np.testing.assert_allclose(
        orthogonal @ np.swapaxes(orthogonal, 1, 2), np.broadcast_to(np.eye(5), x.shape), atol=limit
    )
    np.testing.assert_allclose(factor / size @ orthogonal, x, atol=limit)


def test_equal_eigenvalues() -> None:
    """The rows that are left of a matrix with few eigenvalues are rounding errors, whose squares have no range."""
    group = np.trunc(np.random.default_rng(2).standard_normal((5000, 10)))
    same = (group[:, :, None] == group[:, None, :]) & (group >= 0)[:, :, None]
    x = (0.25 * same + np.eye(10)).astype(np.float32)
    values, _ = run(SymmetricEigen(), x)
    np.testing.assert_allclose(np.sort(values), np.linalg.eigvalsh(x.astype(np.float64)), atol=2e-5)
