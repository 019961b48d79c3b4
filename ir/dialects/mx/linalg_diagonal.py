"""Operators on diagonals and triangles of matrices, and the base class of operators on matrices."""

from __future__ import annotations

from math import isqrt
from typing import TYPE_CHECKING

import numpy as np

from ...graph import Value
from ...types import DType
from .operator import Operator, operator
from .parameters import Bool, Int
from .shapes import PartialShape, unify_at

if TYPE_CHECKING:
    from .builder import MxBuilder


class Matrices(Operator):
    """Base class: checks of the operands."""

    inputs = ("A",)

    def check_matrices(self, *values: Value, square: int = 0) -> None:
        """TypeError or ValueError unless all are matrices of floats and the first `square` of them are square."""
        for name, value in zip(self.input_names(), values, strict=False):
            if value.type.dtype not in (DType.F32, DType.F64):
                raise TypeError(f"{name} is {value.type.dtype.full_name}: only float32 and float64 are supported")
            if value.type.rank < 2:
                raise ValueError(f"{name} has shape {value.type.shape}: matrices require at least two axes")
        for name, value in list(zip(self.input_names(), values, strict=False))[:square]:
            if value.type.shape[-1] != value.type.shape[-2]:
                raise ValueError(f"{name} has shape {value.type.shape}: the matrices must be square")

    def check_same_batch(self, *values: Value) -> None:
        shapes = [v.type.shape for v in values]
        if len({s[:-2] for s in shapes}) > 1:
            raise ValueError(f"shapes {', '.join(map(str, shapes))} must agree in all axes except rows and columns")


def diagonal_of(b: MxBuilder, x: Value, count: int, offset: int) -> Value:
    batch = x.type.rank - 2
    steps = np.arange(count)
    at = np.stack([steps + max(-offset, 0), steps + max(offset, 0)], -1).astype(np.int64)
    return _at(b, x, at, batch)


def _at(b: MxBuilder, x: Value, places: np.ndarray, batch: int) -> Value:
    """The elements of each matrix at positions (row, column)."""
    elements = b.gather(x, b.constant(places), (batch, batch + 1))
    return b.transpose(elements, (*range(1, batch + 1), 0))


def not_scalar(b: MxBuilder, x: Value) -> Value:
    return x if x.type.rank else b.reshape(x, (1,))


@operator("_linalg_sumlogdiag", aliases=("linalg_sumlogdiag",))
class SumLogDiag(Matrices):
    """The sum of the logarithms of the diagonal. For a Cholesky factor it is half the logarithm of the determinant.

        output = sum_i log(A[i, i])

    Args:
        A: (..., N, N).
    Returns:
        (...,); (1,) for one matrix.
    Example:
        >>> nd.linalg.sumlogdiag(nd.array([[1, 0], [0, 1]])).asnumpy()
        array([0.], dtype=float32)
    """

    def complete(self, inputs: list[PartialShape], outputs: list[PartialShape]) -> None:
        if inputs[0] is not None:
            unify_at(outputs, 0, inputs[0][:-2] or (1,))

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        (x,) = inputs
        self.check_matrices(x, square=1)
        diagonal = diagonal_of(b, x, x.type.shape[-1], 0)
        return not_scalar(b, b.sum(b.log(diagonal), (diagonal.type.rank - 1,)))


def _triangle_places(size: int, offset: int, lower: bool) -> np.ndarray:
    """(row, column) of a triangle's elements: row by row for a lower one, column by column for an upper one."""
    rows, columns = np.tril_indices(size - abs(offset))
    if offset < 0 or (offset == 0 and lower):
        return np.stack([rows - offset, columns], -1)
    return np.stack([columns, rows + offset], -1)


class _OnDiagonal(Matrices):
    """Shared arguments of several operators.

    Args:
        A: (..., N, N).
        offset: The diagonal: 0 for the main one, positive for upper ones, negative for lower ones.
    """

    offset: Int = 0

    def _left(self, x: Value) -> int:
        """The length of the diagonal."""
        left = x.type.shape[-1] - abs(self.offset)
        if left <= 0:
            raise ValueError(f"offset={self.offset} is out of range for matrices with {x.type.shape[-1]} rows")
        return left


