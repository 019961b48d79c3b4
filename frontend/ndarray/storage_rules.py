"""Rules for operators that support sparse operands.

A rule takes the operator and its arrays, and returns the result, or None for operands that it does not support.
"""

from __future__ import annotations

import operator as python
from collections.abc import Callable
from functools import cache, reduce
from typing import Any

import numpy as np

from ..base import MXNetError
from .casting import cast_storage, csr_at, densified, row_sparse_of
from .creation import array as dense_array
from .eager import apply_bound, bound_of
from .ndarray import NDArray
from .operator_function import BoundOperator
from .sparse import add, zeros
from .sparse_arrays import CSRNDArray, RowSparseNDArray
from .sparse_dot import dot
from .sparse_rows import rows_of

Rule = Callable[[Any, list[NDArray]], Any]


@cache
def _bound(operator: Any) -> BoundOperator:
    return bound_of(operator)


def _dense(operator: Any, *arrays: NDArray) -> NDArray:
    """Apply the operator to dense arrays; a first array without elements is returned itself."""
    if not arrays[0].size:
        return arrays[0]
    return apply_bound(_bound(operator), arrays)


def _on_stored(operator: Any, arrays: list[NDArray]) -> Any:
    """Apply the operator to the stored elements only, since it keeps zeros zero."""
    (x,) = arrays
    data, *indices = x._parts  # type: ignore[attr-defined]
    return x._with_parts(_dense(operator, data), *indices)  # type: ignore[attr-defined]


def _on_stored_if(keeps_zero: Callable[[Any], bool]) -> Rule:
    """`_on_stored` if the operator keeps zeros zero with its parameters."""

    def rule(operator: Any, arrays: list[NDArray]) -> Any:
        return _on_stored(operator, arrays) if keeps_zero(operator) else None

    return rule


def _clip(operator: Any, arrays: list[NDArray]) -> Any:
    if operator.a_min > 0 or operator.a_max < 0:
        raise MXNetError(f"clip: the range of a sparse array must contain 0, not {operator.a_min}..{operator.a_max}")
    return _on_stored(operator, arrays)


def _zeros_like(operator: Any, arrays: list[NDArray]) -> Any:
    (x,) = arrays
    return zeros(x.stype, x.shape, x.context, x.dtype)


# Two operands.


def _united(operator: Any, arrays: list[NDArray]) -> Any:
    """Two arrays of the same sparse type: the result stores the union of their stored elements."""
    x, y = arrays
    if x._shape != y._shape or x.stype != y.stype:
        return None
    keys_x, keys_y = _keys(x), _keys(y)
    keys = np.union1d(keys_x, keys_y)
    data = _dense(operator, _spread(x, keys_x, keys), _spread(y, keys_y, keys)).asnumpy()
    if isinstance(x, RowSparseNDArray):
        return row_sparse_of(data, keys, x._shape, x._context, x.dtype)
    rows, columns = np.divmod(keys, x._shape[1])
    return csr_at(data, rows, columns, x._shape, x._context, x.dtype)


def _keys(x: Any) -> np.ndarray:
    """A number for the position of each stored element (csr) or row (row_sparse)."""
    indices = x._parts[1].asnumpy()
    return x._rows() * x._shape[1] + indices if isinstance(x, CSRNDArray) else indices


def _spread(x: Any, own: np.ndarray, keys: np.ndarray) -> NDArray:
    """The elements of x at the positions `keys`, with zeros where x stores none."""
    data = x._parts[0].asnumpy()
    spread = np.zeros((len(keys), *data.shape[1:]), data.dtype)
    spread[np.searchsorted(keys, own)] = data
    return dense_array(spread, x._context, x.dtype)


def _product(operator: Any, arrays: list[NDArray]) -> Any:
    """The stored elements of one operand times the elements of the other at the same positions."""
    x, y = arrays
    if x._is_sparse and y._is_sparse:
        return _united(operator, arrays)
    return _at_stored(operator, arrays, x if x._is_sparse else y)


def _divided_rows(operator: Any, arrays: list[NDArray]) -> Any:
    """The stored rows of a row-sparse array, divided by the rows of an array of the same shape."""
    x, y = arrays
    if not isinstance(x, RowSparseNDArray):
        return None
    if x._shape != y._shape:
        raise MXNetError(f"{operator.mx_name()}: incompatible shapes {x._shape} and {y._shape}")
    return _at_stored(operator, arrays, x)


def _csr_with_broadcast(operator: Any, arrays: list[NDArray]) -> Any:
    """A csr matrix multiplied or divided by a dense array that broadcasts to its shape."""
    x, y = arrays
    if not isinstance(x, CSRNDArray) or y._is_sparse or y.ndim > 2:
        return None
    if x._shape == y._shape and operator.mx_name() == "broadcast_div":
        return None  # 0 / 0 is not 0
    return _at_stored(operator, arrays, x)


