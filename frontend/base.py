"""The names of `mx.base`: errors, types of plain values, and small helpers that third-party code imports."""

from __future__ import annotations

import ctypes
import inspect
import os
import platform
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ..runtime.errors import raise_as
from .base_errors import (
    MXNetError,
    NotImplementedForSymbol,
    NotSupportedForSparseNDArray,
    error_types,
    register_error,
)
from .native import (
    _LIB,  # noqa: F401  (a name of MXNet, as the next ones)
    MXCallbackList,
    _find_error_type,  # noqa: F401
    _valid_error_name,  # noqa: F401
    c2pyerror,
    c_array,
    c_array_buf,
    c_handle_array,
    c_str,
    c_str_array,
    check_call,
    ctypes2buffer,
    ctypes2numpy_shared,
    get_last_ffi_error,
    mx_float,
    mx_float_p,
)

__all__ = [
    "MXCallbackList",
    "MXNetError",
    "NDArrayHandle",
    "NotImplementedForSymbol",
    "NotSupportedForSparseNDArray",
    "SymbolHandle",
    "add_fileline_to_docstring",
    "build_param_doc",
    "c2pyerror",
    "c_array",
    "c_array_buf",
    "c_handle_array",
    "c_str",
    "c_str_array",
    "check_call",
    "classproperty",
    "ctypes2buffer",
    "ctypes2numpy_shared",
    "data_dir",
    "data_dir_default",
    "error_types",
    "get_last_ffi_error",
    "integer_types",
    "mx_float",
    "mx_float_p",
    "mx_real_t",
    "mx_uint",
    "numeric_types",
    "py_str",
    "register_error",
    "string_types",
    "with_metaclass",
]

raise_as(value=MXNetError, device=MXNetError)


class _NullType:
    """The type of `_Null`, the default of parameters that are not passed."""

    def __repr__(self) -> str:
        return "_Null"

    def __bool__(self) -> bool:
        return False

    def __reduce__(self) -> str:
        return "_Null"


_Null = _NullType()

string_types = (str,)
integer_types: tuple[type, ...] = (int, np.int32, np.int64)
numeric_types = (float, int, np.generic)
mx_real_t = np.float32

# MXNet's handles are C pointers. mxforge has none; third-party code uses the types in annotations and isinstance.
NDArrayHandle = ctypes.c_void_p
SymbolHandle = ctypes.c_void_p
mx_uint = ctypes.c_uint


# Prefixes of operator names by namespace: `_contrib_box_nms` is `nd.contrib.box_nms`.
_OP_NAME_PREFIX_LIST = ["_contrib_", "_linalg_", "_sparse_", "_image_", "_random_"]
_NP_OP_PREFIX = "_np_"
_NP_OP_SUBMODULE_LIST = ["_random_", "_linalg_"]
_NP_EXT_OP_PREFIX = "_npx_"
_NP_EXT_OP_SUBMODULE_LIST = ["_image_", "_random_"]
_NP_INTERNAL_OP_PREFIX = "_npi_"
_NP_OUTPUT_IS_LIST_OPERATORS = {"_npi_split", "_npi_hsplit"}


def _get_op_name_prefix(op_name: str) -> str:
    """The namespace prefix of an operator's name, such as "_contrib_", or ""."""
    return next((prefix for prefix in _OP_NAME_PREFIX_LIST if op_name.startswith(prefix)), "")


def _get_op_submodule_name(op_name: str, op_name_prefix: str, submodule_name_list: Sequence[str]) -> str:
    """The name of the list with which an operator's name continues after the prefix, or ""."""
    assert op_name.startswith(op_name_prefix)
    rest = op_name.removeprefix(op_name_prefix)
    return next((name for name in submodule_name_list if rest.startswith(name)), "")


def _is_np_op(op_name: str) -> bool:
    """True for names of operators of mx.np and mx.npx."""
    return op_name.startswith((_NP_OP_PREFIX, _NP_EXT_OP_PREFIX, _NP_INTERNAL_OP_PREFIX))


def _output_is_list(op_name: str) -> bool:
    """True for operators of mx.np that return a list even for one result."""
    return op_name in _NP_OUTPUT_IS_LIST_OPERATORS


def py_str(x: bytes) -> str:
    """The text of UTF-8 bytes."""
    return x.decode("utf-8")


