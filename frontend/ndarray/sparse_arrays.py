"""The classes of sparse arrays.

CSRNDArray         a matrix in compressed sparse row format
RowSparseNDArray   a tensor with few slices along axis 0 that are not zero

The stored elements and the index arrays are dense arrays that are never modified: a write to a sparse array replaces
them.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any, ClassVar, NoReturn

import numpy as np

from ..artifacts.arrays import CSRData, RowSparseData, data_problem, rows_problem, sparse_problem
from ..base import MXNetError, NotSupportedForSparseNDArray, integers, numeric_types
from ..context import Context, cpu, usable
from ..dtypes import numpy_type
from ..memory import require_room
from .array_classes import register_array_class
from .casting import write
from .creation import array as dense_array
from .functions import find_function
from .ndarray import NDArray
from .sparse_arithmetic import SparseArithmetic

__all__ = ["BaseSparseNDArray", "CSRNDArray", "RowSparseNDArray", "build", "build_unchecked"]


class BaseSparseNDArray(SparseArithmetic, NDArray):
    """An array that stores some of its elements.

    It has no `_dtype`, `_address` and `_storage`, so it never matches a fast path for dense operands. `storage.py`
    applies operators to it.
    """

    __slots__ = ("_owned", "_stored", "_unchecked")

    _stored: tuple[NDArray, ...]
    _unchecked: bool
    _owned: NDArray | None
    """The stored elements, if no other array shares them and they are all rows in order; see `sparse_rows.py`."""
    _is_sparse: ClassVar[bool] = True
    _aux_names: ClassVar[tuple[str, ...]] = ()

    @property
    def _dtype(self) -> NoReturn:  # type: ignore[override]
        raise AttributeError(f"{type(self).__name__} is sparse: its elements are not one block of memory")

    @property
    def _address(self) -> NoReturn:  # type: ignore[override]
        raise NotSupportedForSparseNDArray(type(self), None)

    _storage = _address  # type: ignore[assignment]

    @property
    def _parts(self) -> tuple[NDArray, ...]:
        """The stored elements and the indices. MXNetError for invalid indices: a user's indices are checked at their
        first use."""
        if self._unchecked:
            self._require_valid(_problem(type(self), self._stored, self._shape))
            self._unchecked = False
        return self._stored

    @_parts.setter
    def _parts(self, parts: tuple[NDArray, ...]) -> None:
        self._stored, self._unchecked, self._owned = parts, False, None

    def _shared(self) -> tuple[NDArray, ...]:
        """The stored elements and the indices, for another array that shares them."""
        self._owned = None
        return self._stored

    def _require_valid(self, problem: str | None) -> None:
        if problem:
            raise MXNetError(f"{type(self).__name__}: {problem}")

    # Properties.

    @property
    def dtype(self) -> Any:
        """The dtype of the stored elements, such as numpy.float32."""
        return numpy_type(self._stored[0]._dtype)

    @property
    def size(self) -> NoReturn:  # type: ignore[override]
        raise NotImplementedError(f"{type(self).__name__} has no size: use shape, or data.size")

    @property
    def data(self) -> NDArray:
        """A copy of the stored elements."""
        return self._data()

    @property
    def indices(self) -> NDArray:
        """A copy of the indices of the stored elements: columns of a csr matrix, rows of a row-sparse array."""
        return self._stored[1].copy()

    @data.setter
    def data(self, data: Any) -> NoReturn:
        raise NotImplementedError("the elements of a sparse array can only be changed by x[:] = y")

    @indices.setter
    def indices(self, indices: Any) -> NoReturn:
        raise NotImplementedError("the indices of a sparse array can only be changed by x[:] = y")

    @property
    def handle(self) -> Any:
        """The address of the stored elements."""
        return self._stored[0].handle

    @property
    def _num_aux(self) -> int:
        return len(self._aux_names)

    @property
    def _aux_types(self) -> list[Any]:
        return [np.int64] * self._num_aux

    def _aux_type(self, i: int) -> Any:
        return self._aux_types[i]

    def _data(self) -> NDArray:
        return self._stored[0].copy()

    def _aux_data(self, i: int) -> NDArray:
        """A copy of one of the index arrays, in MXNet's order."""
        return getattr(self, self._aux_names[i])

    def __repr__(self) -> str:
        return f"\n<{type(self).__name__} {'x'.join(map(str, self._shape))} @{self._context}>"

    def check_format(self, full_check: bool = True) -> None:
        """MXNetError if the sizes of the parts do not fit.

        Args:
            full_check: True to check also that indices are in range and strictly ascending.
        """
        self._require_valid(_sizes_problem(_as_data(type(self), self._stored, self._shape)))
        if full_check:
            self._require_valid(_problem(type(self), self._stored, self._shape) or self._order_problem())

    def _order_problem(self) -> str | None:
        raise NotImplementedError

    def _take_over(self, other: Any) -> None:
        self._parts = other._shared()
        self._unchecked = other._unchecked
        self._shape, self._context = other._shape, other._context

    @classmethod
    def _of_parts(cls, parts: tuple[NDArray, ...], shape: tuple[int, ...], context: Context) -> Any:
        """See `build`."""
        return build(cls, parts, shape, context)

    @classmethod
    def _of_file(cls, shape: tuple[int, ...], *parts: np.ndarray) -> Any:
        """An array from the stored elements and indices of a file. The indices are checked at their first use."""
        data, *indices = parts
        arrays = dense_array(data, cpu(), data.dtype), *(dense_array(i, cpu(), np.int64) for i in indices)
        return build_unchecked(cls, arrays, integers(shape), cpu())

    # Copies.

    def _with_parts(self, *parts: NDArray) -> Any:
        """An array of the same class, shape and context with other stored elements and indices."""
        return build(type(self), parts, self._shape, self._context)

    def _like_this(self) -> Any:
        result = object.__new__(type(self))
        result._take_over(self)
        return result

    def copy(self) -> Any:
        """A copy of the array."""
        return self._like_this()

    def detach(self) -> Any:
        """A copy that is not part of the recorded graph: no gradient flows through it."""
        return self._like_this()

    def astype(self, dtype: Any, copy: bool = True) -> Any:
        """Converts the stored elements to another dtype.

        Args:
            dtype: The new dtype.
            copy: False to return the array itself if it has this dtype already.
        """
        if not copy and np.dtype(dtype) == self.dtype:
            return self
        data, *indices = self._parts
        return self._with_parts(data.astype(dtype), *indices)

    def _copied_to(self, context: Context) -> Any:
        return build(type(self), tuple(p._copied_to(context) for p in self._parts), self._shape, context)

    def copyto(self, other: Any) -> Any:
        """Copies the elements into another array, or to a context.

        Args:
            other: An array of the same shape that is dense or has the same storage type; or a Context.
        Returns:
            `other`, or the new array on the context. Copying an array to itself warns and returns False. TypeError for
            another storage type or class, MXNetError for another shape.
        """
        if isinstance(other, Context):
            return self._copied_to(usable(other))
        if not isinstance(other, NDArray):
            raise TypeError(f"copyto does not support type {type(other)}")
        if other is self:
            warnings.warn("You are attempting to copy an array to itself", RuntimeWarning, stacklevel=2)
            return False
        if other.stype not in ("default", self.stype):
            raise TypeError(f"copyto does not support destination NDArray stype {other.stype}")
        write(other, self)
        return other

    def asscipy(self) -> NoReturn:
        raise AttributeError(f"{type(self).__name__!r} object has no attribute 'asscipy'")

    def _sync_copyfrom(self, source_array: Any) -> NoReturn:
        raise NotImplementedError("a NumPy array is copied to a sparse array by x[:] = source")

    # Parts.

    def __setitem__(self, key: Any, value: Any) -> None:
        """`x[:] = y` replaces all elements of x by an array of the same shape."""
        self._check_assignment(key)
        if isinstance(value, NDArray):
            if value is not self:
                value.copyto(self)
        elif isinstance(value, numeric_types) and not isinstance(value, np.generic):
            self._fill(value)
        elif isinstance(value, np.ndarray | np.generic):
            dense_array(value).copyto(self)
        else:
            raise TypeError(f"type {type(value)} not supported")

    def _check_assignment(self, key: Any) -> None:
        name = type(self).__name__
        if not isinstance(key, slice):
            raise TypeError(f"{name} only supports [:] for assignment")
        if key != slice(None):
            raise ValueError(f"Assignment with slice for {name} is not implemented yet: write x[:] = y")

    def _fill(self, value: Any) -> None:
        raise NotImplementedError

    def _at(self, index: int) -> NoReturn:
        raise NotSupportedForSparseNDArray(self._at, "[idx]", index)

    def _slice(self, start: int | None, stop: int | None) -> NoReturn:
        raise NotSupportedForSparseNDArray(self._slice, None, start, stop)

    def reshape(self, *shape: Any, **kwargs: Any) -> NoReturn:
        raise NotSupportedForSparseNDArray(self.reshape, None, *shape)

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def to_dlpack_for_read(self) -> NoReturn:
        raise NotSupportedForSparseNDArray(self.to_dlpack_for_read, None)

    to_dlpack_for_write = to_dlpack_for_read

    def __dlpack__(self, **kwargs: Any) -> NoReturn:
        raise NotSupportedForSparseNDArray(self.__dlpack__, None)


