"""Compiles libraries with `mxforge compile --emit`, and calls shared ones through ctypes, as a program in C does."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from mxforge.ir.settings import settings
from mxforge.tools.library.header import c_name
from mxforge.tools.main import main

FIXTURES = Path(__file__).resolve().parents[1] / "data" / "fixtures"
SHAPE = ("--input-shape", "data=1..4..6,3,32,32")
"""The batches that libraries of the network `convnet` take."""

POINTER = ctypes.c_void_p
OK, INVALID, NO_MEMORY, MACHINE, BUSY, NOT_SET, VALUES = range(7)


class Tensor(ctypes.Structure):
    """`mxf_tensor`."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("dtype", ctypes.c_char_p),
        ("rank", ctypes.c_int64),
        ("extents", ctypes.POINTER(ctypes.c_int64)),
        ("bytes", ctypes.c_size_t),
        ("data", ctypes.c_void_p),
    ]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.extents[i] for i in range(self.rank))

    def array(self) -> npt.NDArray[Any]:
        """A copy of the elements."""
        return np.frombuffer(ctypes.string_at(self.data, self.bytes), self.dtype.decode()).reshape(self.shape)


class Options(ctypes.Structure):
    """`mxf_options`."""

    _fields_ = [
        ("size", ctypes.c_size_t),
        ("threads", ctypes.c_int32),
        ("parallel", ctypes.c_void_p),
        ("parallel_user", ctypes.c_void_p),
        ("allocate", ctypes.c_void_p),
        ("release", ctypes.c_void_p),
        ("memory_user", ctypes.c_void_p),
        ("seed", ctypes.c_uint64),
    ]


class Library:
    """The functions of a library. `error(context)` is the text of the last error."""

    def __init__(self, folder: Path, model: str) -> None:
        name = c_name(model)
        library = ctypes.CDLL(str(folder / f"lib{name}.so"))
        self.handle = library._handle

        def function(own: str, result: Any, *arguments: Any) -> Any:
            found = library[f"{name}_{own}"]
            found.restype, found.argtypes = result, arguments
            return found

        text, size = ctypes.c_char_p, ctypes.c_size_t
        tensor = ctypes.POINTER(Tensor)
        self.create = function("create", POINTER, ctypes.POINTER(Options))
        self.destroy = function("destroy", None, POINTER)
        self.set = function("set", ctypes.c_int, POINTER, text, POINTER, size)
        self.reshape = function("shape", ctypes.c_int, POINTER, text, ctypes.POINTER(ctypes.c_int64), ctypes.c_int64)
        self.bind = function("bind", ctypes.c_int, POINTER, text, POINTER, size)
        self.seed = function("seed", ctypes.c_int, POINTER, ctypes.c_uint64)
        self.run = function("run", ctypes.c_int, POINTER)
        self.inputs = function("inputs", tensor, POINTER, ctypes.POINTER(ctypes.c_int64))
        self.outputs = function("outputs", tensor, POINTER, ctypes.POINTER(ctypes.c_int64))
        self.get = function("get", tensor, POINTER, text)
        self._error = function("error", text, POINTER)

    def error(self, context: Any = None) -> str:
        return self._error(context).decode()


class Model:
    """A context as a function of arrays. RuntimeError with the text of the library."""

    def __init__(self, library: Library, **options: Any) -> None:
        self.library = library
        self.context = library.create(ctypes.byref(Options(ctypes.sizeof(Options), **options)))
        if not self.context:
            raise RuntimeError(library.error())

    def __call__(self, *inputs: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
        library, context = self.library, self.context
        kept: list[npt.NDArray[Any]] = []
        for i, array in enumerate(map(np.ascontiguousarray, inputs)):
            name = library.inputs(context, None)[i].name
            shape = (ctypes.c_int64 * array.ndim)(*array.shape)
            self._check(library.reshape(context, name, shape, array.ndim))
            self._check(library.set(context, name, array.ctypes.data, array.nbytes))
            kept.append(array)
        self._check(library.run(context))
        count = ctypes.c_int64()
        outputs = library.outputs(context, ctypes.byref(count))
        return [outputs[i].array() for i in range(count.value)]

    def _check(self, status: int) -> None:
        if status:
            raise RuntimeError(self.library.error(self.context))

    def close(self) -> None:
        self.library.destroy(self.context)
        self.context = None


def compiled(folder: Path, model: Path, *arguments: str) -> Path:
    """The folder that the command writes. It keeps the settings of the environment."""
    before = dict(os.environ)
    try:
        assert main(["compile", str(model), "-o", str(folder), *arguments]) == 0
    finally:
        os.environ.clear()
        os.environ.update(before)
        settings.cache_clear()
    return folder


def images(batch: int) -> npt.NDArray[Any]:
    """A batch for the network `convnet`."""
    return np.random.default_rng(batch).standard_normal((batch, 3, 32, 32)).astype(np.float32)
