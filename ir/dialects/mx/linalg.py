"""Linear algebra on float32 or float64 matrices in the last two axes; the leading axes are a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...graph import Value
from ...types import DType
from ..core.factorization import identity, transposed, triangle, unit_lower
from .gradients import identity as same
from .linalg_diagonal import Matrices, diagonal_of, not_scalar
from .operator import operator
from .parameters import Bool, Float, Int
from .shapes import PartialShape, normalize_axis, unify, unify_all, unify_at

if TYPE_CHECKING:
    from .builder import MxBuilder


def _times(b: MxBuilder, x: Value, factor: float) -> Value:
    return x if factor == 1 else b.mul(x, factor)


# -- products


class _Product(Matrices):
    """Shared arguments of several operators.

    Args:
        A: (..., M, K), or (..., K, M) with `transpose_a`.
        B: (..., K, N), or (..., N, K) with `transpose_b`.
        transpose_a: True to transpose A first.
        transpose_b: True to transpose B first.
        alpha: Factor of the product.
        axis: The axis of the rows; the last axis is the columns.
    """

    inputs = ("A", "B")
    transpose_a: Bool = False
    transpose_b: Bool = False
    alpha: Float = 1.0

    def _product(self, b: MxBuilder, x: Value, y: Value, axis: int) -> Value:
        self.check_matrices(x, y)
        left, right = (self._rows_last_but_one(b, v, axis) for v in (x, y))
        self.check_same_batch(left, right)
        batch = tuple(range(left.type.rank - 2))
        last = left.type.rank - 1
        contracted = last - 1 if self.transpose_a else last, last if self.transpose_b else last - 1
        if left.type.shape[contracted[0]] != right.type.shape[contracted[1]]:
            raise ValueError(f"cannot multiply matrices of {x.type.shape} and {y.type.shape}")
        return _times(b, b.dot(left, right, batch, batch, contracted[:1], contracted[1:]), self.alpha)

    def _rows_last_but_one(self, b: MxBuilder, x: Value, axis: int) -> Value:
        return b.transpose(x, self._order(x, axis))

    def _order(self, x: Value, axis: int) -> tuple[int, ...]:
        rank = x.type.rank
        rows = normalize_axis(axis, rank)
        if rows == rank - 1:
            raise ValueError(f"axis={axis} is the axis of the columns")
        return (*(k for k in range(rank - 1) if k != rows), rows, rank - 1)

    def _back(self, b: MxBuilder, x: Value, axis: int) -> Value:
        order = self._order(x, axis)
        return b.transpose(x, tuple(order.index(k) for k in range(len(order))))


@operator("_linalg_gemm", aliases=("linalg_gemm",))
class Gemm(_Product):
    """A matrix product plus a matrix.

        output = alpha * op(A) . op(B) + beta * C

    Args:
        C: (..., M, N), the matrices to add.
        beta: Factor of C.
    Returns:
        (..., M, N).
    Example:
        >>> a, b, c = nd.array([[1, 2]]), nd.array([[3], [4]]), nd.array([[10]])
        >>> nd.linalg.gemm(a, b, c, beta=2).asnumpy()
        array([[31.]], dtype=float32)
    """

    inputs = ("A", "B", "C")
    beta: Float = 1.0
    axis: Int = -2

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        x, y, z = inputs
        product = self._back(b, self._product(b, x, y, self.axis), self.axis)
        if z.type != product.type:
            raise ValueError(f"C is {z.type.description}, the product is {product.type.description}")
        return b.add(product, _times(b, z, self.beta))


@operator("_linalg_gemm2", aliases=("linalg_gemm2",))
class Gemm2(_Product):
    """A matrix product.

        output = alpha * op(A) . op(B)

    Returns:
        (..., M, N).
    Example:
        >>> nd.linalg.gemm2(nd.array([[1, 2]]), nd.array([[3, 4]]), transpose_b=True).asnumpy()
        array([[11.]], dtype=float32)
    """

    axis: Int = -2

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        x, y = inputs
        return self._back(b, self._product(b, x, y, self.axis), self.axis)


@operator("_linalg_syrk", aliases=("linalg_syrk",))
class Syrk(Matrices):
    """The product of a matrix with its transpose.

        output = alpha * A . A^T, or alpha * A^T . A with `transpose`

    Args:
        A: (..., M, N).
        transpose: True to transpose the first factor instead of the second.
        alpha: Factor of the product.
    Returns:
        (..., M, M), or (..., N, N) with `transpose`.
    Example:
        >>> nd.linalg.syrk(nd.array([[1, 2], [3, 4]])).asnumpy()
        array([[ 5., 11.],
               [11., 25.]], dtype=float32)
    """

    transpose: Bool = False
    alpha: Float = 1.0

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        (x,) = inputs
        self.check_matrices(x)
        batch = tuple(range(x.type.rank - 2))
        over = (x.type.rank - (2 if self.transpose else 1),)
        return _times(b, b.dot(x, x, batch, batch, over, over), self.alpha)


class _Triangular(Matrices):
    """Shared arguments of several operators.

    Args:
        A: (..., N, N), triangular; elements outside the triangle are not read.
        B: (..., N, M), or (..., M, N) with `rightside`.
        transpose: True to transpose A first.
        rightside: True if A is the right factor.
        lower: True if A is lower triangular.
        alpha: Factor of the result.
    """

    inputs = ("A", "B")
    transpose: Bool = False
    rightside: Bool = False
    lower: Bool = True
    alpha: Float = 1.0

    def complete(self, inputs: list[PartialShape], outputs: list[PartialShape]) -> None:
        inputs[1] = outputs[0] = sides = unify(inputs[1], outputs[0])
        if sides is not None and len(sides) > 1:
            extent = sides[-1 if self.rightside else -2]
            unify_at(inputs, 0, (*sides[:-2], extent, extent))

    def _check_sides(self, a: Value, y: Value) -> None:
        self.check_matrices(a, y, square=1)
        self.check_same_batch(a, y)
        if a.type.shape[-1] != y.type.shape[-1 if self.rightside else -2]:
            raise ValueError(f"shapes {a.type.shape} and {y.type.shape} of A and B do not fit")


@operator("_linalg_trmm", aliases=("linalg_trmm",))
class Trmm(_Triangular):
    """The product of a triangular matrix with a matrix.

        output = alpha * op(A) . B, or alpha * B . op(A) with `rightside`

    Returns:
        An array of B's shape.
    Example:
        >>> nd.linalg.trmm(nd.array([[1, 0], [2, 3]]), nd.array([[1], [1]])).asnumpy()
        array([[1.],
               [5.]], dtype=float32)
    """

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        a, y = inputs
        self._check_sides(a, y)
        factor = triangle(b, a, self.lower)
        factor = transposed(b, factor) if self.transpose else factor
        return _times(b, b.matmul(y, factor) if self.rightside else b.matmul(factor, y), self.alpha)


@operator("_linalg_trsm", aliases=("linalg_trsm",))
class Trsm(_Triangular):
    """Solves a triangular system.

        op(A) . output = alpha * B, or output . op(A) = alpha * B with `rightside`

    Returns:
        An array of B's shape.
    Example:
        >>> nd.linalg.trsm(nd.array([[1, 0], [2, 4]]), nd.array([[1], [6]])).asnumpy()
        array([[1.],
               [1.]], dtype=float32)
    """

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        a, y = inputs
        self._check_sides(a, y)
        sides = _times(b, y, self.alpha)
        if not self.rightside:
            return b.triangular_solve(a, sides, self.lower, self.transpose)
        return transposed(b, b.triangular_solve(a, transposed(b, sides), self.lower, not self.transpose))


# -- factors


def _symmetric(b: MxBuilder, x: Value) -> Value:
    """x, a symmetric matrix of which one triangle is read; the gradient is made symmetric."""

    def gradient(b: MxBuilder, operands: object, results: object, cotangents: Sequence[Value]) -> list[Value]:
        g = cotangents[0]
        return [b.mul(b.add(g, transposed(b, g)), 0.5)]

    return b.custom_gradient(same, gradient, x)[0]


class _MayFail(Matrices):
    """A function from square matrices to matrices; some finite matrices have no result."""

    def complete(self, inputs: list[PartialShape], outputs: list[PartialShape]) -> None:
        unify_all(inputs, outputs)

    def results_problem(self, operands: list[np.ndarray], results: list[np.ndarray]) -> str | None:
        known = all(np.isfinite(x).all() for x in operands)
        return self._reason() if known and not all(np.isfinite(y).all() for y in results) else None

    def _reason(self) -> str:
        raise NotImplementedError


@operator("_linalg_potrf", aliases=("linalg_potrf",))
class Potrf(_MayFail):
    """The Cholesky factor of a symmetric positive definite matrix.

        A = L . L^T, with a lower triangular L

    Args:
        A: (..., N, N).
        lower: False for L^T.
    Returns:
        (..., N, N).
    Example:
        >>> nd.linalg.potrf(nd.array([[4, 2], [2, 2]])).asnumpy()
        array([[2., 0.],
               [1., 1.]], dtype=float32)
    """

    lower: Bool = True

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        (x,) = inputs
        self.check_matrices(x, square=1)
        x = _symmetric(b, x)
        return b.cholesky(x) if self.lower else transposed(b, b.cholesky(transposed(b, x)))

    def _reason(self) -> str:
        return "a matrix of A is not positive definite"


@operator("_linalg_potri", aliases=("linalg_potri",))
class Potri(_MayFail):
    """The inverse of a matrix, computed from its Cholesky factor.

        output = (A . A^T)^-1

    Args:
        A: (..., N, N), the factor.
        lower: False if the factor is upper triangular.
    Returns:
        (..., N, N).
    Example:
        >>> nd.linalg.potri(nd.array([[2, 0], [0, 1]])).asnumpy()
        array([[0.25, 0.  ],
               [0.  , 1.  ]], dtype=float32)
    """

    lower: Bool = True

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        (x,) = inputs
        self.check_matrices(x, square=1)
        factor = x if self.lower else transposed(b, x)
        root = b.triangular_solve(factor, identity(b, x.type))
        return b.matmul(transposed(b, root), root)

    def _reason(self) -> str:
        return "a matrix of A is not a Cholesky factor: its diagonal has a zero"


def _inverse(b: MxBuilder, packed: Value, order: Value) -> Value:
    """The inverse of the matrix whose LU factors are `packed` and `order`."""
    shape, rank = packed.type.shape, packed.type.rank
    taken = b.broadcast(order, shape, (*range(rank - 2), rank - 2))
    rows = b.cast(b.eq(taken, b.iota(shape, DType.I32, rank - 1)), packed.type.dtype)
    half = b.triangular_solve(unit_lower(b, packed), rows)
    return b.triangular_solve(packed, half, lower=False)


def _times_inverse(b: MxBuilder, packed: Value, order: Value, factor: Value, sign: Value) -> Value:
    """The transposed inverse times a number per matrix; zeros for a singular matrix, whose `sign` is 0."""
    shape = packed.type.shape
    inverse = transposed(b, _inverse(b, packed, order))
    wide, regular = (
        b.broadcast(b.reshape(v, shape[:-2]), shape, range(len(shape) - 2)) for v in (factor, b.ne(sign, 0))
    )
    return b.select(regular, b.mul(inverse, wide), b.full_like(inverse, 0))


@operator("_linalg_inverse", aliases=("_npi_inv", "linalg_inverse"))
class Inverse(_MayFail):
    """The inverse of a matrix.

        output . A = 1

    Args:
        A: (..., N, N).
    Returns:
        (..., N, N).
    Example:
        >>> nd.linalg.inverse(nd.array([[2, 0], [0, 4]])).asnumpy()
        array([[0.5 , 0.  ],
               [0.  , 0.25]], dtype=float32)
    """

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        (x,) = inputs
        self.check_matrices(x, square=1)
        return _inverse(b, *b.lu(x))

    def _reason(self) -> str:
        return "a matrix of A is singular"


@operator("_linalg_gelqf", aliases=("linalg_gelqf",))
class Gelqf(Matrices):
    """The LQ factorization of a matrix.

        A = L . Q, with a lower triangular L and orthonormal rows of Q

    Args:
        A: (..., M, N) with M <= N.
    Returns:
        output0: Q, (..., M, N).
        output1: L, (..., M, M).
    Example:
        >>> [a.asnumpy().tolist() for a in nd.linalg.gelqf(nd.array([[0, 2]]))]
        [[[0.0, -1.0]], [[-2.0]]]
    """

    outputs = ("output0", "output1")

    def complete(self, inputs: list[PartialShape], outputs: list[PartialShape]) -> None:
        inputs[0] = outputs[0] = shape = unify(inputs[0], outputs[0])
        if shape is not None and len(shape) > 1:
            unify_at(outputs, 1, (*shape[:-1], shape[-2]))

    def decompose(self, b: MxBuilder, *inputs: Value) -> tuple[Value, Value]:
        (x,) = inputs
        self.check_matrices(x)
        if x.type.shape[-2] > x.type.shape[-1]:
            raise ValueError(f"A has shape {x.type.shape}: requires at least as many columns as rows")
        factor, q = b.lq(x)
        return q, factor


@operator("_linalg_syevd")
class Syevd(Matrices):
    """The eigenvalues and eigenvectors of a symmetric matrix; reads only the lower triangle.

        A = U^T . diag(values) . U

    Args:
        A: (..., N, N).
    Returns:
        output0: U, (..., N, N), one eigenvector per row; the element with the largest magnitude is positive.
        output1: The eigenvalues in ascending order, (..., N).
    Example:
        >>> nd.linalg.syevd(nd.array([[3, 0], [0, 2]]))[1].asnumpy()
        array([2., 3.], dtype=float32)
    """

    outputs = ("output0", "output1")

    def decompose(self, b: MxBuilder, *inputs: Value) -> tuple[Value, Value]:
        (x,) = inputs
        self.check_matrices(x, square=1)
        values, vectors = b.symmetric_eigen(_symmetric(b, x))
        batch = x.type.rank - 2
        order = b.argsort(values, batch)
        values = b.take_along(values, order, batch)
        vectors = b.gather(vectors, b.expand_dims(order, -1), (batch,), batch)
        return self._signed(b, vectors), values

    def _signed(self, b: MxBuilder, vectors: Value) -> Value:
        last = vectors.type.rank - 1
        size = b.abs(vectors)
        limit = b.mul(b.max(size, (last,), keepdims=True), 1 - 1e-5)  # elements equal up to rounding
        first = b.arg_reduce("max", b.cast(b.ge(size, b.broadcast_to(limit, size.type.shape)), DType.I32), last)
        leader = b.gather(vectors, b.expand_dims(first, -1), (last,), last)
        spread = b.broadcast(leader, vectors.type.shape, range(last))
        return b.select(b.lt(spread, 0), b.neg(vectors), vectors)


# -- determinants


def _factored(b: MxBuilder, x: Value) -> tuple[Value, Value, Value, Value]:
    """The diagonal of U, the sign of the permutation, and LU's results."""
    packed, order = b.lu(x)
    n, rank = x.type.shape[-1], x.type.rank
    first, second = (b.broadcast(order, x.type.shape, (*range(rank - 2), rank - 2 + k)) for k in range(2))
    earlier = b.lt(*(b.iota(x.type.shape, DType.I32, rank - 2 + k) for k in range(2)))
    inversions = b.sum(b.cast(b.and_(earlier, b.gt(first, second)), DType.I32), (rank - 2, rank - 1))
    sign = b.cast(b.sub(1, b.mul(b.mod(inversions, 2), 2)), x.type.dtype)
    return diagonal_of(b, packed, n, 0), sign, packed, order


