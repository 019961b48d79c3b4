"""Saves and loads arrays as `.params` files, the format that every version of MXNet reads."""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...ir.types import DType
from ...runtime.storage import Storage, as_numpy
from ..artifacts import (
    ArtifactError,
    BFloat16Data,
    CSRData,
    ParamsArray,
    ParamsFile,
    RowSparseData,
    dump_params,
    read_params,
    write_params,
)
from ..artifacts.arrays import LIST_MAGIC
from ..base import MXNetError
from ..context import cpu
from ..dtypes import dtype_of
from ..memory import allocate
from ..tracebacks import cause_of
from ..util import is_np_shape
from .array_classes import array_at, array_class, empty_array

if TYPE_CHECKING:
    from .ndarray import NDArray

__all__ = ["load", "load_frombuffer", "save"]


def save(fname: str | os.PathLike[str], data: NDArray | Sequence[NDArray] | dict[str, NDArray]) -> None:
    """Writes arrays to a file.

    Args:
        fname: Path of the file.
        data: An array, a list of arrays, or a dictionary of arrays by name.

    Example:
        >>> mx.nd.save("arrays.params", {"x": mx.nd.ones((2,))})
        >>> mx.nd.load("arrays.params")["x"].asnumpy()
        array([1., 1.], dtype=float32)
    """
    names, arrays = _named(data)
    try:
        write_params(fname, names, [to_data(a) for a in arrays], numpy_shapes=is_np_shape() or None)
    except (ArtifactError, OSError) as error:
        raise MXNetError(str(error)) from cause_of(error)


def load(fname: str | os.PathLike[str]) -> Any:
    """Reads the arrays of a file.

    Args:
        fname: Path of the file.
    Returns:
        A dictionary of arrays by name, or a list if they have no names. MXNetError if the file cannot be read.
    """
    return _loaded(fname)


def load_frombuffer(buf: bytes | bytearray | memoryview) -> Any:
    """Reads the arrays of a file's content, as `load` does."""
    if not isinstance(buf, bytes | bytearray | memoryview):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError("buf required to be bytes")
    return _loaded(buf)


def _named(data: Any) -> tuple[list[str], list[NDArray]]:
    if isinstance(data, array_class()):
        return [], [data]
    if isinstance(data, dict):
        if all(isinstance(k, str) and isinstance(v, array_class()) for k, v in data.items()):
            return list(data), list(data.values())
        raise TypeError("save only accept dict str->NDArray or list of NDArray")
    if isinstance(data, list | tuple):
        if all(isinstance(v, array_class()) for v in data):
            return [], list(data)
        raise TypeError("save only accept dict str->NDArray or list of NDArray")
    raise ValueError(
        f"data needs to either be a NDArray, dict of str, NDArray pairs or a list of NDarrays, not {type(data)}"
    )


def _loaded(source: Any) -> Any:
    """The arrays of a file. They share the memory into which the file is read, unless they are not aligned there."""
    blocks: list[Storage] = []

    def memory(size: int) -> np.ndarray:
        blocks.append(allocate(size))
        return as_numpy(blocks[0], np.uint8, (size,))

    try:
        file: ParamsFile = read_params(source, memory)
    except (ArtifactError, OSError) as error:
        raise MXNetError(str(error)) from cause_of(error)
    label = os.fspath(source) if isinstance(source, str | os.PathLike) else "params data"
    _check_shapes(file, label)
    try:
        arrays = [from_data(a, blocks[0] if blocks else None) for a in file.arrays]
    except MXNetError as error:
        raise MXNetError(f"{label}: {error}") from None
    return dict(zip(file.names, arrays, strict=True)) if file.names else arrays


def _check_shapes(file: ParamsFile, label: str) -> None:
    """MXNetError for an array without elements in a file of the other shape semantics, in which 0 means otherwise."""
    empty = [a.shape for a in file.arrays if a is not None and 0 in a.shape]
    if empty and file.numpy_shapes != is_np_shape():
        how = "" if file.numpy_shapes else "not "
        raise MXNetError(
            f"{label}: an array of shape {empty[0]} was {how}saved in np shape semantics, must be loaded in the same "
            f"semantics. Please turn {'on' if file.numpy_shapes else 'off'} np shape semantics in Python using "
            f"`with mx.util.np_shape({file.numpy_shapes})`"
        )


def to_data(array: NDArray) -> ParamsArray:
    """The array as input of the file writer."""
    if array._is_sparse:
        parts = [part.asnumpy() for part in array._parts]  # type: ignore[attr-defined]
        return CSRData(array.shape, *parts) if array.stype == "csr" else RowSparseData(array.shape, *parts)
    memory = array._memory().copy()
    return BFloat16Data(memory) if array._dtype is DType.BF16 else memory


def from_data(data: ParamsArray, block: Storage | None = None) -> Any:
    """An array on cpu(0) from the output of the file reader: on the same memory if that is in `block`, else a copy.
    MXNetError for an array without a shape.
    """
    if data is None:
        raise MXNetError("the file contains an array without a shape")
    if isinstance(data, CSRData):
        csr: Any = array_class("csr")
        return csr._of_file(data.shape, _plain(data.data), data.indices, data.indptr)
    if isinstance(data, RowSparseData):
        row_sparse: Any = array_class("row_sparse")
        return row_sparse._of_file(data.shape, _plain(data.data), data.indices)
    memory = data.bits if isinstance(data, BFloat16Data) else data
    dtype = DType.BF16 if isinstance(data, BFloat16Data) else dtype_of(data.dtype)
    address = memory.ctypes.data
    if block is not None and block.address <= address and address + memory.nbytes <= block.address + block.nbytes:
        return array_at(block, address, memory.shape, dtype, cpu())
    result = empty_array(memory.shape, dtype, cpu())
    result._write(memory)
    return result


def _plain(data: np.ndarray | BFloat16Data) -> np.ndarray:
    return data.to_float32() if isinstance(data, BFloat16Data) else data


def to_bytes(array: NDArray) -> bytes:
    """One array as the content of a `.params` file."""
    return dump_params([], [to_data(array)], numpy_shapes=is_np_shape() or None)


def from_bytes(content: bytes) -> Any:
    """The array from the content that `to_bytes` returns."""
    return from_data(read_params(content).arrays[0])


def from_raw_bytes(content: bytes) -> Any:
    """The array that MXNet wrote without the file's header and names, as in pickles."""
    head, no_names = struct.pack("<QQQ", LIST_MAGIC, 0, 1), struct.pack("<Q", 0)
    try:
        return from_bytes(head + content + no_names)
    except ArtifactError as error:
        raise MXNetError(f"a pickled array cannot be read: {error}") from cause_of(error)
