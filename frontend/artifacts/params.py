"""Reads and writes `.params` files: MXNet's lists of arrays, with or without names, in every version of the format.

    file    = u64 0x112, u64 reserved, u64 count, array * count, u64 count of names, (u64 length, UTF-8 bytes) * that
    array   = V0  u32 ndim, u32 * ndim                           | no array if ndim is 0: nothing follows
            | V1  u32 magic, shape                               | no array if ndim is 0
            | V2  u32 magic, i32 storage, [shape of the stored data, if sparse], shape    | no array if ndim is 0
            | V3  as V2, dense only, with NumPy's shapes         | no array if a dimension is -1; ndim 0 is a scalar
      then    context (i32 device type, i32 device id), i32 dtype flag,
              [(i32 dtype flag, shape) for each auxiliary array, if sparse], data, auxiliary data
    shape   = i32 ndim, i64 * ndim

All numbers are little-endian. Source: NDArray::Save and NDArray::Load in MXNet 1.9.1's src/ndarray/ndarray.cc.
"""

from __future__ import annotations

import mmap
import os
import stat
import struct
from collections.abc import Callable, Iterator, Sequence
from math import prod
from pathlib import Path
from typing import NoReturn

import numpy as np

from ...runtime.atomic import Chunk, write_atomically
from .arrays import (
    AUXILIARIES,
    BFLOAT16_FLAG,
    CSR,
    DENSE,
    DTYPE_OF_FLAG,
    FLAG_OF_DTYPE,
    LIST_MAGIC,
    ROW_SPARSE,
    V1_MAGIC,
    V2_MAGIC,
    V3_MAGIC,
    BFloat16Data,
    CSRData,
    DenseData,
    ParamsArray,
    ParamsFile,
    RowSparseData,
    sparse_problem,
    valid_bools,
)
from .errors import ArtifactError

Source = bytes | bytearray | memoryview | mmap.mmap | str | os.PathLike[str]
Shape = tuple[int, ...]
Memory = Callable[[int], np.ndarray]

MAX_DIMENSIONS = 64  # NumPy's limit
MAX_BYTES = 2**63 - 1
CPU_0 = struct.pack("<ii", 1, 0)


def _new_memory(size: int) -> np.ndarray:
    return np.empty(size, np.uint8)


def read_params(source: Source, memory: Memory = _new_memory) -> ParamsFile:
    """Read the arrays and names of `source`: a path, or the content (bytes, or a mapped file).

    Arrays are read-only. An array that is aligned in the file is a view of one buffer, others are copies. A mapped file
    must not change while the arrays exist. The content of a path is read into the uint8 array that `memory(size)`
    returns. Sizes are checked against the file before anything is allocated, and indices of sparse arrays are checked
    against the shape. Bytes after the names are ignored, as in MXNet. Raises ArtifactError, with the position, if the
    file is damaged, and OSError as `open` does.
    """
    if isinstance(source, str | os.PathLike):
        reader = _Reader(_read_file(Path(source), memory), os.fspath(source))
    else:
        reader = _Reader(np.frombuffer(source, np.uint8), "params data")
    return reader.read_list()


def _read_file(path: Path, memory: Memory) -> np.ndarray:
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise ArtifactError(f"{path}: not a regular file")
        buffer = memory(status.st_size)
        return buffer[: file.readinto(buffer.data)]