def _at_stored(operator: Any, arrays: list[NDArray], sparse: Any) -> Any:
    """Apply the operator at the positions that `sparse`, one of the two operands, stores."""
    data, *indices = sparse._parts
    if isinstance(sparse, CSRNDArray):
        places: Any = (sparse._rows(), indices[0].asnumpy())
    else:
        places = indices[0].asnumpy()
    operands = [data if a is sparse else _elements(operator, a, sparse, places) for a in arrays]
    return sparse._with_parts(_dense(operator, *operands), *indices) if data.size else sparse.copy()


def _elements(operator: Any, dense: NDArray, sparse: NDArray, places: Any) -> NDArray:
    """The elements of a dense operand, broadcast to the sparse operand's shape, at these positions."""
    try:
        values = np.broadcast_to(dense.asnumpy(), sparse._shape)[places]
    except ValueError:
        raise MXNetError(
            f"{operator.mx_name()}: shapes {sparse._shape} and {dense._shape} cannot be broadcast together"
        ) from None
    return dense_array(values, sparse._context, dense.dtype)


def _sum_of_rows(operator: Any, arrays: list[NDArray]) -> Any:
    """The sum of row-sparse arrays."""
    if not all(isinstance(a, RowSparseNDArray) for a in arrays):
        return None
    return reduce(add, arrays[1:], arrays[0].copy())


# Shapes.


def _slice(operator: Any, arrays: list[NDArray]) -> Any:
    (x,) = arrays
    if not isinstance(x, CSRNDArray) or operator.step:
        return None
    spans = [slice(start, stop) for start, stop, _ in operator.spans(x._shape)]
    return x._piece(*spans)


def _concat(operator: Any, arrays: list[NDArray]) -> Any:
    widths = {a._shape[1:] for a in arrays}
    if operator.dim != 0 or len(widths) != 1 or not all(isinstance(a, CSRNDArray) for a in arrays):
        return None
    parts: list[list[np.ndarray]] = [[p.asnumpy() for p in a._parts] for a in arrays]  # type: ignore[attr-defined]
    heights = np.cumsum([0, *(a._shape[0] for a in arrays)])
    rows = np.concatenate([a._rows() + start for a, start in zip(arrays, heights[:-1], strict=True)])  # type: ignore[attr-defined]
    data, columns = (np.concatenate([p[i] for p in parts]) for i in (0, 1))
    shape = (int(heights[-1]), *widths.pop())
    return csr_at(data, rows, columns, shape, arrays[0]._context, arrays[0].dtype)


def _take(operator: Any, arrays: list[NDArray]) -> Any:
    """The result is csr for a csr matrix, and dense for a row-sparse array."""
    table, indices = arrays
    if operator.axis != 0 or indices._is_sparse:
        return None
    if isinstance(table, RowSparseNDArray):
        return rows_of(table, _row_numbers(operator, indices, table, operator.mode))
    if isinstance(table, CSRNDArray) and operator.mode != "raise":
        return _csr_rows(table, _row_numbers(operator, indices, table, operator.mode))
    return None


def _embedding(operator: Any, arrays: list[NDArray]) -> Any:
    """Look up rows of a row-sparse weight. MXNetError for indices out of range."""
    indices, table = arrays
    if indices._is_sparse or not isinstance(table, RowSparseNDArray):
        return None
    return rows_of(table, _row_numbers(operator, indices, table, "raise"))


def _row_numbers(operator: Any, indices: NDArray, table: Any, mode: str) -> np.ndarray:
    """The row numbers. Numbers out of range are clipped or wrapped; in mode "raise" they raise MXNetError."""
    numbers, extent = indices.asnumpy().astype(np.int64), table._shape[0]
    if mode == "raise" and numbers.size and not 0 <= numbers.min() <= numbers.max() < extent:
        raise MXNetError(
            f"{operator.mx_name()}: the indices {numbers.min()}..{numbers.max()} are out of range for {extent} rows"
        )
    return numbers % extent if mode == "wrap" else np.clip(numbers, 0, extent - 1)


def _csr_rows(matrix: Any, numbers: np.ndarray) -> CSRNDArray:
    """The csr matrix of the rows with these numbers."""
    if numbers.ndim != 1:
        raise MXNetError(f"take: the indices into a csr matrix must have one axis, not the shape {numbers.shape}")
    data, columns, pointers = (p.asnumpy() for p in matrix._parts)
    counts = np.diff(pointers)[numbers]
    ends = np.cumsum(counts)
    places = np.arange(counts.sum()) + np.repeat(pointers[numbers] - (ends - counts), counts)
    rows = np.repeat(np.arange(len(numbers)), counts)
    shape = (len(numbers), matrix._shape[1])
    return csr_at(data[places], rows, columns[places], shape, matrix._context, matrix.dtype)


