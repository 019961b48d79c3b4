"""Reads and writes `.states` files: MXNet's pickles of optimizer states, without running arbitrary code.

A file can contain arrays, contexts, numbers, strings, containers, optimizers and schedules. Any other class or function
is rejected. Written files name MXNet's modules, so that MXNet can read them.
"""

from __future__ import annotations

import io
import pickle
import re
import struct
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..context import Context
from ..lr_scheduler import LRScheduler
from ..ndarray import NDArray
from ..ndarray.files import from_bytes, to_bytes
from ..tracebacks import cause_of
from .base import Optimizer

_MODULES = {
    "mxforge.context": "mxnet.context",
    "mxforge.lr_scheduler": "mxnet.lr_scheduler",
    "mxforge.optimizer": "mxnet.optimizer.optimizer",
    "mxforge.optimizer.contrib": "mxnet.optimizer.contrib",
}
"""MXNet's module for each public module of mxforge whose classes occur in states."""


# Header and trailer of a file with one unnamed array. A pickle contains only the part between them.
_HEAD = struct.pack("<3Q", 0x112, 0, 1)
_TAIL = struct.pack("<Q", 0)


class _Array:
    """Represents an array in a pickle. MXNet's pickles create it with None and then set its state to bytes."""

    def __new__(cls, handle: None) -> Any:
        return object.__new__(cls)

    def __init__(self, handle: None) -> None:
        self.array: NDArray | None = None

    def __setstate__(self, state: dict[str, Any]) -> None:
        handle = state.get("handle")
        self.array = None if handle is None else from_bytes(_HEAD + bytes(handle) + _TAIL)


def _subclasses(cls: type) -> Iterator[type]:
    yield cls
    for sub in cls.__subclasses__():
        yield from _subclasses(sub)


def _allowed() -> dict[tuple[str, str], Callable[..., Any]]:
    """The classes and functions that a pickle can name, by module and name."""
    allowed: dict[tuple[str, str], Callable[..., Any]] = {
        ("mxnet.ndarray.ndarray", "NDArray"): _Array,
        ("mxnet.context", "Context"): Context,
        ("collections", "OrderedDict"): OrderedDict,
        ("copyreg", "_reconstructor"): _reconstruct,
        ("copy_reg", "_reconstructor"): _reconstruct,
        ("_codecs", "encode"): _encode,
        ("numpy", "dtype"): _DType,
        ("numpy.core.multiarray", "scalar"): _scalar,
        ("numpy._core.multiarray", "scalar"): _scalar,
    }
    for name in ("float16", "float32", "float64", "int8", "int32", "int64", "uint8", "bool_"):
        allowed["numpy", name] = getattr(np, name)
    for module in ("builtins", "__builtin__"):
        allowed |= {(module, cls.__name__): cls for cls in (set, list, dict, tuple, object)}
        allowed |= {(module, "bytes"): _bytes, (module, "bytearray"): _bytearray}
    for cls in (*_subclasses(Optimizer), *_subclasses(LRScheduler)):
        allowed[cls.__module__, cls.__qualname__] = cls
        if cls.__module__ in _MODULES:
            allowed[_MODULES[cls.__module__], cls.__qualname__] = cls
    return allowed


def _reconstruct(cls: type, base: type, state: Any) -> Any:
    """Create an object of a class, in pickles of protocols 0 and 1."""
    if base is not object or not issubclass(cls, Optimizer | LRScheduler | Context):
        raise pickle.UnpicklingError(f"states cannot contain a {cls.__name__}")
    return object.__new__(cls)


def _bytes(*args: Any) -> bytes:
    return bytes(_bytearray(*args))


def _bytearray(*args: Any) -> bytearray:
    """Create a bytearray, in pickles of protocols 0 to 4. A size as argument is rejected: it could allocate any amount
    of memory."""
    if args and not isinstance(args[0], str | bytes | bytearray | list | tuple):
        raise pickle.UnpicklingError(f"bytes of a {type(args[0]).__name__}")
    return bytearray(*args)


_NUMBER = re.compile(r"[<>=|]?([biuf][1248]|bool)")


