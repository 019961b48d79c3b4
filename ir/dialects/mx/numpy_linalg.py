"""Linear algebra of `mx.np`.

Singular values, and eigenvalues of matrices that are not symmetric, are computed by LAPACK in NumPy, on the host: core
has no primitives for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, prod
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ...graph import Effect, Value
from ...types import DType, TensorType
from .linalg import Inverse, Potrf, Syevd
from .linalg_diagonal import Matrices
from .numpy_reduce import axes_of, without
from .operator import Operator, operator
from .parameters import Bool, Float, Int, Ints, OptionalFloat, OptionalInts
from .shapes import PartialShape, distinct_axes

if TYPE_CHECKING:
    from .builder import MxBuilder

Triangle = Literal["L", "U"]


def transposed(b: MxBuilder, x: Value) -> Value:
    """Each matrix transposed."""
    rank = x.type.rank
    return b.transpose(x, (*range(rank - 2), rank - 1, rank - 2))


class _OnHost(Matrices):
    """A factorization by NumPy."""

    def effects(self) -> frozenset[Effect]:
        return frozenset({Effect.PYTHON})


def _svd(x: np.ndarray) -> Sequence[np.ndarray]:
    u, values, v = np.linalg.svd(x, full_matrices=False)
    return u, values, v


@operator("_npi_svd")
class SVD(_OnHost):
    """The singular value decomposition of matrices with at least as many columns as rows.

        A = UT . diag(L) . V

    Args:
        A: (..., M, N) with M <= N.
    Returns:
        UT: (..., M, M).
        L: (..., M), the singular values in falling order.
        V: (..., M, N).
    """

    outputs = ("UT", "L", "V")

    def decompose(self, b: MxBuilder, *inputs: Value) -> tuple[Value, ...]:
        (x,) = inputs
        self.check_matrices(x)
        *batch, m, n = x.type.shape
        if m > n:
            raise ValueError(f"A has shape {x.type.shape}: requires at least as many columns as rows")
        types = [TensorType((*batch, *s), x.type.dtype) for s in ((m, m), (m,), (m, n))]
        return b.host_callback(_svd, types, x)

    def gradient(  # type: ignore[override]
        self, b: MxBuilder, operands: object, results: Sequence[Value], cotangents: Sequence[Value]
    ) -> list[Value]:
        """The gradient of Giles (2008), for different singular values."""
        (u, s, v), (gu, gs, gv) = results, cotangents
        rank = u.type.rank
        rows, columns = (b.broadcast(s, u.type.shape, (*range(rank - 2), rank - 2 + k)) for k in range(2))
        gap = b.sub(b.square(columns), b.square(rows))
        safe = b.select(b.eq(gap, 0), b.full_like(gap, inf), gap)
        ratio = b.div(b.full_like(gap, 1), safe)
        p = b.matmul(transposed(b, u), gu)
        q = b.matmul(v, transposed(b, gv))
        inner = b.mul(ratio, b.add(b.mul(b.sub(p, transposed(b, p)), columns), b.mul(rows, b.sub(q, transposed(b, q)))))
        diagonal = b.eq(*(b.iota(u.type.shape, DType.I32, rank - 2 + k) for k in range(2)))
        inner = b.select(diagonal, columns_of(b, gs, u.type.shape), inner)
        main = b.matmul(b.matmul(u, inner), v)
        scaled = b.div(gv, b.broadcast(s, v.type.shape, range(rank - 1)))
        rest = b.sub(scaled, b.matmul(b.matmul(scaled, transposed(b, v)), v))
        return [b.add(main, b.matmul(u, rest))]


def columns_of(b: MxBuilder, x: Value, shape: Sequence[int]) -> Value:
    """The vectors x repeated as rows of matrices."""
    rank = len(shape)
    return b.broadcast(x, shape, (*range(rank - 2), rank - 1))


def _eig(x: np.ndarray) -> Sequence[np.ndarray]:
    values, vectors = np.linalg.eig(x)
    return np.real(values).astype(x.dtype), np.real(vectors).astype(x.dtype)


def _floats(b: MxBuilder, x: Value) -> Value:
    """Integers as float64, the dtype in which MXNet computes their eigenvalues."""
    return b.cast(x, DType.F64) if x.type.dtype.is_integer else x


@operator("_npi_eig")
class Eig(_OnHost):
    """The eigenvalues and right eigenvectors of square matrices; the real parts, as in MXNet.

    Args:
        A: (..., N, N).
    Returns:
        w: (..., N), the eigenvalues.
        v: (..., N, N), the eigenvectors as columns.
    """

    outputs = ("w", "v")
    has_gradient = False

    def decompose(self, b: MxBuilder, *inputs: Value) -> tuple[Value, ...]:
        x = _floats(b, inputs[0])
        self.check_matrices(x, square=1)
        return b.host_callback(_eig, [TensorType(x.type.shape[:-1], x.type.dtype), x.type], x)


@operator("_npi_eigvals")
class EigVals(Eig):
    """The eigenvalues of square matrices; the real parts, as in MXNet.

    Args:
        A: (..., N, N).
    Returns:
        w: (..., N).
    """

    outputs = ("w",)

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:  # type: ignore[override]
        return super().decompose(b, *inputs)[0]


class _Symmetric(Matrices):
    """A factorization of symmetric matrices.

    Args:
        UPLO: The triangle that is read: "L" is the lower one, "U" the upper one.
    """

    UPLO: Triangle = "L"

    def factored(self, b: MxBuilder, x: Value) -> tuple[Value, Value]:
        """The eigenvalues, and the eigenvectors as columns."""
        x = _floats(b, x)
        if 0 in x.type.shape:
            self.check_matrices(x, square=1)
            return b.full(x.type.shape[:-1], 0, x.type.dtype), x
        vectors, values = Syevd().decompose(b, x if self.UPLO == "L" else transposed(b, x))
        return values, transposed(b, vectors)


@operator("_npi_eigh")
class EigH(_Symmetric):
    """The eigenvalues and eigenvectors of symmetric matrices.

    Args:
        A: (..., N, N).
    Returns:
        w: (..., N), the eigenvalues in rising order.
        v: (..., N, N), the eigenvectors as columns.
    """

    outputs = ("w", "v")

    def decompose(self, b: MxBuilder, *inputs: Value) -> tuple[Value, Value]:
        return self.factored(b, inputs[0])


@operator("_npi_eigvalsh")
class EigValsH(_Symmetric):
    """The eigenvalues of symmetric matrices, in rising order.

    Args:
        A: (..., N, N).
    Returns:
        (..., N).
    """

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        return self.factored(b, inputs[0])[0]


@operator("_npi_cholesky")
class Cholesky(Potrf):
    """The lower Cholesky factor of symmetric positive definite matrices: A = L . L^T.

    Args:
        lower: True.
    """


@operator("_npi_solve")
class Solve(Matrices):
    """The solution of systems of linear equations: A . x = B.

    Args:
        A: (..., N, N).
        B: (..., N) or (..., N, K).
    Returns:
        An array of B's shape.
    """

    inputs = ("A", "B")

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        a, y = inputs
        self.check_matrices(a, square=1)
        vector = y.type.rank == a.type.rank - 1
        z = b.expand_dims(y, -1) if vector else y
        x = b.matmul(Inverse().decompose(b, a), z)
        return b.reshape(x, y.type.shape)

    def results_problem(self, operands: list[np.ndarray], results: list[np.ndarray]) -> str | None:
        known = all(np.isfinite(x).all() for x in operands)
        return "Singular matrix" if known and not all(np.isfinite(y).all() for y in results) else None


def pseudo_inverse(b: MxBuilder, x: Value, rcond: Value) -> Value:
    """The pseudo-inverse of matrices; singular values of at most rcond times the largest one count as zero."""
    wide = x.type.shape[-2] <= x.type.shape[-1]
    u, s, v = b.custom_gradient(SVD().decompose, SVD().gradient, x if wide else transposed(b, x))  # type: ignore[arg-type]
    rank = s.type.rank
    limit = b.mul(b.max(s, (rank - 1,), keepdims=True), b.reshape(rcond, (*rcond.type.shape, 1)))
    kept = b.gt(s, b.broadcast_to(limit, s.type.shape))
    inverse = b.select(kept, b.div(b.full_like(s, 1), b.select(kept, s, b.full_like(s, 1))), b.full_like(s, 0))
    scaled = b.mul(u, columns_of(b, inverse, u.type.shape))
    result = b.matmul(scaled, v)  # the transposed pseudo-inverse
    return transposed(b, result) if wide else result


class _PseudoInverse(_OnHost):
    """The Moore-Penrose pseudo-inverse of matrices.

    Args:
        A: (..., M, N).
        rcond: Singular values of at most rcond times the largest one count as zero.
        hermitian: True if A is symmetric.
    Returns:
        (..., N, M).
    """


@operator("_npi_pinv")
class PInv(_PseudoInverse):
    """The Moore-Penrose pseudo-inverse of matrices, with a limit for each."""

    inputs = ("A", "rcond")
    hermitian: Bool = False

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        x, rcond = inputs
        self.check_matrices(x)
        return pseudo_inverse(b, x, b.broadcast_to(b.cast(rcond, x.type.dtype), x.type.shape[:-2]))


@operator("_npi_pinv_scalar_rcond")
class PInvOfNumber(_PseudoInverse):
    """The Moore-Penrose pseudo-inverse of matrices."""

    rcond: Float = 1e-15
    hermitian: Bool = False

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        (x,) = inputs
        self.check_matrices(x)
        return pseudo_inverse(b, x, b.full(x.type.shape[:-2], self.rcond, x.type.dtype))


@operator("_npi_tensorinv")
class TensorInv(Operator):
    """The inverse of an array as a linear map between groups of axes.

    Args:
        a: The array; the first `ind` axes have as many elements as the others.
        ind: The number of axes of the first group.
    Returns:
        An array with the groups exchanged.
    """

    inputs = ("a",)
    ind: Int = 2

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        (x,) = inputs
        if self.ind <= 0:
            raise ValueError("Invalid ind argument.")
        first, last = x.type.shape[: self.ind], x.type.shape[self.ind :]
        if prod(first) != prod(last):
            raise ValueError(f"a of shape {x.type.shape} is not square with ind={self.ind}")
        inverse = Inverse().decompose(b, b.reshape(x, (prod(first), prod(last))))
        return b.reshape(inverse, (*last, *first))


@operator("_npi_tensorsolve")
class TensorSolve(Operator):
    """The solution x of a x = b, with the sum over all axes of x.

    Args:
        a: The array of coefficients, whose first axes are those of `b`.
        b: The right side.
        a_axes: Axes of `a` that are moved to its end first.
    Returns:
        An array with the last axes of `a`.
    """

    inputs = ("a", "b")
    a_axes: Ints = ()

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        x, y = inputs
        if self.a_axes:
            moved = distinct_axes(self.a_axes, x.type.rank)
            x = b.transpose(
                x, [i for i in range(x.type.rank) if i not in moved] + [i % x.type.rank for i in self.a_axes]
            )
        shape = x.type.shape[y.type.rank :]
        if prod(shape) != y.type.size:
            raise ValueError(f"a of shape {x.type.shape} and b of shape {y.type.shape} do not form a square system")
        inverse = Inverse().decompose(b, b.reshape(x, (y.type.size, prod(shape))))
        return b.reshape(b.matmul(inverse, b.reshape(y, (y.type.size, 1))), shape)


@operator("_npi_norm")
class Norm(Operator):
    """The norm of vectors or matrices.

    Args:
        ord: The order of the norm.
        axis: The axis of vectors, or the two axes of matrices; None for the flattened array.
        keepdims: True to keep the reduced axes with extent 1.
        flag: Which norm: -2 and 1 of all elements, -1 of vectors, 0 the spectral one, 2 the nuclear one.
    Returns:
        The norms.
    """

    ord: OptionalFloat = 2.0
    axis: OptionalInts = None
    keepdims: Bool = False
    flag: Int = -1

    def effects(self) -> frozenset[Effect]:
        spectral = self.flag in (0, 2) or (self.flag == -1 and self.axis is None and self.ord in (2, -2))
        return frozenset({Effect.PYTHON}) if spectral else frozenset()

    def complete(self, inputs: list[PartialShape], outputs: list[PartialShape]) -> None:
        if inputs[0] is not None:
            outputs[0] = without(inputs[0], axes_of(self.axis, len(inputs[0])), self.keepdims)

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        (x,) = inputs
        if not x.type.dtype.is_float:
            raise TypeError(f"is defined on floats, got {x.type.dtype.full_name}")
        axes = axes_of(self.axis, x.type.rank)
        shape = without(x.type.shape, axes, self.keepdims)
        if self.axis is None and self.flag == -1 and x.type.rank == 2 and self.ord in (1, -1, 2, -2):
            return b.reshape(self._of_matrix(b, x), shape)
        if self.flag in (0, 2):
            values = singular_values(b, x, axes)
            last = (values.type.rank - 1,)
            if self.flag == 2:
                return b.reshape(b.sum(values, last), shape)
            return b.reshape((b.max if (self.ord or 2) > 0 else b.min)(values, last), shape)
        if self.flag == -1 and len(axes) == 2 and self.axis is not None:
            raise ValueError("Invalid norm order for matrices.")
        order = 2.0 if self.flag in (-2, 1) or self.ord is None else self.ord
        return b.reshape(vector_norm(b, x, axes, order), shape)

    def _of_matrix(self, b: MxBuilder, x: Value) -> Value:
        """The norm of one matrix, of the order 1, -1, 2 or -2."""
        order = self.ord or 2.0
        sizes = b.sum(b.abs(x), (0,)) if abs(order) == 1 else singular_values(b, x, (0, 1))
        return (b.max if order > 0 else b.min)(sizes, (0,))


def vector_norm(b: MxBuilder, x: Value, axes: tuple[int, ...], order: float) -> Value:
    """The norm of vectors, of any order."""
    size = b.abs(x)
    if order == inf:
        return b.max(size, axes)
    if order == -inf:
        return b.min(size, axes)
    if order == 0:
        return b.sum(b.cast(b.ne(x, 0), x.type.dtype), axes)
    if order == 1:
        return b.sum(size, axes)
    if order == 2:
        return _length(b, x, axes)
    return b.pow(b.sum(b.pow(size, order), axes), 1 / order)


def _length(b: MxBuilder, x: Value, axes: tuple[int, ...]) -> Value:
    """The length of vectors, whose gradient at zero is zero."""

    def forward(b: Any, x: Value) -> Value:
        return b.sqrt(b.sum(b.square(x), axes))

    def gradient(
        b: Any, operands: Sequence[Value], results: Sequence[Value], cotangents: Sequence[Value]
    ) -> list[Value]:
        (x,), (y,), (g,) = operands, results, cotangents
        slope = b.select(b.eq(y, 0), b.full_like(y, 0), b.div(g, y))
        kept = tuple(1 if i in axes else n for i, n in enumerate(x.type.shape))
        return [b.mul(x, b.broadcast_to(b.reshape(slope, kept), x.type.shape))]

    return b.custom_gradient(forward, gradient, x)[0]


def singular_values(b: MxBuilder, x: Value, axes: Sequence[int]) -> Value:
    """The singular values of the matrices in two axes, along the last axis."""
    if len(axes) != 2:
        raise ValueError("requires matrices: two axes")
    others = [i for i in range(x.type.rank) if i not in axes]
    matrices = b.transpose(x, (*others, *axes))
    if matrices.type.shape[-2] > matrices.type.shape[-1]:
        matrices = transposed(b, matrices)
    return b.custom_gradient(SVD().decompose, SVD().gradient, matrices)[1]  # type: ignore[arg-type]
