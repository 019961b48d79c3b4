"""Functions that `mx.np` and `mx.np.linalg` have in MXNet 2 and MXNet 1.9.1 lacks; see `numpy_functions.py`.

Most are names of the array API standard, which NumPy 2 has too.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from . import numpy_functions as base
from .numpy_functions import Operators
from .numpy_functions import public as _public_in
from .numpy_linalg_functions import norm
from .numpy_selection_functions import percentile, unique

_public, _public_linalg = _public_in(""), _public_in("linalg")


@_public
def concat(F: Operators, seq: Any, axis: int | None = 0, out: Any = None) -> Any:
    """Joins arrays along an axis; None joins the flattened arrays."""
    return base.concatenate(F, seq, axis, out)


@_public
def median(
    F: Operators, a: Any, axis: Any = None, out: Any = None, overwrite_input: Any = None, keepdims: bool = False
) -> Any:
    """The median over axes."""
    return percentile(F, a, 50, axis, out, overwrite_input, "midpoint", keepdims)


@_public
def tri(F: Operators, N: int, M: Any = None, k: int = 0, dtype: Any = None, ctx: Any = None) -> Any:
    """A matrix with ones on and below its k-th diagonal, of dtype float32 by default."""
    placed = {} if ctx is None else {"ctx": str(ctx)}
    shape = (N, N if M is None else M)
    return F("_npi_tril")(F("_npi_ones")(shape=shape, dtype="float32" if dtype is None else dtype, **placed), k=k)


class UniqueAll(NamedTuple):
    """The result of `unique_all`."""

    values: Any
    indices: Any
    inverse_indices: Any
    counts: Any


class UniqueCounts(NamedTuple):
    """The result of `unique_counts`."""

    values: Any
    counts: Any


class UniqueInverse(NamedTuple):
    """The result of `unique_inverse`."""

    values: Any
    inverse_indices: Any


@_public
def unique_all(F: Operators, x: Any) -> Any:
    """The different elements in rising order, their first positions, the position of each element's value among them,
    and how often each occurs."""
    return UniqueAll(*unique(F, x, True, True, True))


@_public
def unique_counts(F: Operators, x: Any) -> Any:
    """The different elements in rising order, and how often each occurs."""
    return UniqueCounts(*unique(F, x, return_counts=True))


@_public
def unique_inverse(F: Operators, x: Any) -> Any:
    """The different elements in rising order, and the position of each element's value among them."""
    return UniqueInverse(*unique(F, x, return_inverse=True))


@_public
def unique_values(F: Operators, x: Any) -> Any:
    """The different elements in rising order."""
    return unique(F, x)


@_public
def matrix_transpose(F: Operators, x: Any) -> Any:
    """Each matrix in the last two axes transposed."""
    if hasattr(x, "ndim") and x.ndim < 2:
        raise ValueError("matrix_transpose requires an array of at least two axes")
    return F("SwapAxis")(x, dim1=-2, dim2=-1)


@_public
def vecdot(F: Operators, a: Any, b: Any, axis: int = -1) -> Any:
    """The sum of products of two arrays along an axis."""
    axis = -1 if axis is None else axis
    return F("_np_sum")(F("_npi_multiply")(a, b), axis=(axis,))


@_public_linalg
def cross(F: Operators, a: Any, b: Any, axis: int = -1) -> Any:
    """Cross products of vectors along an axis."""
    return F("_npi_cross")(a, b, axisa=axis, axisb=axis, axisc=axis)


@_public_linalg
def diagonal(F: Operators, a: Any, offset: int = 0) -> Any:
    """The diagonals of the matrices in the last two axes."""
    return F("_np_diagonal")(a, offset=offset, axis1=-2, axis2=-1)


@_public_linalg
def trace(F: Operators, a: Any, offset: int = 0) -> Any:
    """The sums of the diagonals of the matrices in the last two axes."""
    return F("_np_sum")(diagonal(F, a, offset), axis=(-1,))