@register_array_class("csr")
class CSRNDArray(BaseSparseNDArray):
    """A matrix in compressed sparse row format: row r stores data[s] at columns indices[s], where s is the slice
    indptr[r]:indptr[r + 1]."""

    __slots__ = ("_columns",)

    _columns: tuple[tuple[NDArray, ...], Any]
    """The stored elements by columns, and the parts of which they are made; see `sparse_columns.py`."""

    _aux_names = ("indptr", "indices")

    @property
    def stype(self) -> str:
        return "csr"

    @property
    def indptr(self) -> NDArray:
        """A copy of the row pointers: row r stores the elements indptr[r] to indptr[r + 1] - 1."""
        return self._stored[2].copy()

    @indptr.setter
    def indptr(self, indptr: Any) -> NoReturn:
        raise NotImplementedError("the indices of a sparse array can only be changed by x[:] = y")

    def asnumpy(self) -> np.ndarray:
        """A dense copy as a NumPy array."""
        data, indices, _ = (p.asnumpy() for p in self._parts)
        require_room(self._shape, self._parts[0]._dtype)
        dense = np.zeros(self._shape, data.dtype)
        dense[self._rows(), indices] = data
        return dense

    def _rows(self) -> np.ndarray:
        """The row of each stored element."""
        return np.repeat(np.arange(self._shape[0]), np.diff(self._parts[2].asnumpy()))

    def asscipy(self) -> Any:
        """A copy as `scipy.sparse.csr_matrix`. ImportError without SciPy."""
        from scipy.sparse import csr_matrix  # type: ignore[import-not-found]

        data, indices, indptr = (p.asnumpy() for p in self._parts)
        return csr_matrix((data, indices, indptr), shape=self._shape, dtype=self.dtype)

    def _order_problem(self) -> str | None:
        same_row = np.diff(self._rows()) == 0
        if np.any(same_row & (np.diff(self._parts[1].asnumpy()) <= 0)):
            return "the columns of a row are not ascending"
        return None

    def _fill(self, value: Any) -> None:
        raise ValueError("Assigning numeric types to CSRNDArray is not implemented yet.")

    def __getitem__(self, key: Any) -> Any:
        """The rows that an integer or a slice selects, as a csr matrix."""
        rows = self._shape[0]
        if isinstance(key, tuple):
            raise ValueError("Multi-dimension indexing is not supported")
        if isinstance(key, slice):
            if key.step is not None:
                raise ValueError("CSRNDArray only supports continuous slicing on axis 0")
            return self if key == slice(None) else self._piece(key, slice(None))
        if not isinstance(key, int):
            raise ValueError(f"csr arrays can only be indexed by an integer or a slice, not by {key!r}")
        if not -rows <= key < rows:
            raise IndexError(f"index {key} is out of bounds for axis 0 with size {rows}")
        return self._piece(slice(key % rows, key % rows + 1), slice(None))

    def _piece(self, rows: slice, columns: slice) -> CSRNDArray:
        """The matrix of a range of rows and of columns, both of step 1."""
        data, indices, indptr = (p.asnumpy() for p in self._parts)
        first, last, _ = rows.indices(self._shape[0])
        left, right, _ = columns.indices(self._shape[1])
        last, right = max(first, last), max(left, right)
        chosen = slice(indptr[first], indptr[last])
        inside = (indices[chosen] >= left) & (indices[chosen] < right)
        before = np.concatenate([[0], np.cumsum(inside)])
        pointers = before[indptr[first : last + 1] - indptr[first]]
        parts = data[chosen][inside], indices[chosen][inside] - left, pointers
        return build(CSRNDArray, _arrays(self, parts), (last - first, right - left), self._context)


