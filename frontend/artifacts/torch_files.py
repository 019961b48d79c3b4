"""Reads the state dicts in PyTorch's .pt and .pth files, without unpickling and without PyTorch.

Source of the format: torch/serialization.py and torch/_utils.py. A file is an archive with a pickle, `data.pkl`, and
the bytes of each storage. The pickle names storages by a persistent id, and builds tensors as views of them.
"""

from __future__ import annotations

import pickle
import zipfile
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from math import prod
from pathlib import Path
from typing import Any, Literal, NoReturn

import numpy as np

from ...ir.lazy_dataclass import dataclass
from .arrays import BFloat16Data, ParamsArray, valid_bools
from .errors import ArtifactError
from .numpy_files import member_content
from .pickles import Name, read_pickle

_BFLOAT16 = "bfloat16"

_STORAGES = {
    "DoubleStorage": "f8",
    "FloatStorage": "f4",
    "HalfStorage": "f2",
    "BFloat16Storage": _BFLOAT16,
    "LongStorage": "i8",
    "IntStorage": "i4",
    "ShortStorage": "i2",
    "CharStorage": "i1",
    "ByteStorage": "u1",
    "BoolStorage": "?",
    "UntypedStorage": "u1",
}
"""NumPy's names of the elements of each kind of storage."""

_DTYPES = {
    **{"float64": "f8", "float32": "f4", "float16": "f2", "bfloat16": _BFLOAT16, "bool": "?"},
    **{"int64": "i8", "int32": "i4", "int16": "i2", "int8": "i1"},
    **{"uint64": "u8", "uint32": "u4", "uint16": "u2", "uint8": "u1"},
}
"""NumPy's names of PyTorch's dtypes."""

_LACKING = {
    **{"ComplexFloatStorage": "complex64", "ComplexDoubleStorage": "complex128"},
    **{name: name for name in ("complex32", "complex64", "complex128", "float8_e4m3fn", "float8_e5m2")},
}
"""Storages and dtypes whose elements MXNet does not have, and the names of these."""

_LEGACY = pickle.dumps(0x1950A86A20F9469CFC6C, 2)
"""The start of files before PyTorch 1.6."""

_TAR_MAGIC = b"ustar", 257
_RESAVE = "load it with PyTorch and save it again: torch.save(torch.load(FILE, weights_only=True), FILE)"
_EXPANSION = 16
"""The bytes that tensors can have for each byte of the file, since several can share a storage or repeat elements."""
_FREE_BYTES = 1 << 16


@dataclass(frozen=True)
class _Dtype:
    """A dtype of PyTorch in a pickle: its name in NumPy, "" if MXNet lacks it, and then its own name."""

    numpy: str
    lacking: str = ""


@dataclass(frozen=True)
class _Storage:
    """The storage `key`: elements of a dtype, whose bytes are a member of the archive."""

    key: str
    dtype: str
    size: int


@dataclass(frozen=True)
class _Tensor:
    """A view of a storage, in elements."""

    storage: _Storage
    dtype: str
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        return prod(self.shape) * _numpy_dtype(self.dtype).itemsize


def read_torch(path: Path) -> dict[str, ParamsArray]:
    """Read the tensors of a state dict by name.

    A file with other entries beside one state dict, as checkpoints of training have, gives the arrays of that; with
    several state dicts, names begin with their keys. Tensors beside state dicts that have more are left out, such as
    the state of a generator. Raises ArtifactError if the file is damaged, has another format,
    or contains anything but tensors, containers, numbers and strings, and OSError as `open` does.
    """
    with path.open("rb") as file:
        _refuse_legacy(file.read(512), path)
        try:
            with zipfile.ZipFile(file) as archive:
                return _Archive(archive, path).arrays()
        except ArtifactError:
            raise
        except pickle.UnpicklingError as error:
            raise ArtifactError(f"{path}: not a state dict, or damaged: its pickle has {error}") from None
        except Exception as error:  # zipfile does not convert errors of struct, zlib, codecs and the file
            raise ArtifactError(
                f"{path}: not a file of PyTorch, or damaged ({error or type(error).__name__})"
            ) from error