def _placed(b: MxBuilder, x: Value, places: np.ndarray, size: int) -> Value:
    """Zero matrices with the elements of x's last axis at these positions."""
    batch = x.type.rank - 1
    zeros = b.full((*x.type.shape[:-1], size, size), 0, x.type.dtype)
    moved = b.transpose(x, (batch, *range(batch)))
    return b.scatter(zeros, b.constant(places.astype(np.int64)), moved, "set", (batch, batch + 1))


def _check_vectors(op: Operator, x: Value) -> None:
    if x.type.dtype not in (DType.F32, DType.F64):
        raise TypeError(f"A is {x.type.dtype.full_name}: only float32 and float64 are supported")
    if x.type.rank < 1:
        raise ValueError(f"{op.mx_name()} requires at least one axis")


@operator("_linalg_extractdiag", aliases=("linalg_extractdiag",))
class ExtractDiag(_OnDiagonal):
    """The diagonal of matrices.

    Returns:
        (..., N - |offset|).
    Example:
        >>> nd.linalg.extractdiag(nd.array([[1, 2], [3, 4]])).asnumpy()
        array([1., 4.], dtype=float32)
    """

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        (x,) = inputs
        self.check_matrices(x, square=1)
        return diagonal_of(b, x, self._left(x), self.offset)


@operator("_linalg_makediag", aliases=("linalg_makediag",))
class MakeDiag(Matrices):
    """Matrices that are 0 except on one diagonal: the inverse of extractdiag.

    Args:
        A: (..., n), the elements of the diagonal.
        offset: The diagonal: 0 for the main one, positive for upper ones, negative for lower ones.
    Returns:
        (..., n + |offset|, n + |offset|).
    Example:
        >>> nd.linalg.makediag(nd.array([1, 2])).asnumpy()
        array([[1., 0.],
               [0., 2.]], dtype=float32)
    """

    offset: Int = 0

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        (x,) = inputs
        _check_vectors(self, x)
        steps = np.arange(x.type.shape[-1])
        places = np.stack([steps + max(-self.offset, 0), steps + max(self.offset, 0)], -1)
        return _placed(b, x, places, len(steps) + abs(self.offset))


@operator("_linalg_extracttrian", aliases=("linalg_extracttrian",))
class ExtractTrian(_OnDiagonal):
    """A triangle of matrices, row by row along one axis.

    Args:
        lower: False for the upper triangle; ignored for a nonzero offset, whose sign selects the triangle.
    Returns:
        (..., elements of the triangle).
    Example:
        >>> nd.linalg.extracttrian(nd.array([[1, 2], [3, 4]])).asnumpy()
        array([1., 3., 4.], dtype=float32)
    """

    lower: Bool = True

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        (x,) = inputs
        self.check_matrices(x, square=1)
        self._left(x)
        places = _triangle_places(x.type.shape[-1], self.offset, self.lower)
        return _at(b, x, places.astype(np.int64), x.type.rank - 2)


@operator("_linalg_maketrian", aliases=("linalg_maketrian",))
class MakeTrian(Matrices):
    """Matrices that are 0 except in a triangle: the inverse of extracttrian.

    Args:
        A: (..., n), the elements row by row.
        offset: The diagonal at which the triangle starts.
        lower: False for the upper triangle; ignored for a nonzero offset, whose sign selects the triangle.
    Returns:
        (..., N, N).
    Example:
        >>> nd.linalg.maketrian(nd.array([1, 2, 3])).asnumpy()
        array([[1., 0.],
               [2., 3.]], dtype=float32)
    """

    offset: Int = 0
    lower: Bool = True

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        (x,) = inputs
        _check_vectors(self, x)
        count = x.type.shape[-1]
        rows = (isqrt(8 * count + 1) - 1) // 2
        if rows * (rows + 1) // 2 != count:
            raise ValueError(f"A has shape {x.type.shape}: no triangle has {count} elements")
        size = rows + abs(self.offset)
        return _placed(b, x, _triangle_places(size, self.offset, self.lower), size)