def data_dir_default() -> str:
    """MXNet's default folder for downloads on this platform."""
    if platform.system() == "Windows":
        return os.path.join(os.environ["APPDATA"], "mxnet")
    return os.path.join(os.path.expanduser("~"), ".mxnet")


def data_dir() -> str:
    """The folder for downloads: the environment variable MXNET_HOME, or `data_dir_default()`."""
    return os.environ.get("MXNET_HOME", data_dir_default())


class _MXClassPropertyDescriptor:
    """A property of a class itself. Its setter works through `_MXClassPropertyMetaClass`."""

    def __init__(self, fget: Any, fset: Any = None) -> None:
        self.fget = fget
        self.fset = fset

    def __get__(self, obj: Any, clas: Any = None) -> Any:
        owner = type(obj) if clas is None else clas
        return self.fget.__get__(obj, owner)()

    def __set__(self, obj: Any, value: Any) -> Any:
        if self.fset is None:
            raise MXNetError(f"the class property of {obj!r} cannot be set")
        return self.fset.__get__(None, obj if inspect.isclass(obj) else type(obj))(value)

    def setter(self, func: Any) -> _MXClassPropertyDescriptor:
        self.fset = func if isinstance(func, classmethod | staticmethod) else classmethod(func)
        return self


class _MXClassPropertyMetaClass(type):
    """The metaclass of classes whose class properties can be set."""

    def __setattr__(cls, key: str, value: Any) -> None:
        member = cls.__dict__.get(key)
        if isinstance(member, _MXClassPropertyDescriptor):
            member.__set__(cls, value)
        else:
            super().__setattr__(key, value)


def classproperty(func: Any) -> Any:
    """A decorator: the function becomes a property of the class itself."""
    return _MXClassPropertyDescriptor(func if isinstance(func, classmethod | staticmethod) else classmethod(func))


def with_metaclass(meta: Any, *bases: type) -> type:
    """A temporary base class: a class that inherits from it is created by `meta` with the bases `bases`."""

    class Temporary(type):
        def __new__(cls, name: str, these: tuple[type, ...], members: dict[str, Any]) -> Any:
            return meta(name, bases, members)

        @classmethod
        def __prepare__(cls, name: str, these: tuple[type, ...], **kwargs: Any) -> Any:
            return meta.__prepare__(name, bases)

    return type.__new__(Temporary, "temporary_class", (), {})


def build_param_doc(
    arg_names: Sequence[str], arg_types: Sequence[str], arg_descs: Sequence[str], remove_dup: bool = True
) -> str:
    """The section of a docstring that lists parameters: name, type, description."""
    known: set[str] = set()
    lines: list[str] = []
    for name, type_text, text in zip(arg_names, arg_types, arg_descs, strict=False):
        if name == "num_args" or (remove_dup and name in known):
            continue
        known.add(name)
        lines.append(f"{name} : {type_text}" + (f"\n    {text}" if text else ""))
    return "\n".join(["Parameters", "----------", *(lines or [""]), ""])


def add_fileline_to_docstring(module: Any, incursive: bool = True) -> None:
    """Append file and line to the docstrings of a module's functions and, if `incursive`, of its classes' methods."""
    place = sys.modules[module] if isinstance(module, str) else module
    for _, thing in inspect.getmembers(place):
        if inspect.isfunction(thing):
            _add_fileline(thing)
        elif inspect.ismethod(thing):
            _add_fileline(thing.__func__)
        elif inspect.isclass(thing) and incursive:
            add_fileline_to_docstring(thing, False)


def _add_fileline(function: Callable[..., Any]) -> None:
    if function.__doc__ is None or "From:" in function.__doc__:
        return
    code = function.__code__
    function.__doc__ += f"\n\nFrom:{code.co_filename}:{code.co_firstlineno}"


def integers(values: Iterable[Any]) -> tuple[int, ...]:
    """The extents of a shape. TypeError for values that are not integers, 2.0 and True included: nothing is rounded."""
    numbers = tuple(values)
    for n in numbers:
        if n.__class__ is not int:
            return _as_integers(numbers)
    return numbers


def _as_integers(values: tuple[Any, ...]) -> tuple[int, ...]:
    if not all(isinstance(n, int | np.integer) and not isinstance(n, bool) for n in values):
        raise TypeError(f"a shape holds integers, not {values}")
    return tuple(map(int, values))


def _as_list(obj: Any) -> Any:
    """A list or tuple unchanged, any other value in a list."""
    return obj if isinstance(obj, list | tuple) else [obj]
