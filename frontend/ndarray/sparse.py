"""`mx.nd.sparse`: creates sparse arrays, and arithmetic that keeps them sparse."""

from __future__ import annotations

import array as native_array_module
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from ...ir.types import DType
from ..base import integer_types, integers, mx_real_t, numeric_types
from ..context import Context, current_context, usable
from ..memory import require_room
from .casting import csr_at
from .creation import array as dense_array
from .creation import zeros as dense_zeros
from .functions import attribute_finder
from .ndarray import NDArray
from .sparse_arithmetic import matched
from .sparse_arrays import BaseSparseNDArray, CSRNDArray, RowSparseNDArray, build, build_unchecked

__all__ = [
    "BaseSparseNDArray",
    "CSRNDArray",
    "RowSparseNDArray",
    "add",
    "array",
    "csr_matrix",
    "current_context",
    "divide",
    "empty",
    "multiply",
    "row_sparse_array",
    "subtract",
    "zeros",
]

_find, __dir__ = attribute_finder("sparse", globals())
native_array = native_array_module.array


def __getattr__(name: str) -> Any:
    return _find("retain" if name == "gs_retain" else name)


# Creation.


def _data_and_indices(
    data: Any, indices: tuple[Any, ...], ctx: Context | None, dtype: Any
) -> tuple[NDArray, tuple[NDArray, ...]]:
    """The stored elements in `dtype` (by default their own; float32 for lists), and the indices as int64."""
    if dtype is None:
        dtype = data.dtype if isinstance(data, NDArray | np.ndarray) else mx_real_t
    return dense_array(data, ctx, dtype), tuple(dense_array(i, ctx, np.int64) for i in indices)


def _check_shape(expected: Any, shape: Any) -> None:
    if expected and shape and tuple(expected) != tuple(shape):
        raise ValueError(f"Shape mismatch detected. {expected} v.s. {shape}")


def csr_matrix(arg1: Any, shape: Any = None, ctx: Context | None = None, dtype: Any = None) -> CSRNDArray:
    """Creates a csr matrix.

    Args:
        arg1: (data, indices, indptr); (data, (rows, columns)), where equal positions are added; a shape for a matrix of
            zeros; a csr matrix of mxforge or SciPy; or an array-like value.
        shape: The shape; by default inferred from `arg1`.
        ctx: The device; the current context by default.
        dtype: The dtype; by default that of the data, or float32 for lists.
    Returns:
        The matrix. ValueError if the parts do not fit each other or the shape.
    """
    if isinstance(arg1, tuple):
        if len(arg1) == 3:
            return _csr_from_definition(*arg1, shape, ctx, dtype)
        if len(arg1) != 2:
            raise ValueError(f"Unexpected length of input tuple: {len(arg1)}")
        if isinstance(arg1[1], tuple) and len(arg1[1]) == 2:
            return _csr_from_coordinates(arg1[0], *arg1[1], shape, ctx, dtype)
        if not all(isinstance(n, numeric_types) for n in arg1):
            raise ValueError(f"a shape of two integers is expected, not {arg1}")
        _check_shape(arg1, shape)
        return empty("csr", arg1, ctx, dtype)
    if isinstance(arg1, RowSparseNDArray):
        raise ValueError("Unexpected input type: RowSparseNDArray")
    if isinstance(arg1, CSRNDArray) or is_scipy_csr(arg1):
        _check_shape(arg1.shape, shape)
        return array(arg1, ctx, dtype)
    return _from_dense(arg1, shape, ctx, dtype, "csr")


def _from_dense(source: Any, shape: Any, ctx: Context | None, dtype: Any, stype: str) -> Any:
    if dtype is None:
        dtype = source.dtype if isinstance(source, NDArray | np.ndarray) else mx_real_t
    dense = dense_array(source, ctx, dtype)
    _check_shape(dense.shape, shape)
    return dense.tostype(stype)


