"""The data sources of NDArrayIter: named arrays, and reading the samples of a batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..base import mx_real_t
from ..ndarray import NDArray, array
from ..ndarray.ndarray import empty_array
from ..ndarray.sparse import CSRNDArray, csr_matrix
from ..tracebacks import cause_of

Named = list[tuple[str, Any]]


def named_sources(data: Any, default_name: str, allow_empty: bool) -> Named:
    """Named arrays, sorted by name. One array is named `default_name`; several are named `_0_data`, `_1_data`, ..."""
    if data is None:
        data = []
    if hasattr(data, "shape"):
        data = [data]
    if isinstance(data, Mapping):
        named = list(data.items())
    elif not isinstance(data, list | tuple):
        raise TypeError(f"NDArrayIter requires arrays, lists or dictionaries of arrays, not {type(data).__name__}")
    elif len(data) == 1:
        named = [(default_name, data[0])]
    else:
        named = [(f"_{i}_{default_name}", values) for i, values in enumerate(data)]
    if not named and not allow_empty:
        raise ValueError("NDArrayIter requires data")
    return sorted(((name, _source(name, values)) for name, values in named), key=lambda pair: pair[0])


def _source(name: str, values: Any) -> Any:
    """`values` as an NDArray: float32 unless they are an NDArray already. HDF5 datasets are returned unchanged."""
    if _is_hdf5(values):
        return values
    if isinstance(values, NDArray):
        return values.tostype("default") if values.stype == "row_sparse" else values
    try:
        return array(values)
    except (TypeError, ValueError) as error:
        text = f"Invalid type '{type(values)}' for {name}, should be NDArray or numpy.ndarray"
        raise TypeError(text) from cause_of(error)


def _is_hdf5(values: Any) -> bool:
    return type(values).__module__.partition(".")[0] == "h5py"


def dtype_of_source(source: Any) -> Any:
    return source.dtype if isinstance(source, NDArray) else mx_real_t


def take_examples(source: Any, positions: np.ndarray, axis: int) -> NDArray:
    """The samples at these positions along `axis`, as a new array of the source's storage type."""
    if isinstance(source, CSRNDArray):
        return _take_rows(source, positions)
    if not isinstance(source, NDArray):  # HDF5 requires strictly increasing indices
        distinct, order = np.unique(positions, return_inverse=True)
        return array(np.take(source[(slice(None),) * axis + (distinct,)], order, axis))
    if not source._on_host:
        return source._like(np.take(source._memory(), positions, axis))
    shape = (*source.shape[:axis], len(positions), *source.shape[axis + 1 :])
    result = empty_array(shape, source._dtype, source.context)
    first = int(positions[0]) if len(positions) else 0
    if np.array_equal(positions, np.arange(first, first + len(positions))):
        part = (slice(None),) * axis + (slice(first, first + len(positions)),)
        np.copyto(result._memory(), source._memory()[part])
    else:  # NumPy copies once more if it checks indices
        np.take(source._memory(), positions, axis, out=result._memory(), mode="clip")
    return result


def _take_rows(matrix: CSRNDArray, positions: np.ndarray) -> CSRNDArray:
    starts = matrix.indptr.asnumpy().astype(np.int64)
    counts = np.diff(starts)[positions]
    ends = np.cumsum(counts)
    stored = np.arange(ends[-1]) + np.repeat(starts[positions] - ends + counts, counts)
    return csr_matrix(
        (matrix.data.asnumpy()[stored], matrix.indices.asnumpy()[stored], np.concatenate([[0], ends])),
        shape=(len(positions), matrix.shape[1]),
        ctx=matrix.context,
        dtype=matrix.dtype,
    )