def _retain(operator: Any, arrays: list[NDArray]) -> Any:
    x, indices = arrays
    if not isinstance(x, RowSparseNDArray):
        raise MXNetError(f"_sparse_retain takes a row_sparse array, not {x.stype}")
    numbers = indices.asnumpy().astype(np.int64).reshape(-1)
    return row_sparse_of(rows_of(x, numbers).asnumpy(), numbers, x._shape, x._context, x.dtype)


# Reductions.


def _sum(operator: Any, arrays: list[NDArray]) -> Any:
    """The sum or mean of a csr matrix over rows or columns."""
    from ...ir.dialects.mx.reduce import reduced_axes

    (x,) = arrays
    if not isinstance(x, CSRNDArray):
        return None
    axes = reduced_axes(operator.axis, 2, operator.exclude)
    places = [x._rows(), x._parts[1].asnumpy()]
    data = x._parts[0].asnumpy()
    if len(axes) == 2:
        total = np.array([data.sum(dtype=np.float64)])
    else:
        kept = 1 - axes[0]
        total = np.bincount(places[kept], data, minlength=x._shape[kept])
    count = np.prod([x._shape[a] for a in axes]) if operator.mx_name() == "mean" else 1
    shape = tuple(1 if a in axes else n for a, n in enumerate(x._shape)) if operator.keepdims else total.shape
    return dense_array((total / count).reshape(shape), x._context, x.dtype)


def _norm(operator: Any, arrays: list[NDArray]) -> Any:
    """The norm of all elements, computed from the stored elements."""
    (x,) = arrays
    data = x._parts[0]  # type: ignore[attr-defined]
    if operator.axis is not None or operator.keepdims or not data.size:
        return None
    return _dense(operator, data)


def _square_sum(operator: Any, arrays: list[NDArray]) -> Any:
    """The sum of squares of each row of a row-sparse matrix, as a row-sparse column."""
    (x,) = arrays
    if not isinstance(x, RowSparseNDArray) or x.ndim != 2 or operator.axis != (1,) or not operator.keepdims:
        return None
    data, rows = x._parts
    return row_sparse_of(
        _dense(operator, data).asnumpy().reshape(-1, 1), rows.asnumpy(), (x._shape[0], 1), x._context, x.dtype
    )


def _cast_storage(operator: Any, arrays: list[NDArray]) -> Any:
    return cast_storage(arrays[0], operator.stype)


_KEEPS_ZERO = """abs arcsin arcsinh arctan arctanh cbrt ceil degrees expm1 fix floor log1p negative radians relu rint
round sign sin sinh sqrt square tan tanh trunc BlockGrad _copy make_loss _mul_scalar _div_scalar _scatter_plus_scalar
_scatter_minus_scalar _contrib_gradientmultiplier
_contrib_backward_gradientmultiplier _contrib_round_ste _contrib_sign_ste""".split()
_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "_equal_scalar": python.eq,
    "_not_equal_scalar": python.ne,
    "_greater_scalar": python.gt,
    "_greater_equal_scalar": python.ge,
    "_lesser_scalar": python.lt,
    "_lesser_equal_scalar": python.le,
}


def _comparison(compare: Callable[[Any, Any], bool]) -> Rule:
    return _on_stored_if(lambda operator: not compare(0, operator.scalar))


RULES: dict[str, Rule] = {
    **dict.fromkeys(_KEEPS_ZERO, _on_stored),
    **{name: _comparison(compare) for name, compare in _COMPARISONS.items()},
    **dict.fromkeys(("_plus_scalar", "_minus_scalar"), _on_stored_if(lambda operator: operator.scalar == 0)),
    **dict.fromkeys(
        ("elemwise_add", "elemwise_sub", "_maximum", "_minimum", "_hypot", "_grad_add"),
        lambda operator, arrays: _united(operator, arrays) if all(a._is_sparse for a in arrays) else None,
    ),
    "elemwise_mul": _product,
    "broadcast_mul": _csr_with_broadcast,
    "broadcast_div": _csr_with_broadcast,
    "add_n": _sum_of_rows,
    "clip": _clip,
    "zeros_like": _zeros_like,
    "_contrib_quadratic": lambda operator, arrays: (
        _on_stored(operator, arrays) if operator.c == 0 and isinstance(arrays[0], CSRNDArray) else None
    ),
    "slice": _slice,
    "Concat": _concat,
    "_scatter_elemwise_div": _divided_rows,
    "take": _take,
    "Embedding": _embedding,
    "_contrib_SparseEmbedding": _embedding,
    "_sparse_retain": _retain,
    "cast_storage": _cast_storage,
    "dot": dot,
    "sum": _sum,
    "mean": _sum,
    "norm": _norm,
    "_square_sum": _square_sum,
    "_identity_with_attr_like_rhs": lambda operator, arrays: cast_storage(densified(arrays[0]), arrays[1].stype),
}
"""The rules by operator name."""
