"""The contents of a `.params` file: array kinds that NumPy does not have, and the dtype codes of the format."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...ir.lazy_dataclass import dataclass

# mshadow's TypeFlag. Flags 9 to 11 exist since MXNet 2.0: MXNet 1.9.1 cannot read files with them.
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

# The magic number at the start of an array. A version 0 array has none: it starts with its number of dimensions.
V1_MAGIC, V2_MAGIC, V3_MAGIC = 0xF993FAC8, 0xF993FAC9, 0xF993FACA
LIST_MAGIC = 0x112

# NDArrayStorageType, and the auxiliary arrays of each sparse kind in the order of the file.
DENSE, ROW_SPARSE, CSR = 0, 1, 2
AUXILIARIES: dict[int, tuple[str, ...]] = {DENSE: (), ROW_SPARSE: ("indices",), CSR: ("indptr", "indices")}


@dataclass(frozen=True, eq=False)
class BFloat16Data:
    """Dense bfloat16 values, for which NumPy has no dtype. `bits` contains each value's 16 bits as uint16."""

    bits: NDArray[np.uint16]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.bits.shape

    def to_float32(self) -> NDArray[np.float32]:
        """The values as float32, exactly."""
        return np.asarray(self.bits.astype(np.uint32) << 16).view(np.float32)

    @classmethod
    def from_float32(cls, values: NDArray[np.float32]) -> BFloat16Data:
        """Round to the nearest bfloat16 values, ties to even. A NaN stays a NaN."""
        wide = np.asarray(values, np.float32).view(np.uint32).astype(np.uint64)
        rounded = (wide + ((wide >> 16) & 1) + 0x7FFF) >> 16
        quiet_nan = (wide >> 16) | 0x40
        return cls(np.where(np.isnan(values), quiet_nan, rounded).astype(np.uint16))


DenseData = np.ndarray | BFloat16Data


@dataclass(frozen=True, eq=False)
class CSRData:
    """A matrix in compressed rows: row r has data[s] at columns indices[s], where s is indptr[r]:indptr[r + 1]."""

    shape: tuple[int, ...]
    data: DenseData
    indices: np.ndarray
    indptr: np.ndarray


@dataclass(frozen=True, eq=False)
class RowSparseData:
    """A tensor whose only nonzero slices along axis 0 are `indices`: data[i] is slice indices[i]."""

    shape: tuple[int, ...]
    data: DenseData
    indices: np.ndarray


def sparse_problem(array: CSRData | RowSparseData) -> str | None:
    """The reason why `array` is invalid, or None. Kernels use indices as addresses, so they must be in bounds."""
    if min(array.shape, default=-1) < 0:
        return f"shape {array.shape} is invalid for a sparse array"
    if array.indices.ndim != 1 or array.indices.dtype.kind not in "iu":
        return f"indices of shape {array.indices.shape} and dtype {array.indices.dtype}"
    if isinstance(array, CSRData):
        return _indptr_problem(array) or data_problem(array) or _bounds_problem(array.indices, array.shape[1])
    return data_problem(array) or _bounds_problem(array.indices, array.shape[0])


def data_problem(array: CSRData | RowSparseData) -> str | None:
    """The reason why the number of stored elements is invalid, or None."""
    item = () if isinstance(array, CSRData) else array.shape[1:]
    expected = (len(array.indices), *item)
    if array.data.shape != expected:
        return f"sparse data of shape {array.data.shape}, but the indices require {expected}"
    return None


def rows_problem(array: CSRData) -> str | None:
    """The reason why the number of rows is invalid, or None."""
    if len(array.shape) != 2:
        return f"a csr array has 2 dimensions, this has {len(array.shape)}"
    indptr, rows = array.indptr, array.shape[0]
    if indptr.shape != (rows + 1,) or indptr.dtype.kind not in "iu":
        return f"csr indptr of shape {indptr.shape} and dtype {indptr.dtype} for {rows} rows"
    return None


def _indptr_problem(array: CSRData) -> str | None:
    indptr, stored = array.indptr, len(array.indices)
    problem = rows_problem(array)
    if problem is None and (indptr[0] != 0 or indptr[-1] != stored or np.any(indptr[1:] < indptr[:-1])):
        return f"csr indptr does not increase from 0 to the {stored} stored values"
    return problem


def _bounds_problem(indices: np.ndarray, size: int) -> str | None:
    if len(indices) and (indices.min() < 0 or indices.max() >= size):
        return f"indices range from {indices.min()} to {indices.max()}, outside 0 to {size - 1}"
    return None


def valid_bools(array: np.ndarray) -> np.ndarray:
    """`array`, or a copy in which every nonzero byte is 1: NumPy assumes that a bool is the byte 0 or 1."""
    raw = array.view(np.uint8)
    return raw != 0 if raw.size and raw.max() > 1 else array


# None is an array that MXNet never allocated.
ParamsArray = np.ndarray | BFloat16Data | CSRData | RowSparseData | None


@dataclass(frozen=True, eq=False)
class ParamsFile:
    """The arrays of a `.params` file, in file order. `names` is empty if the file contains a list without names."""

    names: list[str]
    arrays: list[ParamsArray]
    numpy_shapes: bool = False
    """True if the arrays were saved with NumPy's shape semantics (V3)."""