def _refuse_legacy(head: bytes, path: Path) -> None:
    """ArtifactError for files of PyTorch before 1.6."""
    magic, at = _TAR_MAGIC
    if head.startswith(_LEGACY[:-1]) or head[at : at + len(magic)] == magic:
        raise ArtifactError(f"{path}: has the format of PyTorch before 1.6, which is not read: {_RESAVE}")


class _Archive:
    """An archive and its pickle."""

    def __init__(self, archive: zipfile.ZipFile, path: Path) -> None:
        self.archive, self.path = archive, path
        self.members = {m.filename.partition("/")[2]: m for m in archive.infolist()}
        if "constants.pkl" in self.members:
            raise ArtifactError(f"{path}: is a TorchScript program, not a state dict: save its state_dict()")
        if "data.pkl" not in self.members:
            raise ArtifactError(f"{path}: not a file of PyTorch: it has no member data.pkl")
        self.order: Literal["<", ">"] = (
            ">" if "byteorder" in self.members and self._content("byteorder") == b"big" else "<"
        )
        self.content: dict[str, np.ndarray] = {}

    def arrays(self) -> dict[str, ParamsArray]:
        value = read_pickle(self._content("data.pkl"), _NAMES, persistent=_storage, stateless=(OrderedDict,))
        tensors = _state_dict(value, self.path)
        size = sum(t.nbytes for t in tensors.values())
        if size > _FREE_BYTES + _EXPANSION * self.path.stat().st_size:
            raise ArtifactError(f"{self.path}: its tensors have {size} bytes, many more than the file")
        return {name: self._array(name, t) for name, t in tensors.items()}

    def _content(self, name: str) -> bytes:
        return member_content(self.archive, self.members[name], str(self.path))

    def _array(self, name: str, t: _Tensor) -> ParamsArray:
        flat = self._elements(name, t)
        if len(t.shape) != len(t.strides):
            self._fail(name, f"shape {t.shape} and strides {t.strides} are invalid")
        last = t.offset + sum((n - 1) * stride for n, stride in zip(t.shape, t.strides, strict=True))
        if 0 in t.shape:
            values = np.empty(t.shape, flat.dtype)
        elif last >= flat.size:
            self._fail(name, f"element {last} of a storage of {flat.size} elements")
        else:
            steps = [stride * flat.itemsize for stride in t.strides]
            values = np.lib.stride_tricks.as_strided(flat[t.offset :], t.shape, steps, writeable=False)
        native = np.asarray(values, flat.dtype.newbyteorder("="), order="C")
        if t.dtype == "?":
            return valid_bools(native)
        return BFloat16Data(native) if t.dtype == _BFLOAT16 else native

    def _elements(self, name: str, t: _Tensor) -> np.ndarray:
        """The elements of a tensor's storage, as the tensor's dtype."""
        storage = t.storage
        if storage.key not in self.content:
            member = f"data/{storage.key}"
            if member not in self.members:
                self._fail(name, f"the file has no storage {storage.key!r}")
            self.content[storage.key] = np.frombuffer(self._content(member), np.uint8)
        raw = self.content[storage.key]
        dtype = _numpy_dtype(t.dtype)
        size = storage.size * _numpy_dtype(storage.dtype).itemsize
        if size > raw.size or size < 0:
            self._fail(name, f"its storage has {raw.size} bytes, not {size}")
        return raw[: size - size % dtype.itemsize].view(dtype.newbyteorder(self.order))

    def _fail(self, name: str, problem: str) -> NoReturn:
        raise ArtifactError(f"{self.path}: tensor {name!r} is damaged: {problem}")


def _numpy_dtype(name: str) -> np.dtype[Any]:
    return np.dtype("u2" if name == _BFLOAT16 else name)


# --- the pickle -------------------------------------------------------------------------------------------------------


def _storage(identity: Any) -> _Storage:
    """The storage that a persistent id names."""
    if type(identity) is not tuple or len(identity) != 5 or identity[0] != "storage":
        raise pickle.UnpicklingError("a persistent id that names no storage")
    _, kind, key, _, size = identity
    if isinstance(kind, _Dtype) and kind.lacking:
        raise pickle.UnpicklingError(f"a tensor of dtype {kind.lacking}, which MXNet does not have")
    if not isinstance(kind, _Dtype) or type(key) is not str or type(size) is not int:
        raise pickle.UnpicklingError("a persistent id that names no storage")
    return _Storage(key, kind.numpy, size)


