"""Primitives that factor matrices or solve linear systems: Cholesky, LU, LQ, eigenvalues, triangular systems.

Operands are float32 or float64 matrices in the last two axes; the leading axes are a batch. Primitives on symmetric
matrices read only the lower triangle.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from ...graph import Node, Value
from ...lazy_dataclass import dataclass
from ...types import DType, Shape, TensorType
from .primitive import Array, Arrays, Gradients, Primitive, Types, operands

if TYPE_CHECKING:
    from .builder import CoreBuilder


def _check_matrices(*types: TensorType) -> None:
    for t in types:
        if t.dtype not in (DType.F32, DType.F64) or t.dtype is not types[0].dtype:
            raise TypeError(
                f"matrices must be of float32 or float64, got {', '.join(t.dtype.full_name for t in types)}"
            )
        if t.rank < 2 or t.shape[:-2] != types[0].shape[:-2]:
            raise ValueError(f"{', '.join(str(t.shape) for t in types)} are not equal batches of matrices")


def _check_square(x: TensorType) -> None:
    _check_matrices(x)
    if x.shape[-1] != x.shape[-2]:
        raise ValueError(f"the matrices must be square, got {x.shape}")


def _flat(x: Array) -> Array:
    """A copy in float64 as (batch, rows, columns)."""
    return x.astype(np.float64).reshape(prod(x.shape[:-2]), *x.shape[-2:])


# -- shared by the gradients


def _matrix_order(x: Value) -> tuple[int, ...]:
    return (*range(x.type.rank - 2), x.type.rank - 1, x.type.rank - 2)


def transposed(b: CoreBuilder, x: Value) -> Value:
    """Each matrix transposed."""
    return b.transpose(x, _matrix_order(x))


def triangle(b: CoreBuilder, x: Value, lower: bool = True, offset: int = 0) -> Value:
    """Each matrix with zeros above diagonal number `offset`, or below it if not `lower`."""
    shape, rank = x.type.shape, x.type.rank
    row = b.add(b.iota(shape, DType.I32, rank - 2), offset)
    column = b.iota(shape, DType.I32, rank - 1)
    return b.select(b.le(column, row) if lower else b.ge(column, row), x, b.full_like(x, 0))


def unit_lower(b: CoreBuilder, x: Value) -> Value:
    """Each matrix's strictly lower triangle with ones on the diagonal."""
    return b.add(triangle(b, x, offset=-1), identity(b, x.type))


def identity(b: CoreBuilder, type: TensorType) -> Value:
    """A batch of identity matrices."""
    eye = np.eye(type.shape[-2], type.shape[-1])
    return b.broadcast_to(b.constant(eye, type.dtype), type.shape)


def _onto_lower(b: CoreBuilder, gradient: Value) -> Value:
    """The gradient of a symmetric matrix as a gradient of its lower triangle, which represents both."""
    both = triangle(b, b.add(gradient, transposed(b, gradient)))
    return b.sub(both, b.mul(gradient, identity(b, gradient.type)))


def _below_and_half_the_diagonal(b: CoreBuilder, x: Value) -> Value:
    return b.sub(triangle(b, x), b.mul(b.mul(x, identity(b, x.type)), 0.5))


# -- the primitives


@dataclass(frozen=True)
class Cholesky(Primitive):
    """x[..., n, n] -> lower triangular L with L L^T = x; NaN from the first row whose pivot is not positive."""

    name = "core.cholesky"

    def infer(self, *types: TensorType) -> Types:
        (x,) = operands(types, 1)
        _check_square(x)
        return (TensorType(x.shape, x.dtype),)

    def evaluate(self, *arrays: Array) -> Arrays:
        x = _flat(arrays[0])
        result = np.zeros_like(x)
        for j in range(x.shape[-1]):
            done = result[:, :, :j]
            column = x[:, j:, j] - (done[:, j:] @ done[:, j, :, None])[..., 0]
            pivot = np.sqrt(np.where(column[:, :1] > 0, column[:, :1], np.nan))
            result[:, j:, j] = column / pivot
        return (result.reshape(arrays[0].shape).astype(arrays[0].dtype),)

    def vanishes(self, node: Node, zero: Sequence[bool]) -> bool:
        return False

    def vjp(self, b: CoreBuilder, node: Node, cotangents: Sequence[Value]) -> Gradients:
        factor, g = node.outputs[0], triangle(b, cotangents[0])
        inner = _below_and_half_the_diagonal(b, b.matmul(transposed(b, factor), g))
        half = b.triangular_solve(factor, inner, transpose=True)
        whole = b.triangular_solve(factor, transposed(b, half), transpose=True)
        return [_onto_lower(b, b.mul(b.add(whole, transposed(b, whole)), 0.5))]


