"""Values as C code sees them: what other people's native extensions of MXNet build their calls from.

mxforge itself has no C library behind it: calling a function of `_LIB` raises. `check_call` and the makers of C strings
and arrays work on any library.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

import numpy as np

from .base_errors import MXNetError

mx_float = ctypes.c_float
mx_float_p = ctypes.POINTER(ctypes.c_float)


class _MissingFunction:
    """A function of MXNet's C interface: its types can be declared, calling it raises MXNetError."""

    argtypes: Any = None
    restype: Any = ctypes.c_int

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __call__(self, *args: Any) -> NoReturn:
        raise MXNetError(
            f"{self.__name__} is a function of MXNet's C library, which is not behind mxforge: use the functions of "
            "mx.nd, mx.sym and gluon instead"
        )


class _MissingLibrary:
    """Stands for MXNet's C library, from which other people's code takes functions by name."""

    _name = None

    def __getattr__(self, name: str) -> _MissingFunction:
        if not name.startswith(("MX", "NN")):
            raise AttributeError(f"MXNet's C library has no function {name!r}", name=name)
        made = self.__dict__[name] = _MissingFunction(name)
        return made


_LIB = _MissingLibrary()


def c_str(string: str) -> ctypes.c_char_p:
    """A text as a C string in UTF-8."""
    return ctypes.c_char_p(string.encode("utf-8"))


def c_str_array(strings: Sequence[str]) -> Any:
    """Texts as an array of C strings."""
    return (ctypes.c_char_p * len(strings))(*[s.encode("utf-8") for s in strings])


def c_array(ctype: Any, values: Sequence[Any]) -> Any:
    """Values as a C array of a ctypes type."""
    return (ctype * len(values))(*values)


def c_array_buf(ctype: Any, buf: Any) -> Any:
    """A C array on the memory of a writable buffer (an `array.array`); it has as many elements as the buffer."""
    return (ctype * len(buf)).from_buffer(buf)


def c_handle_array(objs: Iterable[Any]) -> Any:
    """The handles of arrays as a C array of pointers."""
    handles = [o.handle for o in objs]
    return (ctypes.c_void_p * len(handles))(*handles)


def ctypes2buffer(cptr: Any, length: int) -> bytearray:
    """A copy of `length` bytes behind a char pointer. TypeError for other pointers."""
    if not isinstance(cptr, ctypes.POINTER(ctypes.c_char)):
        raise TypeError("expected char pointer")
    return bytearray(ctypes.string_at(cptr, length))


def ctypes2numpy_shared(cptr: Any, shape: Sequence[int]) -> np.ndarray:
    """A NumPy array of float32 on the memory behind a float pointer. RuntimeError for other pointers."""
    if not isinstance(cptr, mx_float_p):
        raise RuntimeError("expected float pointer")
    return np.ctypeslib.as_array(cptr, tuple(shape))


class MXCallbackList(ctypes.Structure):
    """The functions that a custom operator of C hands over."""

    _fields_ = (
        ("num_callbacks", ctypes.c_int),
        ("callbacks", ctypes.POINTER(ctypes.CFUNCTYPE(ctypes.c_int))),
        ("contexts", ctypes.POINTER(ctypes.c_void_p)),
    )


def check_call(ret: int) -> None:
    """Raise MXNetError unless a C function returned 0."""
    if ret != 0:
        raise get_last_ffi_error()


def get_last_ffi_error() -> Exception:
    """The error for a failed call of C. Its text is unknown here: no library of MXNet's own is behind it."""
    return MXNetError("a call of C code failed")


def c2pyerror(err_msg: str) -> tuple[str, str | None]:
    """A message of C++ code as Python writes one: its stack trace first, latest call last; and the error's name."""
    lines = err_msg.removesuffix("\n").split("\n")
    trace: list[str] = []
    message: list[str] = []
    inside = False
    for line in lines:
        starts = line.startswith("Stack trace")
        inside = starts or (inside and line.startswith("  "))
        if not starts:
            (trace if inside else message).append(line)
    heading = ["Traceback (most recent call last):", *reversed(trace)] if trace else []
    return "\n".join([*heading, *message]), _find_error_type(lines[0])


def _find_error_type(line: str) -> str | None:
    """The name of the error in the first line of a message, "ValueError: ..."; None if there is none."""
    name, colon, _ = line.partition(":")
    return name if colon and _valid_error_name(name) else None


def _valid_error_name(name: str) -> bool:
    """True if this can be the name of a class of errors, with dots."""
    return all(c.isalnum() or c in "_." for c in name)