def _tensor(storage: Any, offset: Any, shape: Any, strides: Any, *_: Any) -> _Tensor:
    if not isinstance(storage, _Storage):
        raise pickle.UnpicklingError("a tensor without a storage")
    return _Tensor(storage, storage.dtype, _integer(offset), _integers(shape), _integers(strides))


def _tensor_of_dtype(storage: Any, offset: Any, shape: Any, strides: Any, _: Any, __: Any, dtype: Any, *___: Any):
    if not isinstance(storage, _Storage) or not isinstance(dtype, _Dtype):
        raise pickle.UnpicklingError("a tensor without a storage or a dtype")
    if dtype.lacking:
        raise pickle.UnpicklingError(f"a tensor of dtype {dtype.lacking}, which MXNet does not have")
    return _Tensor(storage, dtype.numpy, _integer(offset), _integers(shape), _integers(strides))


def _parameter(data: Any = None, *_: Any) -> _Tensor:
    if not isinstance(data, _Tensor):
        raise pickle.UnpicklingError("a parameter without a tensor")
    return data


def _size(extents: Any = ()) -> tuple[int, ...]:
    return _integers(extents)


def _counts(numbers: Any = None) -> dict[Any, Any]:
    """A Counter, which states of learning rate schedulers have."""
    if numbers is not None and type(numbers) is not dict:
        raise pickle.UnpicklingError("a Counter without a dictionary")
    return numbers or {}


def _device(kind: Any, number: Any = 0) -> str:
    return f"{kind}:{number}"


def _integers(numbers: Any) -> tuple[int, ...]:
    if type(numbers) not in (tuple, list):
        raise pickle.UnpicklingError("a shape that is no tuple")
    return tuple(map(_integer, numbers))


def _integer(number: Any) -> int:
    if type(number) is not int or not 0 <= number < 1 << 62:
        raise pickle.UnpicklingError("a size that is negative, or no integer of 62 bits")
    return number


_NAMES: dict[tuple[str, str], Any] = {
    **{("torch", name): _Dtype(dtype) for name, dtype in _STORAGES.items()},
    **{("torch.storage", name): _Dtype(dtype) for name, dtype in _STORAGES.items()},
    **{("torch", name): _Dtype(dtype) for name, dtype in _DTYPES.items()},
    **{("torch", name): _Dtype("", own) for name, own in _LACKING.items()},
    ("torch._utils", "_rebuild_tensor"): Name(_tensor),
    ("torch._utils", "_rebuild_tensor_v2"): Name(_tensor),
    ("torch._utils", "_rebuild_tensor_v3"): Name(_tensor_of_dtype),
    ("torch._utils", "_rebuild_parameter"): Name(_parameter),
    ("torch._utils", "_rebuild_parameter_with_state"): Name(_parameter),
    ("torch", "Size"): Name(_size),
    ("torch", "device"): Name(_device),
    ("collections", "Counter"): Name(_counts),
}
"""What a state dict names."""


# --- the state dict ---------------------------------------------------------------------------------------------------


def _state_dict(value: Any, path: Path) -> dict[str, _Tensor]:
    """The tensors by name."""
    if not isinstance(value, dict):
        raise ArtifactError(f"{path}: contains a {type(value).__name__.strip('_').lower()}, not a state dict")
    tensors = dict(_tensors(value))
    parts = {
        str(key): found for key, part in value.items() if isinstance(part, dict) and (found := dict(_tensors(part)))
    }
    if tensors and len(tensors) >= sum(map(len, parts.values())):
        return tensors
    if len(parts) == 1:
        return next(iter(parts.values()))
    if not parts and value:
        raise ArtifactError(f"{path}: contains no state dict: its entries are {', '.join(map(repr, list(value)[:8]))}")
    return {f"{key}.{name}": t for key, part in parts.items() for name, t in part.items()}


def _tensors(entries: Mapping[Any, Any]) -> Iterator[tuple[str, _Tensor]]:
    return ((key, value) for key, value in entries.items() if isinstance(key, str) and isinstance(value, _Tensor))