@dataclass(frozen=True)
class TriangularSolve(Primitive):
    """a[..., n, n], y[..., n, m] -> x with a x = y, or a^T x = y if `transpose`. Reads only one triangle of a."""

    name = "core.triangular_solve"
    lower: bool = True
    transpose: bool = False

    def infer(self, *types: TensorType) -> Types:
        a, y = operands(types, 2)
        _check_square(a)
        _check_matrices(a, y)
        if a.shape[-1] != y.shape[-2]:
            raise ValueError(f"matrices {a.shape} do not fit right-hand sides {y.shape}")
        return (TensorType(y.shape, y.dtype),)

    def evaluate(self, *arrays: Array) -> Arrays:
        a, x = (_flat(v) for v in arrays)
        a = a.transpose(0, 2, 1) if self.transpose else a
        n = a.shape[-1]
        downwards = self.lower != self.transpose
        with np.errstate(all="ignore"):
            for i in range(n) if downwards else reversed(range(n)):
                known = slice(0, i) if downwards else slice(i + 1, n)
                x[:, i] = (x[:, i] - (a[:, i, None, known] @ x[:, known])[:, 0]) / a[:, i, i, None]
            return (x.reshape(arrays[1].shape).astype(arrays[1].dtype),)

    def vanishes(self, node: Node, zero: Sequence[bool]) -> bool:
        return zero[1]

    def vjp(self, b: CoreBuilder, node: Node, cotangents: Sequence[Value]) -> Gradients:
        a, x = node.inputs[0], node.outputs[0]
        dy = b.triangular_solve(a, cotangents[0], self.lower, not self.transpose)
        outer = b.matmul(x, transposed(b, dy)) if self.transpose else b.matmul(dy, transposed(b, x))
        return [b.neg(triangle(b, outer, self.lower)), dy]


@dataclass(frozen=True)
class LU(Primitive):
    """x[..., n, n] -> packed factors, permutation (I32[..., n]): row i of L U is row permutation[i] of x.

    L (with diagonal 1) is stored below U's diagonal. The pivot of each step is the first element of its column with the
    greatest magnitude; a column of zeros has a zero on U's diagonal.
    """

    name = "core.lu"

    def infer(self, *types: TensorType) -> Types:
        (x,) = operands(types, 1)
        _check_square(x)
        return TensorType(x.shape, x.dtype), TensorType(x.shape[:-1], DType.I32)

    def evaluate(self, *arrays: Array) -> Arrays:
        x = _flat(arrays[0])
        order = np.tile(np.arange(x.shape[-1], dtype=np.int32), (len(x), 1))
        for matrix, rows in zip(x, order, strict=True):
            for k in range(len(matrix)):
                pivot = k + np.argmax(np.abs(matrix[k:, k]))
                matrix[[k, pivot]], rows[[k, pivot]] = matrix[[pivot, k]], rows[[pivot, k]]
                if matrix[k, k] != 0:
                    matrix[k + 1 :, k] /= matrix[k, k]
                matrix[k + 1 :, k + 1 :] -= np.outer(matrix[k + 1 :, k], matrix[k, k + 1 :])
        shape = arrays[0].shape
        return x.reshape(shape).astype(arrays[0].dtype), order.reshape(shape[:-1])

    def vanishes(self, node: Node, zero: Sequence[bool]) -> bool:
        return False

    def vjp(self, b: CoreBuilder, node: Node, cotangents: Sequence[Value]) -> Gradients:
        packed, order = node.outputs
        lower, g = unit_lower(b, packed), cotangents[0]
        below = triangle(b, b.matmul(transposed(b, lower), triangle(b, g, offset=-1)), offset=-1)
        upper = triangle(b, packed, lower=False)
        above = triangle(b, b.matmul(triangle(b, g, lower=False), transposed(b, upper)), lower=False)
        right = b.triangular_solve(packed, transposed(b, b.add(below, above)), lower=False)
        rows = b.triangular_solve(lower, transposed(b, right), transpose=True)
        places = b.expand_dims(order, -1)
        batch = order.type.rank - 1
        return [b.scatter(b.full_like(rows, 0), places, rows, "set", (batch,), batch)]


