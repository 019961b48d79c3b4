"""What a `.params` file holds: the array kinds that NumPy lacks, and the numbers that stand for dtypes in the file."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

# mshadow's TypeFlag. Flags 9 to 11 exist since MXNet 2.0: 1.9.1 cannot read them, so whoever writes them should know.
DTYPE_OF_FLAG: dict[int, np.dtype] = {
    0: np.dtype("<f4"),
    1: np.dtype("<f8"),
    2: np.dtype("<f2"),
    3: np.dtype("u1"),
    4: np.dtype("<i4"),
    5: np.dtype("i1"),
    6: np.dtype("<i8"),
    7: np.dtype("?"),
    8: np.dtype("<i2"),
    9: np.dtype("<u2"),
    10: np.dtype("<u4"),
    11: np.dtype("<u8"),
}
BFLOAT16_FLAG = 12
FLAG_OF_DTYPE = {dtype: flag for flag, dtype in DTYPE_OF_FLAG.items()}

# The magic numbers that begin an array. A version 0 array has none and begins with its number of dimensions.
V1_MAGIC, V2_MAGIC, V3_MAGIC = 0xF993FAC8, 0xF993FAC9, 0xF993FACA
LIST_MAGIC = 0x112

# NDArrayStorageType, and the auxiliary arrays of each sparse kind in the order of the file.
DENSE, ROW_SPARSE, CSR = 0, 1, 2
AUXILIARIES: dict[int, tuple[str, ...]] = {DENSE: (), ROW_SPARSE: ("indices",), CSR: ("indptr", "indices")}


@dataclass(frozen=True, eq=False)
class BFloat16Data:
    """Dense bfloat16 values, which NumPy has no dtype for: `bits` holds each value's 16 bits as uint16."""

    bits: NDArray[np.uint16]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.bits.shape

    def to_float32(self) -> NDArray[np.float32]:
        """The values as float32; exact."""
        return np.asarray(self.bits.astype(np.uint32) << 16).view(np.float32)

    @classmethod
    def from_float32(cls, values: NDArray[np.float32]) -> BFloat16Data:
        """The nearest bfloat16 values, ties to even; a NaN stays a NaN."""
        wide = np.asarray(values, np.float32).view(np.uint32).astype(np.uint64)
        rounded = (wide + ((wide >> 16) & 1) + 0x7FFF) >> 16
        quiet_nan = (wide >> 16) | 0x40
        return cls(np.where(np.isnan(values), quiet_nan, rounded).astype(np.uint16))


DenseData = np.ndarray | BFloat16Data


@dataclass(frozen=True, eq=False)
class CSRData:
    """A matrix in compressed rows: row r holds data[s] at columns indices[s], where s is indptr[r]:indptr[r + 1]."""

    shape: tuple[int, ...]
    data: DenseData
    indices: np.ndarray
    indptr: np.ndarray


@dataclass(frozen=True, eq=False)
class RowSparseData:
    """A tensor of which only the slices `indices` along axis 0 are not zero: data[i] is slice indices[i]."""

    shape: tuple[int, ...]
    data: DenseData
    indices: np.ndarray


def sparse_problem(array: CSRData | RowSparseData) -> str | None:
    """What makes `array` impossible, or None. Indices become addresses in kernels, so each must lie in the shape."""
    if min(array.shape, default=-1) < 0:
        return f"shape {array.shape} is impossible for a sparse array"
    if array.indices.ndim != 1 or array.indices.dtype.kind not in "iu":
        return f"indices of shape {array.indices.shape} and dtype {array.indices.dtype}"
    if isinstance(array, CSRData):
        return _indptr_problem(array) or data_problem(array) or _bounds_problem(array.indices, array.shape[1])
    return data_problem(array) or _bounds_problem(array.indices, array.shape[0])


def data_problem(array: CSRData | RowSparseData) -> str | None:
    """What is wrong with the number of stored elements, or None."""
    item = () if isinstance(array, CSRData) else array.shape[1:]
    expected = (len(array.indices), *item)
    if array.data.shape != expected:
        return f"sparse data of shape {array.data.shape}, but the indices ask for {expected}"
    return None


def rows_problem(array: CSRData) -> str | None:
    """What is wrong with the number of rows, or None."""
    if len(array.shape) != 2:
        return f"a csr array has 2 dimensions, this has {len(array.shape)}"
    indptr, rows = array.indptr, array.shape[0]
    if indptr.shape != (rows + 1,) or indptr.dtype.kind not in "iu":
        return f"csr indptr of shape {indptr.shape} and dtype {indptr.dtype} for {rows} rows"
    return None


def _indptr_problem(array: CSRData) -> str | None:
    indptr, stored = array.indptr, len(array.indices)
    wrong = rows_problem(array)
    if wrong is None and (indptr[0] != 0 or indptr[-1] != stored or np.any(indptr[1:] < indptr[:-1])):
        return f"csr indptr does not rise from 0 to the {stored} stored values"
    return wrong


def _bounds_problem(indices: np.ndarray, size: int) -> str | None:
    if len(indices) and (indices.min() < 0 or indices.max() >= size):
        return f"indices reach from {indices.min()} to {indices.max()}, outside 0 to {size - 1}"
    return None


def valid_bools(array: np.ndarray) -> np.ndarray:
    """`array`, or a copy where each byte but 0 is a proper True: NumPy assumes that only bytes 0 and 1 occur."""
    raw = array.view(np.uint8)
    return raw != 0 if raw.size and raw.max() > 1 else array


# None is MXNet's array that was never allocated.
ParamsArray = np.ndarray | BFloat16Data | CSRData | RowSparseData | None


@dataclass(frozen=True, eq=False)
class ParamsFile:
    """The arrays of a `.params` file in its order; `names` is empty when a list without names was saved."""

    names: list[str]
    arrays: list[ParamsArray]