@_public_linalg
def matrix_norm(
    F: Operators, x: Any, ord: Any = "fro", axis: tuple[int, int] = (-2, -1), keepdims: bool = False
) -> Any:
    """The norms of matrices in two axes; see `norm`."""
    return norm(F, x, ord, axis, keepdims)


@_public_linalg
def vector_norm(F: Operators, x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """The norms of vectors along an axis, or of all elements; see `norm`."""
    if axis is None and not keepdims:
        return norm(F, base.ravel(F, x), ord, 0)
    return norm(F, x, ord, axis, keepdims)


@_public_linalg
def outer(F: Operators, a: Any, b: Any) -> Any:
    """The products of all pairs of elements of the flattened arrays."""
    return base.outer(F, a, b)


@_public_linalg
def tensordot(F: Operators, a: Any, b: Any, axes: Any = 2) -> Any:
    """A sum of products over the last axes of `a` and the first ones of `b`, or over pairs of axes."""
    return base.tensordot(F, a, b, axes)


@_public_linalg
def svdvals(F: Operators, a: Any) -> Any:
    """The singular values of matrices in falling order."""
    wide = a if a.shape[-2] <= a.shape[-1] else F("SwapAxis")(a, dim1=-2, dim2=-1)
    return F("_npi_svd")(wide)[1]


for _function in (matrix_transpose, vecdot):
    _public_linalg(_function)


@_public_in("random")
def laplace(
    F: Operators,
    loc: Any = 0.0,
    scale: Any = 1.0,
    size: Any = None,
    dtype: Any = None,
    ctx: Any = None,
    out: Any = None,
) -> Any:
    """Numbers of Laplace's distribution, with mean `loc`: the difference of two exponential ones, times `scale`."""
    from .numpy_random_functions import exponential

    both = [exponential(F, 1.0, _broadcast_size(size, loc, scale), ctx) for _ in range(2)]
    result = (both[0] - both[1]) * scale + loc
    result = result if dtype is None else result.astype(dtype)
    return result if out is None else result.copyto(out)


@_public_in("random")
def f(F: Operators, dfnum: Any, dfden: Any, size: Any = None, ctx: Any = None) -> Any:
    """Numbers of Fisher's F distribution: quotients of two chi-square numbers divided by their degrees of freedom."""
    from .numpy_random_functions import chisquare

    size = _broadcast_size(size, dfnum, dfden)
    return (chisquare(F, dfnum, size, ctx=ctx) / dfnum) / (chisquare(F, dfden, size, ctx=ctx) / dfden)


def _broadcast_size(size: Any, *parameters: Any) -> Any:
    """The shape of a draw: `size`, or the shape to which its parameters broadcast."""
    import numpy as np

    shapes = [p.shape for p in parameters if hasattr(p, "shape")]
    return np.broadcast_shapes(*shapes) if size is None and shapes else size


@_public_in("npx")
def log_sigmoid(F: Operators, x: Any) -> Any:
    """The logarithm of the logistic function: -log(1 + exp(-x))."""
    return F("_npi_negative")(F("Activation")(F("_npi_negative")(x), act_type="softrelu"))


@_public_in("npx")
def mish(F: Operators, x: Any) -> Any:
    """x * tanh(log(1 + exp(x)))."""
    return F("_npi_multiply")(x, F("_npi_tanh")(F("Activation")(x, act_type="softrelu")))


@_public_in("npx")
def group_norm(
    F: Operators,
    data: Any,
    gamma: Any,
    beta: Any,
    num_groups: int = 1,
    eps: float = 1e-3,
    output_mean_var: bool = False,
) -> Any:
    """Normalises groups of channels, the second axis; see `nd.GroupNorm`, whose `eps` is smaller by default."""
    return F("GroupNorm")(data, gamma, beta, num_groups=num_groups, eps=eps, output_mean_var=output_mean_var)