def is_scipy_csr(source: Any) -> bool:
    """True for a csr matrix of SciPy."""
    return getattr(source, "format", None) == "csr" and hasattr(source, "indptr")


def _csr_from_definition(data: Any, indices: Any, indptr: Any, shape: Any, ctx: Context | None, dtype: Any) -> Any:
    elements, (columns, pointers) = _data_and_indices(data, (indices, indptr), ctx, dtype)
    if shape is None:
        if not columns.shape[0]:
            raise ValueError("invalid shape: without stored elements csr_matrix needs the argument shape")
        shape = (pointers.shape[0] - 1, int(columns.asnumpy().max()) + 1)
    one_axis = elements.ndim == columns.ndim == pointers.ndim == 1
    if not one_axis or not pointers.shape[0] or len(shape) != 2:
        shapes = f"data {elements.shape}, indices {columns.shape}, indptr {pointers.shape}"
        raise ValueError(f"invalid shape: {shapes} for a matrix of shape {tuple(shape)}")
    return build_unchecked(CSRNDArray, (elements, columns, pointers), integers(shape), usable(ctx))


def _csr_from_coordinates(data: Any, rows: Any, columns: Any, shape: Any, ctx: Context | None, dtype: Any) -> Any:
    """A csr matrix from positions. Elements at the same position are added."""
    values = data.asnumpy() if isinstance(data, NDArray) else np.asarray(data)
    row, column = (np.asarray(i.asnumpy() if isinstance(i, NDArray) else i).astype(np.int64) for i in (rows, columns))
    if not values.shape == row.shape == column.shape:
        raise ValueError(f"data, rows and columns differ in shape: {values.shape}, {row.shape}, {column.shape}")
    if shape is None:
        if not row.size:
            raise ValueError("cannot infer dimensions from zero sized index arrays")
        shape = (int(row.max()) + 1, int(column.max()) + 1)
    if row.size and (min(row.min(), column.min()) < 0 or row.max() >= shape[0] or column.max() >= shape[1]):
        raise ValueError(f"rows or columns are outside of shape {tuple(shape)}")
    places, owner = np.unique(row * shape[1] + column, return_inverse=True)
    sums = np.zeros(len(places), values.dtype)
    np.add.at(sums, owner, values)
    return csr_at(sums, *np.divmod(places, shape[1]), tuple(shape), usable(ctx), dtype or values.dtype)


def row_sparse_array(arg1: Any, shape: Any = None, ctx: Context | None = None, dtype: Any = None) -> RowSparseNDArray:
    """Creates a row-sparse array.

    Args:
        arg1: (data, indices), where data[i] is the slice at indices[i]; a shape for an array of zeros; a row-sparse
            array; or an array-like value.
        shape: The shape; by default inferred from `arg1`.
        ctx: The device; the current context by default.
        dtype: The dtype; by default that of the data, or float32 for lists.
    Returns:
        The array. ValueError if the parts do not fit each other or the shape.
    """
    if isinstance(arg1, tuple):
        if len(arg1) < 2:
            raise ValueError(f"Unexpected length of input tuple: {len(arg1)}")
        if len(arg1) > 2 or all(isinstance(n, integer_types) for n in arg1):
            _check_shape(arg1, shape)
            return empty("row_sparse", arg1, ctx, dtype)
        return _row_sparse_from_definition(*arg1, shape, ctx, dtype)
    if isinstance(arg1, CSRNDArray):
        raise ValueError("Unexpected input type: CSRNDArray")
    if isinstance(arg1, RowSparseNDArray):
        _check_shape(arg1.shape, shape)
        return array(arg1, ctx, dtype)
    return _from_dense(arg1, shape, ctx, dtype, "row_sparse")


