"""Named arrays in other file formats: safetensors here, NumPy's .npz in `numpy_files`, PyTorch's in `torch_files`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from ...runtime.atomic import write_atomically
from .arrays import BFloat16Data, ParamsArray, valid_bools
from .errors import ArtifactError
from .numpy_files import dense_array, read_npz, write_npz
from .torch_files import read_torch

# safetensors' dtype names, except bfloat16, which is stored as its bits.
_SAFETENSORS = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "i1",
    "U64": "<u8",
    "U32": "<u4",
    "U16": "<u2",
    "U8": "u1",
    "BOOL": "?",
}
_NAME_OF_DTYPE = {np.dtype(dtype): name for name, dtype in _SAFETENSORS.items()}


def read_safetensors(path: Path) -> dict[str, ParamsArray]:
    """Read a safetensors file. Raises ArtifactError if it is damaged or contains a dtype that MXNet does not have.

    The file consists of the length of a JSON object (8 bytes), the object, and the arrays' bytes. For each name, the
    object has a dtype, a shape, and the start and end offsets of the array's bytes.
    """
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    if len(data) < 8 or size > len(data) - 8:
        raise ArtifactError(f"{path}: not a safetensors file: its header is longer than the file")
    try:
        header = json.loads(data[8 : 8 + size])
        entries = {name: entry for name, entry in header.items() if name != "__metadata__"}
        return {name: _from_safetensors(name, entry, data[8 + size :]) for name, entry in entries.items()}
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise ArtifactError(f"{path}: not a safetensors file, or damaged: {error}") from error


def _from_safetensors(name: str, entry: Mapping[str, Any], data: bytes) -> ParamsArray:
    dtype_name, shape, (begin, end) = entry["dtype"], entry["shape"], entry["data_offsets"]
    if dtype_name != "BF16" and dtype_name not in _SAFETENSORS:
        raise ArtifactError(f"{name!r} has dtype {dtype_name}, which MXNet does not have")
    if not 0 <= begin <= end <= len(data):
        raise ArtifactError(f"the bytes of {name!r} are not in the file")
    dtype = np.dtype("<u2" if dtype_name == "BF16" else _SAFETENSORS[dtype_name])
    if any(type(n) is not int or n < 0 for n in shape) or prod(shape) * dtype.itemsize != end - begin:
        raise ArtifactError(f"{name!r} of shape {shape} and dtype {dtype_name} has {end - begin} bytes")
    values = np.frombuffer(data[begin:end], dtype).reshape(shape)
    values = valid_bools(values) if dtype_name == "BOOL" else values
    return BFloat16Data(values) if dtype_name == "BF16" else values


def write_safetensors(path: Path, arrays: Mapping[str, ParamsArray]) -> None:
    """Write a safetensors file, atomically. Raises ArtifactError for sparse arrays."""
    header: dict[str, Any] = {}
    chunks: list[bytes] = []
    end = 0
    for name, array in arrays.items():
        dense = dense_array(name, array.bits if isinstance(array, BFloat16Data) else array)
        dtype_name = "BF16" if isinstance(array, BFloat16Data) else _NAME_OF_DTYPE[dense.dtype]
        begin, end = end, end + dense.nbytes
        header[name] = {"dtype": dtype_name, "shape": dense.shape, "data_offsets": [begin, end]}
        chunks.append(dense.tobytes())
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # aligns the arrays
    write_atomically(path, [len(text).to_bytes(8, "little"), text, *chunks])


Reader = Callable[[Path], Mapping[str, ParamsArray]]
Writer = Callable[[Path, Mapping[str, ParamsArray]], None]

READERS: dict[str, Reader] = {
    ".npz": read_npz,
    ".safetensors": read_safetensors,
    ".pt": read_torch,
    ".pth": read_torch,
}
"""The reader of each file suffix."""

WRITERS: dict[str, Writer] = {".npz": write_npz, ".safetensors": write_safetensors}
"""The writer of each file suffix."""
