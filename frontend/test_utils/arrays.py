"""Arrays for tests: random shapes, dense and sparse values, matrices with known properties."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy import random as rnd

from .. import ndarray as nd
from ..context import Context, current_context
from ..ndarray import NDArray
from .comparison import default_dtype


def random_arrays(*shapes: tuple[int, ...]) -> Any:
    """A list of normally distributed float32 NumPy arrays; for one shape the array itself."""
    arrays = [np.asarray(rnd.randn(*shape), dtype=default_dtype()) for shape in shapes]
    return arrays[0] if len(arrays) == 1 else arrays


def random_uniform_arrays(*shapes: tuple[int, ...], **kwargs: Any) -> list[np.ndarray]:
    """NumPy arrays of `dtype` (default float32), uniform in [`low`, `high`), by default [0, 1)."""
    low, high = kwargs.pop("low", 0.0), kwargs.pop("high", 1.0)
    dtype = kwargs.pop("dtype", default_dtype())
    if kwargs:
        raise TypeError(f"Got unexpected argument/s : {kwargs.keys()}")
    return [rnd.uniform(low, high, size=shape).astype(dtype) for shape in shapes]


def random_sample(population: Any, k: int) -> Any:
    """`k` different elements of a sequence in random order."""
    if not 0 <= k <= len(population):
        raise AssertionError(f"{k} of {len(population)} elements")
    shuffled = population[:]
    rnd.shuffle(shuffled)
    return shuffled[0:k]


def assign_each(the_input: np.ndarray, function: Callable[[Any], Any] | None) -> np.ndarray:
    """The function of each element, as float64; a copy if `function` is None."""
    if function is None:
        return np.array(the_input)
    return np.array([function(x) for x in the_input.ravel()], dtype=np.float64).reshape(the_input.shape)


def assign_each2(input1: np.ndarray, input2: np.ndarray, function: Callable[[Any, Any], Any] | None) -> np.ndarray:
    """The function of each pair of elements, as float64; a copy of `input1` if `function` is None."""
    if function is None:
        return np.array(input1)
    if input1.shape != input2.shape:
        raise AssertionError(f"shapes {input1.shape} and {input2.shape} differ")
    pairs = zip(input1.ravel(), input2.ravel(), strict=True)
    return np.array([function(x, y) for x, y in pairs], dtype=np.float64).reshape(input1.shape)


def create_2d_tensor(rows: int, columns: int, dtype: Any = np.int64) -> NDArray:
    """An array of shape (rows, columns) whose elements are their row numbers."""
    return nd.broadcast_to(nd.arange(0, rows, dtype=dtype).reshape((rows, 1)), shape=(rows, columns))


def create_vector(size: int, dtype: Any = np.int64) -> NDArray:
    """The array 0, 1, ..., size - 1."""
    return nd.arange(0, size, dtype=dtype)


def get_identity_mat(size: int) -> NDArray:
    """The identity matrix."""
    return nd.array(np.eye(size))


def get_identity_mat_batch(size: int) -> NDArray:
    """Two identity matrices."""
    return nd.array(np.stack([np.eye(size)] * 2))


# --- sparse -------------------------------------------------------------------------------------------------------


def _validate_csr_generation_inputs(
    num_rows: int, num_cols: int, density: float, distribution: str = "uniform"
) -> None:
    if density < 0 or density > 1:
        raise ValueError("density has to be between 0 and 1")
    if num_rows <= 0 or num_cols <= 0:
        raise ValueError("num_rows or num_cols should be greater than 0")
    if distribution == "powerlaw" and int(num_rows * num_cols * density) < 2 * num_rows:
        raise ValueError(
            f"not supported for this density: {density} for this shape ({num_rows}, {num_cols}) Please keep : "
            "num_rows * num_cols * density >= 2 * num_rows"
        )


def shuffle_csr_column_indices(csr: Any) -> None:
    """Shuffle the column indices of each row of a matrix; the values keep their order."""
    for begin, end in zip(csr.indptr[:-1], csr.indptr[1:], strict=True):
        row = np.array(csr.indices[begin:end])
        rnd.shuffle(row)
        csr.indices[begin:end] = row


class _Rows:
    """The three arrays of a CSR matrix."""

    def __init__(self, shape: tuple[int, int], density: float, dtype: Any) -> None:
        rows, columns = shape
        places = np.sort(rnd.choice(rows * columns, round(density * rows * columns), replace=False))
        self.data = rnd.uniform(size=len(places)).astype(dtype or np.float64)
        self.indices = places % columns
        counts = np.bincount(places // columns, minlength=rows)
        self.indptr = np.concatenate([[0], np.cumsum(counts)])


def _get_uniform_dataset_csr(
    num_rows: int,
    num_cols: int,
    density: float = 0.1,
    dtype: Any = None,
    data_init: float | None = None,
    shuffle_csr_indices: bool = False,
) -> Any:
    """A CSR array with values at random positions."""
    _validate_csr_generation_inputs(num_rows, num_cols, density)
    rows = _Rows((num_rows, num_cols), density, dtype)
    if data_init is not None:
        rows.data.fill(data_init)
    if shuffle_csr_indices is True:
        shuffle_csr_column_indices(rows)
    return nd.sparse.csr_matrix((rows.data, rows.indices, rows.indptr), shape=(num_rows, num_cols), dtype=dtype)


def _get_powerlaw_dataset_csr(num_rows: int, num_cols: int, density: float = 0.1, dtype: Any = None) -> Any:
    """A CSR array whose rows have 1, 2, 4, 8, ... values; the last row can have fewer."""
    _validate_csr_generation_inputs(num_rows, num_cols, density, distribution="powerlaw")
    left = int(num_rows * num_cols * density)
    dense = np.zeros((num_rows, num_cols), dtype=dtype)
    places = [(row, 0) for row in range(num_rows)]
    limit = 2
    for row in range(num_rows):
        places += [(row, column) for column in range(1, min(num_cols, limit))]
        limit *= 2
    if left > len(places):
        raise ValueError(f"not supported for this density: {density} for this shape ({num_rows},{num_cols})")
    for row, column in places[:left]:
        dense[row, column] = 1 + rnd.uniform(0.001, 2)
    return nd.array(dense, dtype=dtype).tostype("csr")


def rand_sparse_ndarray(
    shape: tuple[int, ...],
    stype: str,
    density: float | None = None,
    dtype: Any = None,
    distribution: str | None = None,
    data_init: float | None = None,
    rsp_indices: Any = None,
    modifier_func: Callable[[Any], Any] | None = None,
    shuffle_csr_indices: bool = False,
    ctx: Context | None = None,
) -> tuple[Any, Any]:
    """A random sparse array and its parts: (values, indices) for `row_sparse`, (indptr, indices, data) for `csr`.

    Args:
        shape: Shape of the array.
        stype: "csr" or "row_sparse".
        density: The share of stored elements (csr) or rows (row_sparse); random by default.
        dtype: The dtype; float32 by default.
        distribution: "uniform", or "powerlaw" for csr.
        data_init: The value of all stored elements; random by default.
        rsp_indices: The stored rows of a row_sparse array; random by default.
        modifier_func: A function applied to each stored element of a row_sparse array.
        shuffle_csr_indices: Shuffle the column indices of each row.
        ctx: The device; the current context by default.
    """
    ctx = ctx or current_context()
    density = rnd.rand() if density is None else density
    dtype = default_dtype() if dtype is None else dtype
    distribution = "uniform" if distribution is None else distribution
    if stype == "row_sparse":
        if distribution != "uniform":
            raise AssertionError(f"Distribution {distribution} not supported for row_sparse")
        return _rand_rows(shape, density, dtype, data_init, rsp_indices, modifier_func, ctx)
    if stype != "csr" or len(shape) != 2:
        raise AssertionError(f"unknown storage type {stype!r} for shape {shape}")
    if distribution == "uniform":
        csr = _get_uniform_dataset_csr(
            *shape, density, data_init=data_init, shuffle_csr_indices=shuffle_csr_indices, dtype=dtype
        )
    elif distribution == "powerlaw":
        csr = _get_powerlaw_dataset_csr(*shape, density=density, dtype=dtype)
    else:
        raise AssertionError(f"Distribution not supported: {distribution}")
    csr = csr.as_in_context(ctx)
    return csr, (csr.indptr, csr.indices, csr.data)


def _rand_rows(
    shape: tuple[int, ...], density: float, dtype: Any, fill: float | None, rows: Any, modify: Any, ctx: Context
) -> tuple[Any, Any]:
    if rows is None:
        rows = np.argwhere(rnd.rand(shape[0]) < density).flatten()
    rows = np.asarray(rows)
    if len(rows) > shape[0]:
        raise AssertionError(f"{len(rows)} rows of an array of {shape[0]}")
    if len(rows) == 0:
        empty = nd.sparse.zeros("row_sparse", shape, dtype=dtype, ctx=ctx)
        return empty, (np.array([], dtype=dtype), np.array([]))
    values = rnd.rand(len(rows), *shape[1:]).astype(dtype)
    if fill is not None:
        values.fill(fill)
    if modify is not None:
        values = assign_each(values, modify)
    return nd.sparse.row_sparse_array((values, rows), shape=shape, dtype=dtype, ctx=ctx), (values, rows)


def rand_ndarray(
    shape: tuple[int, ...],
    stype: str = "default",
    density: float | None = None,
    dtype: Any = None,
    modifier_func: Callable[[Any], Any] | None = None,
    shuffle_csr_indices: bool = False,
    distribution: str | None = None,
    ctx: Context | None = None,
) -> Any:
    """A random array: dense and normally distributed, or sparse; see `rand_sparse_ndarray`."""
    ctx = ctx or current_context()
    if stype == "default":
        return nd.array(random_arrays(shape), dtype=dtype, ctx=ctx)
    return rand_sparse_ndarray(
        shape,
        stype,
        density=density,
        modifier_func=modifier_func,
        dtype=dtype,
        shuffle_csr_indices=shuffle_csr_indices,
        distribution=distribution,
        ctx=ctx,
    )[0]


def create_sparse_array(
    shape: tuple[int, ...],
    stype: str,
    data_init: float | None = None,
    rsp_indices: Any = None,
    dtype: Any = None,
    modifier_func: Callable[[Any], Any] | None = None,
    density: float = 0.5,
    shuffle_csr_indices: bool = False,
) -> Any:
    """A random sparse array. `rsp_indices` are the stored rows of a row_sparse array."""
    if stype not in ("row_sparse", "csr"):
        raise AssertionError(f"Unknown storage type: {stype}")
    return rand_sparse_ndarray(
        shape,
        stype,
        density=density,
        data_init=data_init,
        rsp_indices=None if rsp_indices is None or stype == "csr" else np.sort(np.asarray(rsp_indices)),
        dtype=dtype,
        modifier_func=modifier_func,
        shuffle_csr_indices=shuffle_csr_indices,
    )[0]


def create_sparse_array_zd(
    shape: tuple[int, ...],
    stype: str,
    density: float,
    data_init: float | None = None,
    rsp_indices: Any = None,
    dtype: Any = None,
    modifier_func: Callable[[Any], Any] | None = None,
    shuffle_csr_indices: bool = False,
) -> Any:
    """Same as `create_sparse_array`, but a row_sparse array without `rsp_indices` stores no rows."""
    if stype == "row_sparse":
        density = 0.0
        if rsp_indices is not None and len(rsp_indices) > shape[0]:
            raise AssertionError(f"{len(rsp_indices)} rows of an array of {shape[0]}")
    return create_sparse_array(
        shape,
        stype,
        data_init=data_init,
        rsp_indices=rsp_indices,
        dtype=dtype,
        modifier_func=modifier_func,
        density=density,
        shuffle_csr_indices=shuffle_csr_indices,
    )


# --- shapes -------------------------------------------------------------------------------------------------------


def _extents(largest: Sequence[int], allow_zero_size: bool) -> tuple[int, ...]:
    low = 0 if allow_zero_size else 1
    return tuple(rnd.randint(low, extent + 1) for extent in largest)


def rand_shape_2d(dim0: int = 10, dim1: int = 10, allow_zero_size: bool = False) -> tuple[int, ...]:
    """A random shape with two extents of at most these."""
    return _extents((dim0, dim1), allow_zero_size)


def rand_shape_3d(dim0: int = 10, dim1: int = 10, dim2: int = 10, allow_zero_size: bool = False) -> tuple[int, ...]:
    """A random shape with three extents of at most these."""
    return _extents((dim0, dim1, dim2), allow_zero_size)


def rand_shape_nd(num_dim: int, dim: int = 10, allow_zero_size: bool = False) -> tuple[int, ...]:
    """A random shape with `num_dim` extents of at most `dim`."""
    return _extents((dim,) * num_dim, allow_zero_size)


def rand_coord_2d(x_low: int, x_high: int, y_low: int, y_high: int) -> tuple[Any, Any]:
    """A random integer point of a rectangle; the upper limits are excluded."""
    return rnd.randint(x_low, x_high, dtype=np.int64), rnd.randint(y_low, y_high, dtype=np.int64)


def np_reduce(dat: np.ndarray, axis: Any, keepdims: bool, numpy_reduce_func: Callable[..., Any]) -> np.ndarray:
    """Apply a NumPy reduction over several axes, one after another."""
    axes = [axis] if isinstance(axis, int) else list(axis) if axis is not None else list(range(dat.ndim))
    reduced = dat
    for i in sorted(axes, reverse=True):
        reduced = numpy_reduce_func(reduced, axis=i)
    if not keepdims:
        return reduced
    return reduced.reshape([1 if i in axes else extent for i, extent in enumerate(dat.shape)])


def collapse_sum_like(a: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The sum of `a` over the axes along which `shape` broadcasts to the shape of `a`."""
    if len(a.shape) < len(shape):
        raise AssertionError(f"{shape} has more axes than {a.shape}")
    if np.prod(shape) == 0 or a.size == 0:
        return np.zeros(shape, dtype=a.dtype)
    more = len(a.shape) - len(shape)
    differing = [i + more for i, extent in enumerate(shape) if extent != a.shape[i + more]]
    if any(shape[i - more] != 1 for i in differing):
        raise AssertionError(f"{shape} cannot be broadcast to {a.shape}")
    return np.sum(a, axis=(*range(more), *differing)).reshape(shape)


