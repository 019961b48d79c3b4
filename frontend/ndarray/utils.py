"""MXNet's module path for the functions that make arrays of any storage type, and for files."""

from __future__ import annotations

from ..base import c_array, c_handle_array, c_str, c_str_array, check_call, py_str, string_types
from .creation import array, empty, zeros
from .files import load, load_frombuffer, save
from .ndarray import NDArray

__all__ = [
    "NDArray",
    "array",
    "c_array",
    "c_handle_array",
    "c_str",
    "c_str_array",
    "check_call",
    "empty",
    "load",
    "load_frombuffer",
    "py_str",
    "save",
    "string_types",
    "zeros",
]