@operator("_linalg_det", aliases=("_npi_det", "linalg_det"))
class Det(Matrices):
    """The determinant of a matrix.

    Args:
        A: (..., N, N).
    Returns:
        output0: (...,); (1,) for one matrix.
    Example:
        >>> nd.linalg.det(nd.array([[2, 0], [0, 4]])).asnumpy()
        array([8.], dtype=float32)
    """

    outputs = ("output0", "output1", "output2")
    hidden = 2

    def decompose(self, b: MxBuilder, *inputs: Value) -> tuple[Value, ...]:
        (x,) = inputs
        self.check_matrices(x, square=1)
        diagonal, sign, packed, order = _factored(b, x)
        det = b.mul(sign, b.prod(diagonal, (diagonal.type.rank - 1,)))
        return not_scalar(b, det), packed, order

    def gradient(  # type: ignore[override]
        self, b: MxBuilder, operands: object, results: Sequence[Value], cotangents: Sequence[Value]
    ) -> list[Value]:
        """det A^-T; 0 if the determinant is 0."""
        det, packed, order = results
        return [_times_inverse(b, packed, order, b.mul(cotangents[0], det), det)]


@operator("_linalg_slogdet", aliases=("_npi_slogdet", "linalg_slogdet"))
class SLogDet(Matrices):
    """The sign of the determinant of a matrix and the logarithm of its magnitude; 0 and -inf for a singular one.

    Args:
        A: (..., N, N).
    Returns:
        output0: The sign, (...,).
        output1: The logarithm, (...,).
    Example:
        >>> [a.asnumpy().tolist() for a in nd.linalg.slogdet(nd.array([[-1, 0], [0, 1]]))]
        [[-1.0], [0.0]]
    """

    outputs = ("output0", "output1", "output2", "output3")
    hidden = 2

    def decompose(self, b: MxBuilder, *inputs: Value) -> tuple[Value, ...]:
        (x,) = inputs
        self.check_matrices(x, square=1)
        diagonal, sign, packed, order = _factored(b, x)
        last = (diagonal.type.rank - 1,)
        sign = b.mul(sign, b.prod(b.sign(diagonal), last))
        size = b.sum(b.log(b.abs(diagonal)), last)
        return not_scalar(b, sign), not_scalar(b, size), packed, order

    def gradient(  # type: ignore[override]
        self, b: MxBuilder, operands: object, results: Sequence[Value], cotangents: Sequence[Value]
    ) -> list[Value]:
        """A^-T; 0 if the determinant is 0."""
        sign, _, packed, order = results
        return [_times_inverse(b, packed, order, cotangents[1], sign)]