class _Reader:
    """A parser of one file: its bytes, the current position, and a method for each part of the format."""

    def __init__(self, buffer: np.ndarray, label: str) -> None:
        self.buffer = buffer
        self.view = buffer.data
        self.label = label
        self.offset = 0
        self.part = "header"
        self.numpy_shapes = False

    def fail(self, problem: str) -> NoReturn:
        raise ArtifactError(f"{self.label}: {self.part}, at byte {self.offset}: {problem}")

    # Primitives. Each checks that enough bytes are left before it reads them.

    def take(self, size: int, what: str) -> int:
        """Skip `size` bytes. Returns the offset of the first one."""
        left = len(self.buffer) - self.offset
        if size > left:
            self.fail(f"{what} requires {size} bytes, but only {left} are left")
        begin = self.offset
        self.offset += size
        return begin

    def unpack(self, layout: str, what: str) -> tuple[int, ...]:
        return struct.unpack_from(layout, self.view, self.take(struct.calcsize(layout), what))

    def number(self, layout: str, what: str) -> int:
        return self.unpack(layout, what)[0]

    def count(self, smallest: int, what: str) -> int:
        """A 64-bit count of items, each of which has at least `smallest` bytes."""
        n = self.number("<Q", what)
        if n * smallest > len(self.buffer) - self.offset:
            self.fail(f"{what} is {n}, too many for the {len(self.buffer) - self.offset} bytes left")
        return n

    def dimensions(self, ndim: int, code: str) -> Shape:
        if not 0 <= ndim <= MAX_DIMENSIONS:
            self.fail(f"{ndim} dimensions; 0 to {MAX_DIMENSIONS} are possible (or this is not an array)")
        return self.unpack(f"<{ndim}{code}", "the shape")

    def shape(self) -> Shape:
        return self.dimensions(self.number("<i", "the number of dimensions"), "q")

    # The list.

    def read_list(self) -> ParamsFile:
        magic, _reserved = self.unpack("<QQ", "the header")
        if magic != LIST_MAGIC:
            self.offset = 0
            self.fail(f"starts with {magic:#x} and not {LIST_MAGIC:#x}: this is not a .params file")
        arrays = [self.array(i) for i in range(self.count(4, "the number of arrays"))]
        self.part = "names"
        names = [self.name(i) for i in range(self.count(8, "the number of names"))]
        if names and len(names) != len(arrays):
            self.fail(f"{len(names)} names for {len(arrays)} arrays")
        return ParamsFile(names, arrays, self.numpy_shapes)

    def name(self, index: int) -> str:
        self.part = f"name {index}"
        size = self.number("<Q", "its length")
        begin = self.take(size, "the name")
        try:
            return str(self.view[begin : self.offset], "utf-8")
        except UnicodeDecodeError as error:
            self.fail(f"the name is not UTF-8 ({error.reason})")

    # One array.

    def array(self, index: int) -> ParamsArray:
        self.part = f"array {index}"
        magic = self.number("<I", "its magic number")
        if magic in (V2_MAGIC, V3_MAGIC):
            self.numpy_shapes = magic == V3_MAGIC
            return self.current_array(self.numpy_shapes)
        shape = self.shape() if magic == V1_MAGIC else self.dimensions(magic, "I")
        return self.dense(shape) if shape else None

    def current_array(self, numpy_shapes: bool) -> ParamsArray:
        storage = self.number("<i", "the storage type")
        if storage not in AUXILIARIES or (numpy_shapes and storage != DENSE):
            kinds = "0" if numpy_shapes else ", ".join(map(str, AUXILIARIES))
            self.fail(f"storage type {storage} is unknown (expected {kinds})")
        stored = self.shape() if storage != DENSE else ()
        shape = self.shape()
        if numpy_shapes and -1 in shape:
            return None
        if not numpy_shapes and not shape:
            return None
        return self.dense(shape) if storage == DENSE else self.sparse(storage, shape, stored)

    def context_and_flag(self) -> int:
        """Read the context, which is ignored, and the dtype flag. Returns the flag."""
        return self.unpack("<iii", "the context and dtype")[2]

    def dense(self, shape: Shape) -> DenseData:
        return self.data(shape, self.context_and_flag())

    def sparse(self, storage: int, shape: Shape, stored: Shape) -> CSRData | RowSparseData:
        flag = self.context_and_flag()
        headers = [(self.number("<i", f"the dtype of {name}"), self.shape()) for name in AUXILIARIES[storage]]
        data = self.data((*headers[-1][1], *stored[1:]), flag)  # MXNet's own can be outdated
        auxiliaries = [self.indices(shape, flag) for flag, shape in headers]
        array = CSRData(shape, data, *auxiliaries[::-1]) if storage == CSR else RowSparseData(shape, data, *auxiliaries)
        if problem := sparse_problem(array):
            self.fail(problem)
        return array

    def data(self, shape: Shape, flag: int) -> DenseData:
        if flag == BFLOAT16_FLAG:
            return BFloat16Data(self.values(shape, np.dtype("<u2")))
        if flag not in DTYPE_OF_FLAG:
            self.fail(f"dtype flag {flag} is unknown")
        return self.values(shape, DTYPE_OF_FLAG[flag])

    def values(self, shape: Shape, dtype: np.dtype) -> np.ndarray:
        """Read elements of this shape and dtype, read-only."""
        if min(shape, default=0) < 0:
            self.fail(f"shape {shape} has a negative dimension")
        if prod(n for n in shape if n) * dtype.itemsize > MAX_BYTES:
            self.fail(f"shape {shape} is larger than {MAX_BYTES} bytes")
        size = prod(shape)
        begin = self.take(size * dtype.itemsize, f"{dtype.name} data of shape {shape}")
        array = np.frombuffer(self.buffer, dtype, size, begin) if size else np.empty(0, dtype)
        array = valid_bools(array) if dtype == np.bool_ else array
        array = (array if array.flags.aligned else array.copy()).reshape(shape)
        array.flags.writeable = False
        return array

    def indices(self, shape: Shape, flag: int) -> np.ndarray:
        dtype = DTYPE_OF_FLAG.get(flag)
        if dtype is None or dtype.kind not in "iu" or len(shape) != 1:
            self.fail(f"an index array of shape {shape} and dtype flag {flag}; it must be integers along one axis")
        return self.values(shape, dtype)