class _DType:
    """Represents a NumPy dtype of numbers. A pickle creates it from a string and then sets its byte order."""

    def __init__(self, text: str, *_: object) -> None:
        if not _NUMBER.fullmatch(text):
            raise pickle.UnpicklingError(f"states cannot contain numbers of type {text!r}")
        self.dtype: np.dtype = np.dtype(text)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.dtype = self.dtype.newbyteorder(state[1])


def _scalar(kind: _DType, content: bytes | str) -> Any:
    """Create a NumPy scalar from its bytes."""
    data = content.encode("latin1") if isinstance(content, str) else content
    return np.frombuffer(data, kind.dtype, 1)[0]


def _encode(text: str, encoding: str) -> bytes:
    """Create bytes, in pickles of protocol 2."""
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"the encoding of bytes must be latin1, not {encoding}")
    return text.encode("latin1")


_Unpickler: Any = pickle._Unpickler  # type: ignore[attr-defined]  # in Python: allocates only what the file contains


class _Reader(_Unpickler):
    """An unpickler that creates only allowed objects."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self._allowed = _allowed()

    def find_class(self, module: str, name: str) -> Any:
        found = self._allowed.get((module, name))
        if found is None:
            raise pickle.UnpicklingError(
                f"states of optimizers cannot contain {module}.{name}: it is rejected, since a pickle can run any code"
            )
        return found


def read_states(data: bytes) -> Any:
    """Read optimizer states. Raises UnpicklingError for damaged data and for other objects."""
    try:
        return _arrays(_Reader(io.BytesIO(data)).load(), {})
    except pickle.UnpicklingError:
        raise
    except KeyError as error:
        raise pickle.UnpicklingError("damaged states of an optimizer: they are no pickle") from cause_of(error)
    except EOFError as error:
        raise pickle.UnpicklingError("damaged states of an optimizer: they end too early") from cause_of(error)
    except Exception as error:
        raise pickle.UnpicklingError(f"damaged states of an optimizer: {error!r}") from cause_of(error)


def _arrays(value: Any, seen: dict[int, tuple[Any, Any]]) -> Any:
    """Replace each `_Array` in a nested value by its array. `seen` caches (value, result) by identity: a pickle can
    refer to an object many times."""
    if id(value) not in seen:
        seen[id(value)] = value, _replaced(value, seen)
    return seen[id(value)][1]


def _replaced(value: Any, seen: dict[int, tuple[Any, Any]]) -> Any:
    if isinstance(value, _Array):
        return value.array
    if isinstance(value, list | tuple):
        return type(value)(_arrays(part, seen) for part in value)
    if isinstance(value, dict):
        return type(value)((key, _arrays(part, seen)) for key, part in value.items())
    if isinstance(value, Optimizer | LRScheduler):
        value.__dict__.update({key: _arrays(part, seen) for key, part in value.__dict__.items()})
    return value


_Pickler: Any = pickle._Pickler  # type: ignore[attr-defined]  # in Python: save_global can be overridden


class _Writer(_Pickler):
    """A pickler that writes arrays in MXNet's form, and mxforge's classes under MXNet's module names."""

    def reducer_override(self, obj: Any) -> Any:
        if not isinstance(obj, NDArray):
            return NotImplemented
        return _Array, (None,), {"handle": bytearray(to_bytes(obj)[len(_HEAD) : -len(_TAIL)])}

    def save_global(self, obj: Any, name: str | None = None) -> None:
        module = "mxnet.ndarray.ndarray" if obj is _Array else _MODULES.get(getattr(obj, "__module__", ""))
        if module is None:
            super().save_global(obj, name)
            return
        class_name = "NDArray" if obj is _Array else obj.__qualname__
        self.write(pickle.GLOBAL + f"{module}\n{class_name}\n".encode())
        self.memoize(obj)

    dispatch = {**_Pickler.dispatch, type: save_global}


def write_states(value: Any) -> bytes:
    """Pickle states, with protocol 2 and MXNet's module names."""
    file = io.BytesIO()
    _Writer(file, protocol=2).dump(value)
    return file.getvalue()