@register_array_class("row_sparse")
class RowSparseNDArray(BaseSparseNDArray):
    """A tensor whose slice indices[i] along axis 0 is data[i]; all other slices are zero."""

    __slots__ = ()

    _aux_names = ("indices",)

    @property
    def stype(self) -> str:
        return "row_sparse"

    def asnumpy(self) -> np.ndarray:
        """A dense copy as a NumPy array."""
        data, indices = (p.asnumpy() for p in self._parts)
        require_room(self._shape, self._parts[0]._dtype)
        dense = np.zeros(self._shape, data.dtype)
        dense[indices] = data
        return dense

    def _order_problem(self) -> str | None:
        return "the indices are not ascending" if np.any(np.diff(self._parts[1].asnumpy()) <= 0) else None

    def _fill(self, value: Any) -> None:
        """Store all rows, with all elements set to a number."""
        data = self._parts[0]
        rows = dense_array(np.arange(self._shape[0]), self._context, np.int64)
        full = dense_array(np.full(self._shape, value), self._context, data.dtype)
        self._parts = (full, rows)

    def __getitem__(self, key: Any) -> Any:
        """`x[:]` is x; other keys raise an error."""
        if isinstance(key, slice) and key == slice(None):
            return self
        if isinstance(key, int | slice):
            raise MXNetError("RowSparseNDArray only supports [:] for __getitem__")
        if isinstance(key, tuple):
            raise ValueError("Multi-dimension indexing is not supported")
        raise ValueError(f"row_sparse arrays cannot be indexed by {key!r}")

    def retain(self, *args: Any, **kwargs: Any) -> RowSparseNDArray:
        """Selects rows; see `nd.sparse.retain`.

        Args:
            indices: The row numbers, an array.
        Returns:
            A row-sparse array of the same shape that stores these rows, in this order.
        """
        own = () if "data" in kwargs or len(args) > 1 else (self,)
        return find_function("sparse", "retain")(*own, *args, **kwargs)