def write_params(
    path: str | os.PathLike[str],
    names: Sequence[str],
    arrays: Sequence[ParamsArray],
    *,
    numpy_shapes: bool | None = None,
) -> None:
    """Write a file as MXNet 1.9.1 does, atomically. `names` is empty, or has a name for each array.

    MXNet reads a file either with NumPy's shapes (V3) or without (V2), so all arrays have the same version. It is V3 if
    `numpy_shapes` is true, or if it is None and an array is a scalar. V3 does not support sparse arrays. An array that
    the format cannot represent raises ArtifactError before anything is written.
    """
    write_atomically(path, list(_chunks(names, arrays, numpy_shapes)))


def dump_params(names: Sequence[str], arrays: Sequence[ParamsArray], *, numpy_shapes: bool | None = None) -> bytes:
    """The bytes that `write_params` writes."""
    return b"".join(_chunks(names, arrays, numpy_shapes))


def _chunks(names: Sequence[str], arrays: Sequence[ParamsArray], numpy_shapes: bool | None) -> Iterator[Chunk]:
    if names and len(names) != len(arrays):
        raise ArtifactError(f"{len(names)} names for {len(arrays)} arrays")
    if numpy_shapes is None:
        numpy_shapes = any(isinstance(a, np.ndarray | BFloat16Data) and a.shape == () for a in arrays)
    yield struct.pack("<QQQ", LIST_MAGIC, 0, len(arrays))
    for i, array in enumerate(arrays):
        label = f"array {i}" + (f" ({names[i]!r})" if names else "")
        yield from _array_chunks(array, numpy_shapes, label)
    yield struct.pack("<Q", len(names))
    for name in names:
        encoded = _encode(name)
        yield struct.pack("<Q", len(encoded)) + encoded


def _encode(name: str) -> bytes:
    try:
        return name.encode()
    except UnicodeEncodeError as error:
        raise ArtifactError(f"the name {name!r} cannot be written as UTF-8 ({error.reason})") from None


def _array_chunks(array: ParamsArray, numpy_shapes: bool, label: str) -> Iterator[Chunk]:
    """The bytes of one array, in V2 or, with `numpy_shapes`, in V3."""
    magic = V3_MAGIC if numpy_shapes else V2_MAGIC
    if array is None:
        yield struct.pack("<Ii", magic, DENSE) + _shape_bytes((-1,) if numpy_shapes else ())
        return
    storage, data, auxiliaries = _parts(array, label)
    if numpy_shapes and storage != DENSE:
        raise ArtifactError(f"{label}: a sparse array cannot be saved with NumPy's shapes, or next to a scalar")
    if not numpy_shapes and array.shape == ():
        raise ArtifactError(f"{label}: a scalar can be saved with NumPy's shapes only")
    flag, values = _flag_and_values(data, label)
    stored = _shape_bytes(values.shape) if storage != DENSE else b""
    yield struct.pack("<Ii", magic, storage) + stored + _shape_bytes(array.shape) + CPU_0 + struct.pack("<i", flag)
    flagged = [_flag_and_values(a, label) for a in auxiliaries]
    yield b"".join(struct.pack("<i", flag) + _shape_bytes(a.shape) for flag, a in flagged)
    yield from (_payload(a) for a in (values, *(a for _, a in flagged)))


def _parts(array: ParamsArray, label: str) -> tuple[int, DenseData, tuple[np.ndarray, ...]]:
    """The storage type, the data, and the auxiliary arrays in the file's order."""
    match array:
        case CSRData() | RowSparseData() if problem := sparse_problem(array):
            raise ArtifactError(f"{label}: {problem}")
        case CSRData():
            return CSR, array.data, (array.indptr, array.indices)
        case RowSparseData():
            return ROW_SPARSE, array.data, (array.indices,)
        case np.ndarray() | BFloat16Data():
            return DENSE, array, ()
        case _:
            raise ArtifactError(f"{label}: a {type(array).__name__} cannot be saved")


def _flag_and_values(data: DenseData, label: str) -> tuple[int, np.ndarray]:
    if isinstance(data, BFloat16Data):
        return BFLOAT16_FLAG, data.bits.astype("<u2", copy=False)
    little = data.dtype.newbyteorder("<")
    if little not in FLAG_OF_DTYPE:
        raise ArtifactError(f"{label}: the format has no code for dtype {data.dtype}")
    return FLAG_OF_DTYPE[little], data.astype(little, copy=False)


def _shape_bytes(shape: Shape) -> bytes:
    return struct.pack(f"<i{len(shape)}q", len(shape), *shape)


def _payload(array: np.ndarray) -> Chunk:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data if array.size else b""
