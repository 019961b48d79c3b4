"""Reads and writes NumPy's .npy and .npz files, without unpickling.

Source of the formats: numpy/lib/format.py, and APPNOTE.TXT of PKWARE for the archive. NumPy's reader is not used: it
allocates the size that a damaged header claims, and its errors recommend unpickling.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import IO, NoReturn

import numpy as np

from ...runtime.atomic import write_atomically
from .arrays import BFloat16Data, ParamsArray
from .errors import ArtifactError

_MAGIC = b"\x93NUMPY"
_READ_HEADER = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
_MAX_EXPANSION = 1032  # the largest compression ratio of deflate
_ENCRYPTED = 1  # a flag bit of a member


def read_npy(path: Path) -> np.ndarray:
    """Read a .npy file. Raises ArtifactError if it is damaged or contains Python objects, OSError as `open` does."""
    return _array(path.read_bytes(), str(path))


def read_npz(path: Path) -> dict[str, np.ndarray]:
    """Read a .npz file. Returns the arrays by name.

    Raises ArtifactError if the file is damaged or contains other members, and OSError as `open` does.
    """
    with path.open("rb") as file:
        return _members(file, str(path))


def _members(file: IO[bytes], label: str) -> dict[str, np.ndarray]:
    try:
        with zipfile.ZipFile(file) as archive:
            return {
                member.filename.removesuffix(".npy"): _array(
                    member_content(archive, member, label), _label(member, label)
                )
                for member in archive.infolist()
            }
    except ArtifactError:
        raise
    except Exception as error:  # zipfile does not convert errors of struct, zlib, codecs and the file
        raise ArtifactError(f"{label}: not a .npz file, or damaged ({error or type(error).__name__})") from error


def _label(member: zipfile.ZipInfo, label: str) -> str:
    return f"{label}: {member.filename!r}"


def member_content(archive: zipfile.ZipFile, member: zipfile.ZipInfo, label: str) -> bytes:
    """The bytes of a member. Raises ArtifactError if it claims more bytes than its compressed bytes can expand to."""
    where = _label(member, label)
    if member.flag_bits & _ENCRYPTED:
        raise ArtifactError(f"{where} is encrypted")
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ArtifactError(f"{where} is compressed by method {member.compress_type}, which cannot be read")
    expansion = 1 if member.compress_type == zipfile.ZIP_STORED else _MAX_EXPANSION
    size = archive.fp.seek(0, io.SEEK_END) if archive.fp is not None else 0
    if member.file_size > min(member.compress_size, size) * expansion:
        raise ArtifactError(f"{where} claims {member.file_size} bytes, more than the file contains")
    return archive.read(member)


def _array(data: bytes, label: str) -> np.ndarray:
    """The array in the content of a .npy file, read-only."""
    shape, fortran, dtype, begin = _header(data, label)
    if dtype.hasobject:
        _fail(label, "it contains Python objects, which could run any code")
    if min(shape, default=0) < 0 or not dtype.itemsize:
        _fail(label, f"an array of shape {shape} and dtype {dtype} is invalid")
    size = prod(shape) * dtype.itemsize
    if size > len(data) - begin:
        _fail(label, f"shape {shape} of {dtype} requires {size} bytes, but the file has {len(data) - begin}")
    try:
        flat = np.frombuffer(data, dtype, prod(shape), begin) if size else np.empty(0, dtype)
        flat = flat if flat.flags.aligned else flat.copy()
        return flat.reshape(shape[::-1]).T if fortran else flat.reshape(shape)
    except ValueError as error:
        _fail(label, str(error))


def _header(data: bytes, label: str) -> tuple[tuple[int, ...], bool, np.dtype, int]:
    """(shape, True for column-major order, dtype, offset of the elements)."""
    if data[: len(_MAGIC)] != _MAGIC:
        _fail(label, f"starts with {data[: len(_MAGIC)]!r}: this is not a .npy file")
    file = io.BytesIO(data)
    try:
        version = np.lib.format.read_magic(file)
        shape, fortran, dtype = _READ_HEADER[version](file)
    except Exception as error:  # NumPy does not convert the errors of its header parser
        _fail(label, f"its header is damaged ({type(error).__name__})")
    return shape, fortran, dtype, file.tell()


def _fail(label: str, problem: str) -> NoReturn:
    raise ArtifactError(f"{label}: not an array file, or damaged: {problem}")


def write_npz(path: Path, arrays: Mapping[str, ParamsArray]) -> None:
    """Write a .npz file, atomically. Raises ArtifactError for arrays that NumPy cannot represent."""
    dense = {name: _numpy(name, array) for name, array in arrays.items()}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:  # np.savez takes names as keywords, which excludes some
        for name, array in dense.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, array, allow_pickle=False)
    write_atomically(path, buffer.getvalue())


def _numpy(name: str, array: ParamsArray) -> np.ndarray:
    if isinstance(array, BFloat16Data):
        raise ArtifactError(f"{name!r} is bfloat16, which .npz does not support: use .safetensors")
    return dense_array(name, array)


def dense_array(name: str, array: ParamsArray) -> np.ndarray:
    """The array as little-endian and row-major. Raises ArtifactError for a sparse array and for None."""
    if not isinstance(array, np.ndarray):
        problem = "was never allocated" if array is None else "is sparse"
        raise ArtifactError(f"{name!r} {problem}, which only .params supports")
    return np.asarray(array, array.dtype.newbyteorder("<"), order="C")
