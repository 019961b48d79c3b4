"""What every part of MXNet's API shares: its error, and the types that count as strings, numbers and integers."""

from __future__ import annotations

import ctypes

import numpy as np

__all__ = [
    "MXNetError",
    "NDArrayHandle",
    "NotImplementedForSymbol",
    "NotSupportedForSparseNDArray",
    "SymbolHandle",
    "integer_types",
    "mx_real_t",
    "mx_uint",
    "numeric_types",
    "py_str",
    "string_types",
]


class MXNetError(RuntimeError):
    """A call that MXNet refuses: it names the operator, the argument, and what does not fit."""


class ShapeError(MXNetError, ValueError):
    """A shape that does not fit: MXNet raises MXNetError in some such cases and ValueError in others."""


class NotImplementedForSymbol(MXNetError):
    """A function that works on arrays and not on symbols."""

    def __init__(self, function: object, alias: str | None, *args: object) -> None:
        name = getattr(function, "__name__", str(function))
        also = f" (namely operator {alias!r})" if alias else ""
        types = f" with arguments ({', '.join(type(a).__name__ for a in args)})" if args else ""
        super().__init__(f"Function {name}{also}{types} is not implemented for Symbol and only available in NDArray.")


class NotSupportedForSparseNDArray(MXNetError):
    """A function that works on dense arrays and not on sparse ones."""

    def __init__(self, function: object, alias: str | None, *args: object) -> None:
        name = getattr(function, "__name__", str(function))
        also = f" (namely operator {alias!r})" if alias else ""
        types = f" with arguments ({', '.join(type(a).__name__ for a in args)})" if args else ""
        super().__init__(f"Function {name}{also}{types} is not supported for SparseNDArray.")


class _NullType:
    """Stands for a parameter that was not given."""

    def __repr__(self) -> str:
        return "_Null"

    def __bool__(self) -> bool:
        return False

    def __reduce__(self) -> str:
        return "_Null"


_Null = _NullType()

string_types = (str,)
integer_types = (int, np.int32, np.int64)
numeric_types = (float, int, np.generic)
mx_real_t = np.float32

# MXNet's handles are C pointers. Nothing here has one; other people's code names the types in annotations and
# isinstance.
NDArrayHandle = ctypes.c_void_p
SymbolHandle = ctypes.c_void_p
mx_uint = ctypes.c_uint


def py_str(text: bytes) -> str:
    """The text of UTF-8 bytes."""
    return text.decode("utf-8")
