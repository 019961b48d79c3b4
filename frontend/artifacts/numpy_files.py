"""Reads and writes NumPy's files, .npy and .npz, without running code that a file names.

Source of the formats: numpy/lib/format.py, and APPNOTE.TXT of PKWARE for the archive. NumPy's own reader allocates what
a damaged head claims, and advises unpickling.
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
_READ_HEAD = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
_MOST_EXPANDED = 1032  # how many bytes at most one byte of deflated data becomes
_ENCRYPTED = 1  # a flag of a member


def read_npy(path: Path) -> np.ndarray:
    """The array of a .npy file. ArtifactError when it is damaged or holds Python objects; OSError as from `open`."""
    return _array(path.read_bytes(), str(path))


def read_npz(path: Path) -> dict[str, np.ndarray]:
    """The arrays of a .npz file by name. ArtifactError when it is damaged or holds anything else; OSError as from
    `open`."""
    with path.open("rb") as file:
        return _members(file, str(path))


def _members(file: IO[bytes], label: str) -> dict[str, np.ndarray]:
    try:
        with zipfile.ZipFile(file) as archive:
            return {
                member.filename.removesuffix(".npy"): _array(_content(archive, member, label), _label(member, label))
                for member in archive.infolist()
            }
    except ArtifactError:
        raise
    except Exception as error:  # zipfile lets through what struct, zlib, codecs and the file raise
        raise ArtifactError(f"{label}: not a .npz file, or a damaged one ({error or type(error).__name__})") from error


def _label(member: zipfile.ZipInfo, label: str) -> str:
    return f"{label}: {member.filename!r}"


def _content(archive: zipfile.ZipFile, member: zipfile.ZipInfo, label: str) -> bytes:
    """The bytes of a member, which are no more than its compressed bytes can become."""
    where = _label(member, label)
    if member.flag_bits & _ENCRYPTED:
        raise ArtifactError(f"{where} is encrypted")
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ArtifactError(f"{where} is compressed by method {member.compress_type}, which NumPy does not write")
    expanded = 1 if member.compress_type == zipfile.ZIP_STORED else _MOST_EXPANDED
    there = archive.fp.seek(0, io.SEEK_END) if archive.fp is not None else 0
    if member.file_size > min(member.compress_size, there) * expanded:
        raise ArtifactError(f"{where} claims {member.file_size} bytes, more than the file holds")
    return archive.read(member)


def _array(data: bytes, label: str) -> np.ndarray:
    """The array in the content of a .npy file, read-only."""
    shape, fortran, dtype, begin = _head(data, label)
    if dtype.hasobject:
        _fail(label, "it holds Python objects, which could run any code")
    if min(shape, default=0) < 0 or not dtype.itemsize:
        _fail(label, f"an array of shape {shape} and dtype {dtype} is impossible")
    size = prod(shape) * dtype.itemsize
    if size > len(data) - begin:
        _fail(label, f"shape {shape} of {dtype} needs {size} bytes, and {len(data) - begin} are there")
    try:
        flat = np.frombuffer(data, dtype, prod(shape), begin) if size else np.empty(0, dtype)
        flat = flat if flat.flags.aligned else flat.copy()
        return flat.reshape(shape[::-1]).T if fortran else flat.reshape(shape)
    except ValueError as error:
        _fail(label, str(error))


def _head(data: bytes, label: str) -> tuple[tuple[int, ...], bool, np.dtype, int]:
    """Shape, whether columns come first, dtype, and where the elements begin."""
    if data[: len(_MAGIC)] != _MAGIC:
        _fail(label, f"begins with {data[: len(_MAGIC)]!r}: this is no .npy file")
    file = io.BytesIO(data)
    try:
        version = np.lib.format.read_magic(file)
        shape, fortran, dtype = _READ_HEAD[version](file)
    except Exception as error:  # the head is a text, of which NumPy lets through whatever its parser raises
        _fail(label, f"its head is damaged ({type(error).__name__})")
    return shape, fortran, dtype, file.tell()


def _fail(label: str, problem: str) -> NoReturn:
    raise ArtifactError(f"{label}: not a file of an array, or a damaged one: {problem}")


def write_npz(path: Path, arrays: Mapping[str, ParamsArray]) -> None:
    """A .npz file, atomically. ArtifactError for arrays that NumPy cannot hold."""
    dense = {name: _numpy(name, array) for name, array in arrays.items()}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:  # np.savez takes names as keywords, and not all are good ones
        for name, array in dense.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, array, allow_pickle=False)
    write_atomically(path, buffer.getvalue())


def _numpy(name: str, array: ParamsArray) -> np.ndarray:
    if isinstance(array, BFloat16Data):
        raise ArtifactError(f"{name!r} is bfloat16, which .npz cannot hold: use .safetensors")
    return dense_array(name, array)


def dense_array(name: str, array: ParamsArray) -> np.ndarray:
    """The array with little-endian elements, row by row. ArtifactError for a sparse one or none."""
    if not isinstance(array, np.ndarray):
        kind = "was never allocated" if array is None else "is sparse"
        raise ArtifactError(f"{name!r} {kind}, which only .params can hold")
    return np.asarray(array, array.dtype.newbyteorder("<"), order="C")