def build(cls: type[Any], parts: tuple[NDArray, ...], shape: tuple[int, ...], context: Context) -> Any:
    """A sparse array from its stored elements and indices. MXNetError for invalid indices."""
    result = build_unchecked(cls, parts, shape, context)
    result._require_valid(_problem(cls, parts, shape))
    result._unchecked = False
    return result


def build_unchecked(cls: type[Any], parts: tuple[NDArray, ...], shape: tuple[int, ...], context: Context) -> Any:
    """A sparse array from a user's elements and indices. MXNetError if their sizes do not fit. The indices are checked
    at their first use."""
    result = object.__new__(cls)
    result._parts, result._shape, result._context, result._unchecked = parts, shape, context, True
    result._require_valid(data_problem(_as_data(cls, parts, shape)))
    return result


def _arrays(like: BaseSparseNDArray, parts: Any) -> tuple[NDArray, ...]:
    """NumPy arrays of stored elements and indices as NDArrays with the context and dtype of `like`."""
    data, *indices = parts
    context = like._context
    return (dense_array(data, context, like.dtype), *(dense_array(i, context, np.int64) for i in indices))


def _as_data(cls: type[Any], parts: tuple[NDArray, ...], shape: tuple[int, ...]) -> CSRData | RowSparseData:
    arrays = [p.asnumpy() for p in parts]
    return CSRData(shape, *arrays) if cls is CSRNDArray else RowSparseData(shape, *arrays)


def _sizes_problem(array: CSRData | RowSparseData) -> str | None:
    return data_problem(array) or (rows_problem(array) if isinstance(array, CSRData) else None)


def _problem(cls: type[Any], parts: tuple[NDArray, ...], shape: tuple[int, ...]) -> str | None:
    return sparse_problem(_as_data(cls, parts, shape))
