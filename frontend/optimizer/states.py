"""The bytes of `.states` files: MXNet's pickles of states, read without running code that they name.

A file may hold arrays, contexts, numbers, texts and containers, optimizers and schedules. Whatever else it names is
refused. What is written names MXNet's own modules, so that MXNet reads it.
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
"""MXNet's module for each of our public modules whose classes states hold."""


# What a file of one array without a name has around the array, which alone stands in a pickle.
_HEAD = struct.pack("<3Q", 0x112, 0, 1)
_TAIL = struct.pack("<Q", 0)


class _Array:
    """Stands for an array in a pickle: MXNet makes one of None and then gives it the bytes of a file."""

    def __new__(cls, handle: None) -> Any:
        return object.__new__(cls)

    def __init__(self, handle: None) -> None:
        self.made: NDArray | None = None

    def __setstate__(self, state: dict[str, Any]) -> None:
        handle = state.get("handle")
        self.made = None if handle is None else from_bytes(_HEAD + bytes(handle) + _TAIL)


def _subclasses(cls: type) -> Iterator[type]:
    yield cls
    for sub in cls.__subclasses__():
        yield from _subclasses(sub)


def _known() -> dict[tuple[str, str], Callable[..., Any]]:
    """What a pickle may name, by module and name: classes that this program has, and makers of plain values."""
    known: dict[tuple[str, str], Callable[..., Any]] = {
        ("mxnet.ndarray.ndarray", "NDArray"): _Array,
        ("mxnet.context", "Context"): Context,
        ("collections", "OrderedDict"): OrderedDict,
        ("copyreg", "_reconstructor"): _reconstructed,
        ("copy_reg", "_reconstructor"): _reconstructed,
        ("_codecs", "encode"): _encoded,
        ("numpy", "dtype"): _DType,
        ("numpy.core.multiarray", "scalar"): _scalar,
        ("numpy._core.multiarray", "scalar"): _scalar,
    }
    for name in ("float16", "float32", "float64", "int8", "int32", "int64", "uint8", "bool_"):
        known["numpy", name] = getattr(np, name)
    for module in ("builtins", "__builtin__"):
        known |= {(module, cls.__name__): cls for cls in (set, list, dict, tuple, object)}
        known |= {(module, "bytes"): _bytes, (module, "bytearray"): _bytearray}
    for cls in (*_subclasses(Optimizer), *_subclasses(LRScheduler)):
        known[cls.__module__, cls.__qualname__] = cls
        if cls.__module__ in _MODULES:
            known[_MODULES[cls.__module__], cls.__qualname__] = cls
    return known


def _reconstructed(cls: type, base: type, state: Any) -> Any:
    """How old pickles make an object of a class."""
    if base is not object or not issubclass(cls, Optimizer | LRScheduler | Context):
        raise pickle.UnpicklingError(f"states hold no {cls.__name__}")
    return object.__new__(cls)


def _bytes(*args: Any) -> bytes:
    return bytes(_bytearray(*args))


def _bytearray(*args: Any) -> bytearray:
    """How old pickles make bytes; a number in place of a content would ask for that much memory."""
    if args and not isinstance(args[0], str | bytes | bytearray | list | tuple):
        raise pickle.UnpicklingError(f"bytes of a {type(args[0]).__name__}")
    return bytearray(*args)


_NUMBER = re.compile(r"[<>=|]?([biuf][1248]|bool)")


class _DType:
    """Stands for NumPy's type of a number, which a pickle makes of a text and then tells its byte order."""

    def __init__(self, text: str, *_: object) -> None:
        if not _NUMBER.fullmatch(text):
            raise pickle.UnpicklingError(f"states hold no numbers of type {text!r}")
        self.dtype: np.dtype = np.dtype(text)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.dtype = self.dtype.newbyteorder(state[1])


def _scalar(kind: _DType, content: bytes | str) -> Any:
    """A number of NumPy from its bytes."""
    data = content.encode("latin1") if isinstance(content, str) else content
    return np.frombuffer(data, kind.dtype, 1)[0]


def _encoded(text: str, encoding: str) -> bytes:
    """How pickles of protocol 2 write bytes."""
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"bytes are written as latin1, not as {encoding}")
    return text.encode("latin1")


_Unpickler: Any = pickle._Unpickler  # type: ignore[attr-defined]  # the one that allocates nothing before it is there


class _Reader(_Unpickler):
    """Makes what is known, and nothing else."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self._known = _known()

    def find_class(self, module: str, name: str) -> Any:
        found = self._known.get((module, name))
        if found is None:
            raise pickle.UnpicklingError(
                f"states of optimizers hold no {module}.{name}: it is refused, since a pickle may run any code"
            )
        return found


def read_states(data: bytes) -> Any:
    """The states in the bytes. UnpicklingError for anything else."""
    try:
        return _arrays(_Reader(io.BytesIO(data)).load(), {})
    except pickle.UnpicklingError:
        raise
    except Exception as error:
        raise pickle.UnpicklingError(f"damaged states of an optimizer: {error}") from cause_of(error)


def _arrays(value: Any, seen: dict[int, tuple[Any, Any]]) -> Any:
    """The value with arrays in place of what stands for them. `seen` holds, by identity, what was asked before and the
    answer: a pickle may name one part many times."""
    if id(value) not in seen:
        seen[id(value)] = value, _replaced(value, seen)
    return seen[id(value)][1]


def _replaced(value: Any, seen: dict[int, tuple[Any, Any]]) -> Any:
    if isinstance(value, _Array):
        return value.made
    if isinstance(value, list | tuple):
        return type(value)(_arrays(part, seen) for part in value)
    if isinstance(value, dict):
        return type(value)((key, _arrays(part, seen)) for key, part in value.items())
    if isinstance(value, Optimizer | LRScheduler):
        value.__dict__.update({key: _arrays(part, seen) for key, part in value.__dict__.items()})
    return value


_Pickler: Any = pickle._Pickler  # type: ignore[attr-defined]  # the one whose way of naming classes can be changed


class _Writer(_Pickler):
    """Writes arrays as MXNet does, and our classes under the names of MXNet's."""

    def reducer_override(self, obj: Any) -> Any:
        if not isinstance(obj, NDArray):
            return NotImplemented
        return _Array, (None,), {"handle": bytearray(to_bytes(obj)[len(_HEAD) : -len(_TAIL)])}

    def save_global(self, obj: Any, name: str | None = None) -> None:
        module = "mxnet.ndarray.ndarray" if obj is _Array else _MODULES.get(getattr(obj, "__module__", ""))
        if module is None:
            super().save_global(obj, name)
            return
        called = "NDArray" if obj is _Array else obj.__qualname__
        self.write(pickle.GLOBAL + f"{module}\n{called}\n".encode())
        self.memoize(obj)

    dispatch = {**_Pickler.dispatch, type: save_global}


def write_states(value: Any) -> bytes:
    """The bytes of states."""
    file = io.BytesIO()
    _Writer(file, protocol=2).dump(value)
    return file.getvalue()