def _row_sparse_from_definition(data: Any, indices: Any, shape: Any, ctx: Context | None, dtype: Any) -> Any:
    elements, (rows,) = _data_and_indices(data, (indices,), ctx, dtype)
    if shape is None:
        if not rows.shape[0]:
            raise ValueError("invalid shape: without stored rows row_sparse_array needs the argument shape")
        shape = (int(rows.asnumpy()[-1]) + 1, *elements.shape[1:])
    if elements.ndim != len(shape) or rows.ndim != 1 or not np.prod(shape[1:]):
        raise ValueError(f"invalid shape: data {elements.shape}, indices {rows.shape} for shape {tuple(shape)}")
    return build_unchecked(RowSparseNDArray, (elements, rows), integers(shape), usable(ctx))


def zeros(stype: str, shape: Any, ctx: Context | None = None, dtype: Any = None, **kwargs: Any) -> Any:
    """An array of zeros. A sparse array of zeros stores no elements.

    Args:
        stype: The storage type: "default" (dense), "csr" or "row_sparse".
        shape: Shape of the array.
        ctx: The device; the current context by default.
        dtype: The dtype; float32 by default.
    """
    if stype == "default":
        return dense_zeros(shape, ctx, dtype, **kwargs)
    if stype not in ("csr", "row_sparse"):
        raise ValueError(f"unknown storage type{stype}")
    context, extents = usable(ctx), integers(shape)
    stored = (0,) if stype == "csr" else (0, *extents[1:])
    data = dense_array(np.empty(stored, np.float32), context, mx_real_t if dtype is None else dtype)
    none = dense_array(np.empty(0, np.int64), context, np.int64)
    if stype == "row_sparse":
        return build(RowSparseNDArray, (data, none), extents, context)
    require_room((extents[0] + 1,), DType.I64)
    pointers = dense_array(np.zeros(extents[0] + 1), context, np.int64)
    return build(CSRNDArray, (data, none, pointers), extents, context)


def empty(stype: str, shape: Any, ctx: Context | None = None, dtype: Any = None) -> Any:
    """A sparse array that stores no elements; see `zeros`."""
    if stype not in ("csr", "row_sparse"):
        raise ValueError(f"unknown stype : {stype}")
    return zeros(stype, (shape,) if isinstance(shape, int) else shape, ctx, dtype)


def array(source_array: Any, ctx: Context | None = None, dtype: Any = None) -> Any:
    """A copy of a sparse array of mxforge or a csr matrix of SciPy.

    Args:
        source_array: The array. AssertionError for a dense NDArray, ValueError for other types.
        ctx: The device; the current context by default.
        dtype: The dtype; by default that of the source.
    """
    if isinstance(source_array, NDArray):
        if not source_array._is_sparse:
            raise AssertionError("Please use `tostype` to create RowSparseNDArray or CSRNDArray from an NDArray")
        return source_array.copyto(usable(ctx)).astype(dtype or source_array.dtype)
    if is_scipy_csr(source_array):
        rows = np.repeat(np.arange(source_array.shape[0]), np.diff(source_array.indptr))
        element = dtype or source_array.dtype
        return _csr_from_coordinates(source_array.data, rows, source_array.indices, source_array.shape, ctx, element)
    if isinstance(source_array, np.ndarray | np.generic):
        raise ValueError(f"Please use mx.nd.array to create an NDArray with source_array of type {type(source_array)}")
    raise ValueError(f"Unexpected source_array type: {type(source_array)}")


# Arithmetic.


def _function(name: str, broadcast: str, of_numbers: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def function(lhs: Any, rhs: Any) -> Any:
        if isinstance(lhs, numeric_types) and isinstance(rhs, numeric_types):
            return of_numbers(lhs, rhs)
        return matched(broadcast, lhs, rhs)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`nd.{name}`, but sparse operands of equal shape and storage type give a sparse result."
    return function


add = _function("add", "broadcast_add", operator.add)
subtract = _function("subtract", "broadcast_sub", operator.sub)
multiply = _function("multiply", "broadcast_mul", operator.mul)
divide = _function("divide", "broadcast_div", operator.truediv)
