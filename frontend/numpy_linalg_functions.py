"""The functions of `mx.np.linalg` for arrays and for symbols; see `numpy_functions.py`."""

from __future__ import annotations

from typing import Any

import numpy as onp

from .base import numeric_types
from .numpy_functions import Operators, public


@public("linalg")
def norm(F: Operators, x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """The norm of vectors or matrices.

    Args:
        x: The array.
        ord: The order: a number, inf, -inf, "fro" or "nuc"; the 2-norm of all elements by default.
        axis: The axis of vectors, or the two axes of matrices; by default all elements.
        keepdims: True to keep the reduced axes with extent 1.
    """
    if axis is None and ord is None:
        return F("_npi_norm")(x, ord=2.0, axis=None, keepdims=keepdims, flag=-2)
    if axis is not None and not isinstance(axis, int | tuple):
        raise TypeError("'axis' must be None, an integer or a tuple of integers.")
    axes = (axis,) if isinstance(axis, int) else axis
    infinite = ord in ("inf", "-inf", onp.inf, -onp.inf)
    negative = infinite and str(ord).startswith("-")
    if axes is None and hasattr(x, "ndim") and ord not in ("inf", "-inf"):  # as text they are norms of all elements
        axes = tuple(range(x.ndim))
    if axes is not None and len(axes) == 2:
        return _of_matrices(F, x, ord, axes, keepdims, infinite, negative)
    if infinite:
        size = F("_npi_absolute")(x)
        return F("_np_min" if negative else "_np_max")(size, axis=axes, keepdims=keepdims)
    if axes is not None and ord in ("nuc", "fro", "f"):
        raise ValueError("Invalid norm order for vectors.")
    if ord == "nuc":
        return F("_npi_norm")(x, ord=2.0, axis=None, keepdims=keepdims, flag=2)
    flag = 1 if ord is None or ord in ("fro", "f") else -1
    order: Any = 2.0 if flag == 1 else ord
    return F("_npi_norm")(x, ord=float(order), axis=axes, keepdims=keepdims, flag=flag)


def _of_matrices(F: Operators, x: Any, ord: Any, axes: Any, keepdims: bool, infinite: bool, negative: bool) -> Any:
    if ord is None or ord in ("fro", "f"):
        return F("_npi_norm")(x, ord=2.0, axis=axes, keepdims=keepdims, flag=1)
    if ord == "nuc":
        return F("_npi_norm")(x, ord=2.0, axis=axes, keepdims=keepdims, flag=2)
    if ord in (2, -2):
        return F("_npi_norm")(x, ord=float(ord), axis=axes, keepdims=keepdims, flag=0)
    if not infinite and ord not in (1, -1):
        raise ValueError("Invalid norm order for matrices.")
    rank = x.ndim if hasattr(x, "ndim") else 0
    row, column = (a % rank if rank else a for a in axes)
    first, second = (column, row) if infinite else (row, column)
    sums = F("_np_sum")(F("_npi_absolute")(x), axis=(first,), keepdims=True)
    least = negative if infinite else ord == -1
    result = F("_np_min" if least else "_np_max")(sums, axis=(second,), keepdims=True)
    return result if keepdims else F("_np_squeeze")(result, axis=(row, column))


@public("linalg")
def svd(F: Operators, a: Any) -> Any:
    """The singular value decomposition of matrices with at least as many columns as rows: a = UT diag(L) V."""
    return tuple(F("_npi_svd")(a))


@public("linalg")
def cholesky(F: Operators, a: Any) -> Any:
    """The lower Cholesky factor of symmetric positive definite matrices."""
    return F("_npi_cholesky")(a)


@public("linalg")
def inv(F: Operators, a: Any) -> Any:
    """The inverse of square matrices."""
    return F("_npi_inv")(a)


def _scalar(F: Operators, a: Any, result: Any) -> Any:
    """A result for each matrix; of one matrix it has no axes."""
    return F("_np_reshape")(result, newshape=()) if getattr(a, "ndim", 0) == 2 and result.ndim else result


@public("linalg")
def det(F: Operators, a: Any) -> Any:
    """The determinant of square matrices."""
    return _scalar(F, a, F("_npi_det")(a))


@public("linalg")
def slogdet(F: Operators, a: Any) -> Any:
    """The sign of the determinant of square matrices, and the logarithm of its magnitude."""
    return tuple([_scalar(F, a, r) for r in F("_npi_slogdet")(a)])


@public("linalg")
def solve(F: Operators, a: Any, b: Any) -> Any:
    """The solution x of a x = b."""
    return F("_npi_solve")(a, b)


@public("linalg")
def tensorinv(F: Operators, a: Any, ind: int = 2) -> Any:
    """The inverse of an array as a linear map between its first `ind` axes and the others."""
    return F("_npi_tensorinv")(a, ind=ind)


@public("linalg")
def tensorsolve(F: Operators, a: Any, b: Any, axes: Any = None) -> Any:
    """The solution x of a x = b, with the sum over all axes of x."""
    return F("_npi_tensorsolve")(a, b, a_axes=tuple(axes or ()))


@public("linalg")
def pinv(F: Operators, a: Any, rcond: Any = 1e-15, hermitian: bool = False) -> Any:
    """The pseudo-inverse; singular values of at most rcond times the largest one count as zero."""
    if hermitian is True:
        raise NotImplementedError("hermitian is not supported yet...")
    if isinstance(rcond, numeric_types):
        return F("_npi_pinv_scalar_rcond")(a, rcond=float(rcond), hermitian=False)
    return F("_npi_pinv")(a, rcond, hermitian=False)


@public("linalg")
def eigvals(F: Operators, a: Any) -> Any:
    """The eigenvalues of square matrices; the real parts, as in MXNet."""
    return F("_npi_eigvals")(a)


@public("linalg")
def eig(F: Operators, a: Any) -> Any:
    """The eigenvalues of square matrices, and the eigenvectors as columns; the real parts, as in MXNet."""
    return tuple(F("_npi_eig")(a))


@public("linalg")
def eigvalsh(F: Operators, a: Any, UPLO: str = "L") -> Any:
    """The eigenvalues of symmetric matrices in rising order."""
    return F("_npi_eigvalsh")(a, UPLO=UPLO)


@public("linalg")
def eigh(F: Operators, a: Any, UPLO: str = "L") -> Any:
    """The eigenvalues of symmetric matrices in rising order, and the eigenvectors as columns."""
    return tuple(F("_npi_eigh")(a, UPLO=UPLO))
