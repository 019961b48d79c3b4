"""C values: helpers from which third-party native extensions of MXNet build their calls.

mxforge has no C library: calling a function of `_LIB` raises MXNetError. `check_call` and the functions that create C
strings and arrays work with any library.
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
    """A function of MXNet's C API: its types can be declared, but calling it raises MXNetError."""

    argtypes: Any = None
    restype: Any = ctypes.c_int

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __call__(self, *args: Any) -> NoReturn:
        raise MXNetError(
            f"{self.__name__} is a function of MXNet's C library, which mxforge does not have: use the functions of "
            "mx.nd, mx.sym and gluon instead"
        )


class _MissingLibrary:
    """A placeholder for MXNet's C library, whose functions third-party code looks up by name."""

    _name = None

    def __getattr__(self, name: str) -> _MissingFunction:
        if not name.startswith(("MX", "NN")):
            raise AttributeError(f"MXNet's C library has no function {name!r}", name=name)
        function = self.__dict__[name] = _MissingFunction(name)
        return function


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
    """A C array that shares the memory of a writable buffer (an `array.array`) and has as many elements."""
    return (ctype * len(buf)).from_buffer(buf)


def c_handle_array(objs: Iterable[Any]) -> Any:
    """The handles of arrays as a C array of pointers."""
    handles = [o.handle for o in objs]
    return (ctypes.c_void_p * len(handles))(*handles)


def ctypes2buffer(cptr: Any, length: int) -> bytearray:
    """A copy of `length` bytes at a char pointer. TypeError for other pointers."""
    if not isinstance(cptr, ctypes.POINTER(ctypes.c_char)):
        raise TypeError("expected char pointer")
    return bytearray(ctypes.string_at(cptr, length))


def ctypes2numpy_shared(cptr: Any, shape: Sequence[int]) -> np.ndarray:
    """A float32 NumPy array that shares the memory at a float pointer. RuntimeError for other pointers."""
    if not isinstance(cptr, mx_float_p):
        raise RuntimeError("expected float pointer")
    return np.ctypeslib.as_array(cptr, tuple(shape))


class MXCallbackList(ctypes.Structure):
    """The callbacks of a custom operator in C."""

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
    """The error for a failed C call. Its text is unknown: MXNet's library, which stores it, does not exist here."""
    return MXNetError("a call of C code failed")


def c2pyerror(err_msg: str) -> tuple[str, str | None]:
    """A C++ error message in Python's form (the stack trace first, most recent call last), and the error's name."""
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
    """The error name in the first line of a message such as "ValueError: ..."; None if there is none."""
    name, colon, _ = line.partition(":")
    return name if colon and _valid_error_name(name) else None


def _valid_error_name(name: str) -> bool:
    """True if this can be the name of an error class; dots are allowed."""
    return all(c.isalnum() or c in "_." for c in name)