@dataclass(frozen=True)
class LQ(Primitive):
    """x[..., m, n], m <= n -> lower triangular L[..., m, m], Q[..., m, n] with orthonormal rows: L Q = x.

    Householder reflections with LAPACK's signs: a diagonal element of L and the element that it replaces have opposite
    signs, and rows that are already zero behind the diagonal do not change.
    """

    name = "core.lq"

    def infer(self, *types: TensorType) -> Types:
        (x,) = operands(types, 1)
        _check_matrices(x)
        *batch, m, n = x.shape
        if m > n:
            raise ValueError(f"the matrices must have at least as many columns as rows, got {x.shape}")
        return TensorType((*batch, m, m), x.dtype), TensorType(x.shape, x.dtype)

    def evaluate(self, *arrays: Array) -> Arrays:
        (x,) = arrays
        factors = [_lq(matrix) for matrix in _flat(x)]
        m, n = x.shape[-2:]
        stacks = [np.array([f[i] for f in factors]).reshape(*x.shape[:-2], m, size) for i, size in enumerate((m, n))]
        return stacks[0].astype(x.dtype), stacks[1].astype(x.dtype)

    def vanishes(self, node: Node, zero: Sequence[bool]) -> bool:
        return False

    def vjp(self, b: CoreBuilder, node: Node, cotangents: Sequence[Value]) -> Gradients:
        """The formula of Seeger, Hetzel, Dai, Lawrence, "Auto-Differentiating Linear Algebra" (2017)."""
        factor, q = node.outputs
        dl, dq = triangle(b, cotangents[0]), cotangents[1]
        m = b.sub(b.matmul(transposed(b, factor), dl), b.matmul(dq, transposed(b, q)))
        mirrored = b.add(triangle(b, m), transposed(b, triangle(b, m, offset=-1)))
        return [b.triangular_solve(factor, b.add(dq, b.matmul(mirrored, q)), transpose=True)]


def _lq(x: Array) -> tuple[Array, Array]:
    m, n = x.shape
    q = np.eye(m, n)
    reflections: list[tuple[Array, float]] = []
    for k in range(m):
        v, scale = x[k, k:].copy(), 0.0
        if np.any(v[1:]):
            v[0] += np.copysign(np.linalg.norm(v), v[0])
            scale = 2 / float(v @ v)
        x[k:, k:] -= scale * np.outer(x[k:, k:] @ v, v)
        reflections.append((v, scale))
    for k, (v, scale) in reversed(list(enumerate(reflections))):
        q[k:, k:] -= scale * np.outer(q[k:, k:] @ v, v)
    return np.tril(x[:, :m]), q


@dataclass(frozen=True)
class SymmetricEigen(Primitive):
    """x[..., n, n] -> values[..., n] in any order, vectors[..., n, n], one per row, with arbitrary signs."""

    name = "core.symmetric_eigen"

    def infer(self, *types: TensorType) -> Types:
        (x,) = operands(types, 1)
        _check_square(x)
        return TensorType(x.shape[:-1], x.dtype), TensorType(x.shape, x.dtype)

    def evaluate(self, *arrays: Array) -> Arrays:
        (x,) = arrays
        finite = np.all(np.isfinite(x), (-2, -1), keepdims=True)
        values, vectors = np.linalg.eigh(np.where(finite, x, 0).astype(np.float64), "L")
        values = np.where(finite[..., 0], values, np.nan)
        vectors = np.where(finite, vectors, np.nan)
        return values.astype(x.dtype), np.swapaxes(vectors, -1, -2).astype(x.dtype)

    def vanishes(self, node: Node, zero: Sequence[bool]) -> bool:
        return False

    def vjp(self, b: CoreBuilder, node: Node, cotangents: Sequence[Value]) -> Gradients:
        """For equal eigenvalues the gradient of their vectors is undefined, and is 0 here."""
        values, vectors = node.outputs
        shape = vectors.type.shape
        down, across = self._spread(b, values, shape, -2), self._spread(b, values, shape, -1)
        across_cotangents = self._spread(b, cotangents[0], shape, -1)
        gaps = b.sub(down, across)
        equal = b.eq(gaps, 0)
        turns = b.div(b.matmul(vectors, transposed(b, cotangents[1])), b.select(equal, b.full_like(gaps, 1), gaps))
        turns = b.select(equal, b.full_like(turns, 0), turns)
        inner = b.sub(b.mul(identity(b, vectors.type), across_cotangents), turns)
        whole = b.matmul(b.matmul(transposed(b, vectors), inner), vectors)
        return [_onto_lower(b, b.mul(b.add(whole, transposed(b, whole)), 0.5))]

    def _spread(self, b: CoreBuilder, values: Value, shape: Shape, axis: int) -> Value:
        rank = len(shape)
        return b.broadcast(values, shape, (*range(rank - 2), rank + axis))
