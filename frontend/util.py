"""Questions that programs ask about MXNet's NumPy mode, which mxforge does not have, and about its devices."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, TypeVar

from .base import MXNetError, c_str, check_call, py_str
from .context import Context, gpu_memory_info, num_gpus

__all__ = [
    "c_str",
    "check_call",
    "get_cuda_compute_capability",
    "get_gpu_count",
    "get_gpu_memory",
    "getenv",
    "is_np_array",
    "is_np_shape",
    "np_array",
    "np_shape",
    "np_ufunc_legal_option",
    "py_str",
    "reset_np",
    "set_module",
    "set_np",
    "set_np_shape",
    "setenv",
    "use_np",
    "use_np_array",
    "use_np_shape",
    "wrap_np_binary_func",
    "wrap_np_unary_func",
]

_T = TypeVar("_T")
_NO_NUMPY_MODE = (
    "MXNet's NumPy mode (mx.np, npx.set_np) is not supported: mxforge runs the classic nd, sym and gluon API"
)


def is_np_shape() -> bool:
    """Whether shapes have NumPy's meaning (0 is a size and () a scalar): never."""
    return False


def is_np_array() -> bool:
    """Whether Gluon works on mx.np arrays: never."""
    return False


@contextmanager
def np_shape(active: bool = True) -> Iterator[None]:
    """A scope with NumPy's shapes or without; without alone is supported."""
    set_np_shape(active)
    yield


@contextmanager
def np_array(active: bool = True) -> Iterator[None]:
    """A scope with mx.np arrays or without; without alone is supported."""
    set_np(active, active)
    yield


def set_np_shape(active: bool) -> bool:
    """Accepts False alone; returns the former state."""
    if active:
        raise MXNetError(_NO_NUMPY_MODE)
    return False


def set_np(shape: bool = True, array: bool = True) -> None:
    """Accepts the classic mode alone."""
    if array and not shape:
        raise ValueError("NumPy Shape semantics is required in using NumPy array semantics.")
    if shape:
        raise MXNetError(_NO_NUMPY_MODE)


def reset_np() -> None:
    """Back to the classic mode, which is always on."""


def use_np(func: _T) -> _T:
    """A decorator of MXNet's NumPy mode; raises."""
    raise MXNetError(_NO_NUMPY_MODE)


use_np_shape = use_np_array = use_np


def set_module(module: str) -> Callable[[_T], _T]:
    """A decorator that gives a function or class the module name under which users know it."""

    def rename(thing: _T) -> _T:
        thing.__module__ = module
        return thing

    return rename


def get_gpu_count() -> int:
    return num_gpus()


def get_gpu_memory(gpu_dev_id: int) -> tuple[int, int]:
    """Free and total bytes of a GPU. MXNetError, as long as there is none."""
    return gpu_memory_info(gpu_dev_id)


def get_cuda_compute_capability(ctx: Context) -> int:
    """Ten times the compute capability of a GPU. ValueError for other contexts, OSError without CUDA's driver."""
    if ctx.device_type != "gpu":
        raise ValueError(f"Expecting a gpu context to get cuda compute capability, while received ctx {ctx}")
    raise OSError("the CUDA target is not there yet, so no driver is asked")


_UFUNC_DTYPES = frozenset("int8 uint8 int32 int64 float16 float32 float64".split())
_UFUNC_CASTINGS = ("no", "equiv", "safe", "same_kind", "unsafe")
_UFUNC_DEFAULTS: dict[str, Any] = {
    "where": True,
    "casting": "same_kind",
    "order": "K",
    "dtype": None,
    "subok": True,
}


def np_ufunc_legal_option(key: str, value: Any) -> bool:
    """Whether NumPy knows such an argument of a ufunc, and the value for it."""
    legal: dict[str, Callable[[Any], bool]] = {
        "where": lambda _: True,
        "casting": lambda v: v in _UFUNC_CASTINGS,
        "order": lambda v: isinstance(v, str),
        "dtype": lambda v: getattr(v, "__name__", v) in _UFUNC_DTYPES,
        "subok": lambda v: isinstance(v, bool),
    }
    return key in legal and legal[key](value)


def _check_ufunc_options(function: Any, options: dict[str, Any]) -> None:
    """NotImplementedError for an option of NumPy's that is not the default, TypeError for what NumPy does not know."""
    for key, value in options.items():
        if key not in _UFUNC_DEFAULTS:
            raise TypeError(f"{key} is an invalid keyword to function '{function.__name__}'")
        if value == _UFUNC_DEFAULTS[key]:
            continue
        if np_ufunc_legal_option(key, value):
            raise NotImplementedError(f"{key}={value} is not implemented yet for operator {function.__name__}")
        raise TypeError(f"{key}={value} not understood for operator {function.__name__}")


def wrap_np_unary_func(func: Callable[..., Any]) -> Callable[..., Any]:
    """The function of one array with the options of a NumPy ufunc, of which the defaults alone are accepted."""

    @wraps(func)
    def wrapped(x: Any, out: Any = None, **kwargs: Any) -> Any:
        _check_ufunc_options(func, kwargs)
        return func(x, out=out)

    return wrapped


def wrap_np_binary_func(func: Callable[..., Any]) -> Callable[..., Any]:
    """The function of two arrays with the options of a NumPy ufunc, of which the defaults alone are accepted."""

    @wraps(func)
    def wrapped(x1: Any, x2: Any, out: Any = None, **kwargs: Any) -> Any:
        _check_ufunc_options(func, kwargs)
        return func(x1, x2, out=out)

    return wrapped


def getenv(name: str) -> str | None:
    """An environment variable as C code would see it."""
    return os.environ.get(name)


def setenv(name: str, value: str | None) -> None:
    """Set an environment variable, or remove it."""
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value
