"""Reads and writes `.states` files: MXNet's pickles of optimizer states, without running arbitrary code.

A file can contain arrays, contexts, numbers, strings, containers, optimizers and schedules. Any other class or function
is rejected. Written files name MXNet's modules, so that MXNet can read them.
"""

from __future__ import annotations

import io
import operator
import pickle
import re
import struct
from collections.abc import Iterator
from functools import partial
from pickle import UnpicklingError
from typing import Any

import numpy as np

from ..artifacts.pickles import Name, Unfinished, read_pickle
from ..context import Context
from ..lr_scheduler import LRScheduler
from ..ndarray import NDArray
from ..ndarray.files import from_bytes, to_bytes
from ..ndarray.sparse_arrays import CSRNDArray, RowSparseNDArray
from ..tracebacks import cause_of
from .base import Optimizer

_MODULES = {
    "mxforge.context": "mxnet.context",
    "mxforge.lr_scheduler": "mxnet.lr_scheduler",
    "mxforge.optimizer": "mxnet.optimizer.optimizer",
    "mxforge.optimizer.contrib": "mxnet.optimizer.contrib",
    "numpy._core.multiarray": "numpy.core.multiarray",
}
"""MXNet's module for each public module of mxforge whose classes occur in states, and NumPy 1's for NumPy 2's."""

# Header and trailer of a file with one unnamed array. A pickle contains only the part between them.
_HEAD = struct.pack("<3Q", 0x112, 0, 1)
_TAIL = struct.pack("<Q", 0)

_CLASSES: dict[tuple[str, str], type[NDArray]] = {
    ("mxnet.ndarray.ndarray", "NDArray"): NDArray,
    ("mxnet.ndarray.sparse", "CSRNDArray"): CSRNDArray,
    ("mxnet.ndarray.sparse", "RowSparseNDArray"): RowSparseNDArray,
}
"""Arrays by the names in MXNet's pickles, which create them with None and then set their state to bytes."""
_WRITTEN: dict[Any, tuple[str, str]] = {cls: name for name, cls in _CLASSES.items()}


def _array(state: dict[str, Any]) -> NDArray | None:
    handle = state["handle"]
    return None if handle is None else from_bytes(_HEAD + bytes(handle) + _TAIL)


def _context(device_type: str, number: int = 0) -> Context:
    return Context(device_type, operator.index(number))


def _context_of(state: dict[str, Any]) -> Context:
    return _context(Context.devtype2str[state["device_typeid"]], state["device_id"])


_NUMBER = re.compile(r"[<>=|]?([biuf][1248]|bool)")


def _dtype(text: str, *_: object) -> Unfinished:
    """A NumPy dtype of numbers, whose state is its byte order."""
    if not _NUMBER.fullmatch(text):
        raise UnpicklingError(f"states cannot contain numbers of type {text!r}")
    return Unfinished(lambda state: np.dtype(text).newbyteorder(state[1]))


def _scalar(dtype: np.dtype, content: bytes | str) -> Any:
    """Create a NumPy scalar from its bytes."""
    data = content.encode("latin1") if isinstance(content, str) else content
    return np.frombuffer(data, dtype, 1)[0]


def _subclasses(cls: type) -> Iterator[type]:
    yield cls
    for sub in cls.__subclasses__():
        yield from _subclasses(sub)


def _instance(cls: Any) -> Any:
    return cls.__new__(cls)


def _names() -> dict[tuple[str, str], Any]:
    """What a pickle can name."""
    names: dict[tuple[str, str], Any] = dict.fromkeys(_CLASSES, Name(call=lambda handle: Unfinished(_array)))
    names["mxnet.context", "Context"] = Name(call=_context, new=lambda: Unfinished(_context_of))
    names["numpy", "dtype"] = Name(call=_dtype)
    for module in ("numpy.core.multiarray", "numpy._core.multiarray"):
        names[module, "scalar"] = Name(call=_scalar)
    for name in ("float16", "float32", "float64", "int8", "int32", "int64", "uint8", "bool_"):
        names["numpy", name] = getattr(np, name)
    for cls in (*_subclasses(Optimizer), *_subclasses(LRScheduler)):
        for module in (cls.__module__, _MODULES.get(cls.__module__, cls.__module__)):
            names[module, cls.__qualname__] = Name(new=partial(_instance, cls))
    return names


def read_states(data: bytes) -> Any:
    """Read optimizer states. Raises UnpicklingError for damaged data and for other objects."""
    try:
        return read_pickle(data, _names())
    except UnpicklingError as error:
        raise UnpicklingError(f"states of an optimizer cannot be read: {error}") from cause_of(error)
    except Exception as error:
        raise UnpicklingError(f"damaged states of an optimizer: {error!r}") from cause_of(error)


_Pickler: Any = pickle._Pickler  # type: ignore[attr-defined]  # in Python: save_global can be overridden


class _Writer(_Pickler):
    """A pickler that writes arrays in MXNet's form, and mxforge's classes under MXNet's module names."""

    def reducer_override(self, obj: Any) -> Any:
        if not isinstance(obj, NDArray):
            return NotImplemented
        cls = next(cls for cls in type(obj).__mro__ if cls in _WRITTEN)
        return cls, (None,), {"handle": bytearray(to_bytes(obj)[len(_HEAD) : -len(_TAIL)])}

    def save_global(self, obj: Any, name: str | None = None) -> None:
        module, written = _WRITTEN.get(obj) or (_MODULES.get(getattr(obj, "__module__", "")), obj.__qualname__)
        if module is None:
            super().save_global(obj, name)
            return
        self.write(pickle.GLOBAL + f"{module}\n{written}\n".encode())
        self.memoize(obj)

    dispatch = {**_Pickler.dispatch, type: save_global}


def write_states(value: Any) -> bytes:
    """Pickle states, with protocol 2 and MXNet's module names."""
    file = io.BytesIO()
    _Writer(file, protocol=2).dump(value)
    return file.getvalue()