# --- matrices -----------------------------------------------------------------------------------------------------


def new_matrix_with_real_eigvals_2d(n: int) -> np.ndarray:
    """A matrix (n, n) with real eigenvalues in [-10, 10) and well-conditioned eigenvectors."""
    while True:
        v = rnd.uniform(-1.0, 1.0, (n, 1))
        v /= np.linalg.norm(v)
        q = (np.eye(n) - 2 * v @ v.T) @ np.diag(rnd.uniform(-1.0, 1.0, n))
        if np.linalg.cond(q, 2) < 3:
            return np.linalg.inv(q) @ np.diag(rnd.uniform(-10.0, 10.0, n)) @ q


def _stacked(make: Callable[[int], np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
    *others, _, extent = shape
    count = int(np.prod(others))
    return np.array([make(extent) for _ in range(count)]).reshape(shape)


def new_matrix_with_real_eigvals_nd(shape: tuple[int, ...]) -> np.ndarray:
    """An array whose last two axes are matrices with real eigenvalues."""
    return _stacked(new_matrix_with_real_eigvals_2d, shape)


def new_orthonormal_matrix_2d(n: int) -> np.ndarray:
    """An orthonormal matrix (n, n)."""
    x = rnd.randn(n, n)
    return np.linalg.qr(x.T @ x)[0]


def new_sym_matrix_with_real_eigvals_2d(n: int) -> np.ndarray:
    """A symmetric matrix (n, n) with eigenvalues in [-10, 10)."""
    q = new_orthonormal_matrix_2d(n)
    return q.T @ np.diag(rnd.uniform(-10.0, 10.0, n)) @ q


def new_sym_matrix_with_real_eigvals_nd(shape: tuple[int, ...]) -> np.ndarray:
    """An array whose last two axes are symmetric matrices."""
    return _stacked(new_sym_matrix_with_real_eigvals_2d, shape)
