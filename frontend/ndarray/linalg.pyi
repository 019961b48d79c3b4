"""`nd.linalg`: linear algebra on the last two axes, such as `nd.linalg.potrf`. Written by tools/make_stubs.py: not to be changed by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..context import Context
from .ndarray import NDArray


def det(A: NDArray | None = ..., out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """The determinant of a matrix."""
def extractdiag(A: NDArray | None = ..., offset: int = ..., out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """The diagonal of matrices."""
def extracttrian(A: NDArray | None = ..., offset: int = ..., lower: bool = ..., out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """A triangle of matrices, row by row along one axis."""
def gelqf(A: NDArray | None = ..., out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> Any: """The LQ factorization of a matrix."""
def gemm(A: NDArray | None = ..., B: NDArray | None = ..., C: NDArray | None = ..., transpose_a: bool = ..., transpose_b: bool = ..., alpha: float = ..., beta: float = ..., axis: int = ..., out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """A matrix product plus a matrix."""
def gemm2(A: NDArray | None = ..., B: NDArray | None = ..., transpose_a: bool = ..., transpose_b: bool = ..., alpha: float = ..., axis: int = ..., out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """A matrix product."""
def inverse(A: NDArray | None = ..., out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """The inverse of a matrix."""
def makediag(A: NDArray | None = ..., offset: int = ..., out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """Matrices that are 0 except on one diagonal: the inverse of extractdiag."""
def maketrian(A: NDArray | None = ..., offset: int = ..., lower: bool = ..., out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """Matrices that are 0 except in a triangle: the inverse of extracttrian."""
def potrf(A: NDArray | None = ..., lower: bool = ..., out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """The Cholesky factor of a symmetric positive definite matrix."""
def potri(A: NDArray | None = ..., lower: bool = ..., out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """The inverse of a matrix, computed from its Cholesky factor."""
def slogdet(A: NDArray | None = ..., out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> Any: """The sign of the determinant of a matrix and the logarithm of its magnitude; 0 and -inf for a singular one."""
def sumlogdiag(A: NDArray | None = ..., out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """The sum of the logarithms of the diagonal. For a Cholesky factor it is half the logarithm of the determinant."""
def syevd(A: NDArray | None = ..., out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> Any: """The eigenvalues and eigenvectors of a symmetric matrix; reads only the lower triangle."""
def syrk(A: NDArray | None = ..., transpose: bool = ..., alpha: float = ..., out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """The product of a matrix with its transpose."""
def trmm(A: NDArray | None = ..., B: NDArray | None = ..., transpose: bool = ..., rightside: bool = ..., lower: bool = ..., alpha: float = ..., out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """The product of a triangular matrix with a matrix."""
def trsm(A: NDArray | None = ..., B: NDArray | None = ..., transpose: bool = ..., rightside: bool = ..., lower: bool = ..., alpha: float = ..., out: NDArray | Sequence[NDArray] | None = ..., name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: """Solves a triangular system."""
