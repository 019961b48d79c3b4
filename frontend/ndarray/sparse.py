"""Sparse arrays as containers: they load, save, convert and index; operators take dense arrays only.

CSRNDArray         a matrix in compressed rows
RowSparseNDArray   a tensor of which only some slices along axis 0 are not zero
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from ..artifacts.arrays import CSRData, RowSparseData, sparse_problem
from ..base import MXNetError, NotSupportedForSparseNDArray
from ..context import Context, usable
from ..dtypes import dtype_of
from .arithmetic import add, divide, multiply, subtract
from .creation import array as dense_array
from .functions import attribute_finder
from .ndarray import NDArray

__all__ = [
    "BaseSparseNDArray",
    "CSRNDArray",
    "RowSparseNDArray",
    "add",
    "array",
    "csr_matrix",
    "divide",
    "empty",
    "multiply",
    "row_sparse_array",
    "subtract",
    "zeros",
]

__getattr__, __dir__ = attribute_finder("sparse", globals())


class BaseSparseNDArray(NDArray):
    """An array that stores some of its elements. `data` and the index arrays are dense NDArrays of their own."""

    __slots__ = ("_parts",)

    _parts: tuple[NDArray, ...]

    @property
    def _address(self) -> int:  # type: ignore[override]
        raise MXNetError(
            f"operators work on dense arrays, not on {type(self).__name__}: convert it with tostype('default')"
        )

    @property
    def _storage(self) -> NoReturn:  # type: ignore[override]
        raise NotSupportedForSparseNDArray(type(self), None)

    @property
    def data(self) -> NDArray:
        """The stored elements."""
        return self._parts[0]

    @property
    def indices(self) -> NDArray:
        """Where the stored elements stand: columns, or rows of a row-sparse array."""
        return self._parts[1]

    def _numpy_parts(self) -> list[np.ndarray]:
        return [part.asnumpy() for part in self._parts]

    def astype(self, dtype: Any, copy: bool = True) -> Any:
        """A copy in another dtype."""
        data, *indices = self._parts
        return _build(type(self), (data.astype(dtype), *indices), self._shape, self._context)

    def copy(self) -> Any:
        """The same elements in memory of their own."""
        return _build(type(self), tuple(p.copy() for p in self._parts), self._shape, self._context)

    def _copied_to(self, context: Context) -> Any:
        return _build(type(self), tuple(p.copyto(context) for p in self._parts), self._shape, context)

    def copyto(self, other: Any) -> Any:
        """Copy to a context as a new array, or into a dense array."""
        if isinstance(other, Context):
            return self._copied_to(usable(other))
        if isinstance(other, BaseSparseNDArray) or not isinstance(other, NDArray):
            raise NotSupportedForSparseNDArray(self.copyto, None, other)
        return self.tostype("default").copyto(other)

    def reshape(self, *shape: Any, **kwargs: Any) -> NoReturn:
        raise NotSupportedForSparseNDArray(self.reshape, None, *shape)

    def __setitem__(self, key: Any, value: Any) -> NoReturn:
        raise NotSupportedForSparseNDArray(self.__setitem__, None, key, value)

    def __repr__(self) -> str:
        return f"\n<{type(self).__name__} {'x'.join(map(str, self._shape))} @{self._context}>"


class CSRNDArray(BaseSparseNDArray):
    """A matrix in compressed rows: row r holds data[s] at columns indices[s], where s is indptr[r]:indptr[r + 1]."""

    __slots__ = ()

    @property
    def stype(self) -> str:
        return "csr"

    @property
    def indptr(self) -> NDArray:
        """Where each row begins among the stored elements."""
        return self._parts[2]

    def asnumpy(self) -> np.ndarray:
        """The matrix with its zeros."""
        data, indices, indptr = self._numpy_parts()
        dense = np.zeros(self._shape, data.dtype)
        rows = np.repeat(np.arange(self._shape[0]), np.diff(indptr))
        dense[rows, indices] = data
        return dense

    def __getitem__(self, key: Any) -> Any:
        """The rows of an index or of a slice, as a csr matrix."""
        if isinstance(key, int):
            if not -self._shape[0] <= key < self._shape[0]:
                raise IndexError(f"index {key} is out of bounds for axis 0 with size {self._shape[0]}")
            key = slice(key, key + 1 or None)
        if not isinstance(key, slice) or key.step not in (None, 1):
            raise ValueError("csr arrays are indexed by an integer or a slice of step 1 along axis 0")
        start, stop, _ = key.indices(self._shape[0])
        data, indices, indptr = self._numpy_parts()
        stop = max(stop, start)
        chosen = slice(indptr[start], indptr[stop])
        shape = (stop - start, self._shape[1])
        return csr_matrix(
            (data[chosen], indices[chosen], indptr[start : stop + 1] - indptr[start]), shape, self._context, data.dtype
        )


class RowSparseNDArray(BaseSparseNDArray):
    """A tensor whose slice indices[i] along axis 0 is data[i]; all other slices are zero."""

    __slots__ = ()

    @property
    def stype(self) -> str:
        return "row_sparse"

    def asnumpy(self) -> np.ndarray:
        """The tensor with its zeros."""
        data, indices = self._numpy_parts()
        dense = np.zeros(self._shape, data.dtype)
        dense[indices] = data
        return dense

    def retain(self, indices: Any) -> RowSparseNDArray:
        """The slices whose number is in `indices`; the others become zero."""
        data, rows = self._numpy_parts()
        wanted = np.isin(rows, np.asarray(indices).astype(np.int64))
        return row_sparse_array((data[wanted], rows[wanted]), self._shape, self._context, data.dtype)


def _build(cls: type[Any], parts: tuple[NDArray, ...], shape: tuple[int, ...], context: Context) -> Any:
    problem = _problem(cls, [p.asnumpy() for p in parts], shape)
    if problem:
        raise MXNetError(f"{cls.__name__}: {problem}")
    made = object.__new__(cls)
    made._parts, made._shape, made._dtype, made._context = parts, shape, parts[0]._dtype, context
    return made


def _problem(cls: type[Any], parts: list[np.ndarray], shape: tuple[int, ...]) -> str | None:
    return sparse_problem(CSRData(shape, *parts) if cls is CSRNDArray else RowSparseData(shape, *parts))


def _parts(data: Any, indices: tuple[Any, ...], ctx: Context | None, dtype: Any) -> tuple[NDArray, ...]:
    if dtype is None:
        dtype = data.dtype if isinstance(data, NDArray | np.ndarray) else np.float32
    return (dense_array(data, ctx, dtype), *(dense_array(i, ctx, np.int64) for i in indices))


def csr_matrix(arg1: Any, shape: Any = None, ctx: Context | None = None, dtype: Any = None) -> CSRNDArray:
    """A csr matrix from (data, indices, indptr), (data, (rows, columns)), a shape, a csr matrix, or anything
    array-like."""
    context = usable(ctx)
    if isinstance(arg1, CSRNDArray):
        return arg1.astype(arg1.dtype if dtype is None else dtype)
    if isinstance(arg1, tuple) and len(arg1) == 3:
        extents = shape or (len(arg1[2]) - 1, int(np.max(np.asarray(arg1[1]), initial=-1)) + 1)
        return _build(CSRNDArray, _parts(arg1[0], arg1[1:], ctx, dtype), tuple(extents), context)
    if isinstance(arg1, tuple) and len(arg1) == 2 and isinstance(arg1[0], int | np.integer):
        return zeros("csr", arg1, ctx, dtype)
    if isinstance(arg1, tuple) and len(arg1) == 2:
        values, (rows, columns) = np.asarray(arg1[0]), (np.asarray(i).astype(np.int64) for i in arg1[1])
        dense = np.zeros(shape or (rows.max() + 1, columns.max() + 1), values.dtype)
        np.add.at(dense, (rows, columns), values)
        return cast(dense_array(dense, ctx, dtype), "csr")
    if hasattr(arg1, "tocsr"):
        made: Any = arg1.tocsr()  # type: ignore[attr-defined]
        return csr_matrix((made.data, made.indices, made.indptr), made.shape, ctx, dtype)
    return cast(dense_array(arg1, ctx, dtype), "csr")


def row_sparse_array(arg1: Any, shape: Any = None, ctx: Context | None = None, dtype: Any = None) -> RowSparseNDArray:
    """A row-sparse array from (data, indices), a shape, a row-sparse array, or anything array-like."""
    if isinstance(arg1, RowSparseNDArray):
        return arg1.astype(arg1.dtype if dtype is None else dtype)
    if isinstance(arg1, tuple) and all(isinstance(n, int | np.integer) for n in arg1):
        return zeros("row_sparse", arg1, ctx, dtype)
    if isinstance(arg1, tuple) and len(arg1) == 2:
        parts = _parts(arg1[0], arg1[1:], ctx, dtype)
        extents = shape or (int(np.max(parts[1].asnumpy(), initial=-1)) + 1, *parts[0].shape[1:])
        return _build(RowSparseNDArray, parts, tuple(extents), usable(ctx))
    return cast(dense_array(arg1, ctx, dtype), "row_sparse")


def zeros(stype: str, shape: Any, ctx: Context | None = None, dtype: Any = None, **kwargs: Any) -> Any:
    """An array of zeros in a storage type."""
    from .creation import zeros as dense_zeros

    element = np.float32 if dtype is None else dtype
    extents = (shape,) if isinstance(shape, int) else tuple(shape)
    if stype == "default":
        return dense_zeros(extents, ctx, element, **kwargs)
    none = np.empty(0, np.int64)
    if stype == "csr":
        data = np.empty(0, dtype_of(element).numpy)
        return csr_matrix((data, none, np.zeros(extents[0] + 1, np.int64)), extents, ctx, element)
    if stype == "row_sparse":
        data = np.empty((0, *extents[1:]), dtype_of(element).numpy)
        return row_sparse_array((data, none), extents, ctx, element)
    raise ValueError(f"unknown storage type: {stype}")


empty = zeros


def array(source_array: Any, ctx: Context | None = None, dtype: Any = None) -> Any:
    """A copy of a sparse array of this module or of SciPy."""
    if isinstance(source_array, RowSparseNDArray):
        return row_sparse_array(source_array, None, ctx, dtype)
    if isinstance(source_array, CSRNDArray) or hasattr(source_array, "tocsr"):
        return csr_matrix(source_array, None, ctx, dtype or source_array.dtype)
    raise ValueError("Please use mx.nd.array to create an NDArray with source_array of type " + str(type(source_array)))


def cast(source: NDArray, stype: str) -> Any:
    """The array in another storage type, a copy unless it has this one."""
    if stype == source.stype:
        return source
    values, context = source.asnumpy(), source.context
    if stype == "default":
        return dense_array(values, context, values.dtype)
    if stype == "csr" and values.ndim == 2:
        rows, columns = np.nonzero(values)
        indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(values)))])
        return csr_matrix((values[rows, columns], columns, indptr), values.shape, context, values.dtype)
    if stype == "row_sparse" and values.ndim:
        rows = np.flatnonzero(values.reshape(len(values), -1).any(axis=1))
        return row_sparse_array((values[rows], rows), values.shape, context, values.dtype)
    raise MXNetError(f"an array of shape {source.shape} has no storage type {stype!r}")
