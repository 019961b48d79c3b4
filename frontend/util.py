"""The switches of MXNet's NumPy mode, device queries, and helpers that MXNet's modules share."""

from __future__ import annotations

import inspect
import os
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import cache, wraps
from typing import Any, TypeVar

from .base import c_str, check_call, py_str
from .context import Context, device_of, gpu_memory_info, num_gpus

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
_SHAPES_ARE_ON = (
    "NumPy-shape semantics has been activated in your code. This is required for creating and manipulating scalar and "
    "zero-size tensors, which were not supported in MXNet before, as in the official NumPy library. Please DO NOT "
    "manually deactivate this semantics while using `mxnet.numpy` and `mxnet.numpy_extension` modules."
)
_ARRAYS_ARE_ON = (
    "NumPy array semantics has been activated in your code. This allows you to use operators from MXNet NumPy and "
    "NumPy Extension modules as well as MXNet NumPy `ndarray`s."
)


# MXNet's NumPy mode, per thread. With NumPy's shape semantics 0 is a size and () a scalar; without them both mean
# "unknown" in shapes that users write (shapes.py). In the mode for mx.np arrays the parameters and data of blocks are
# such arrays.


@cache
def _log_once(text: str) -> None:
    import logging

    logging.getLogger().info(text)


class _ShapeMode(threading.local):
    active = False


_shape_mode = _ShapeMode()


def is_np_shape() -> bool:
    """True if this thread uses NumPy's shape semantics: 0 is a size and () a scalar."""
    return _shape_mode.active


def set_np_shape(active: bool) -> bool:
    """Switch NumPy's shape semantics on or off for this thread; returns the previous state.

    ValueError if it is switched off while mx.np arrays are on.
    """
    if active:
        _log_once(_SHAPES_ARE_ON)
    if not active and is_np_array():
        raise ValueError(
            "Deactivating NumPy shape semantics while NumPy array semantics is still active is not allowed. Please "
            "consider calling `npx.reset_np()` to deactivate both of them."
        )
    before, _shape_mode.active = _shape_mode.active, bool(active)
    return before


class _NumpyShapeScope:
    """A scope with or without NumPy's shape semantics; None changes nothing."""

    def __init__(self, is_np_shape: bool | None) -> None:
        self._enter_is_np_shape = is_np_shape
        self._prev_is_np_shape: bool | None = None

    def __enter__(self) -> None:
        if self._enter_is_np_shape is not None:
            self._prev_is_np_shape = set_np_shape(self._enter_is_np_shape)

    def __exit__(self, *_: object) -> None:
        before = self._prev_is_np_shape
        if self._enter_is_np_shape is not None and before is not None and before != self._enter_is_np_shape:
            set_np_shape(before)


def np_shape(active: bool = True) -> _NumpyShapeScope:
    """A scope with or without NumPy's shape semantics."""
    return _NumpyShapeScope(active)


@contextmanager
def legacy_shapes() -> Generator[None]:
    """A scope without NumPy's shape semantics, in the NumPy mode too: 0 is an unknown extent."""
    before, _shape_mode.active = _shape_mode.active, False
    try:
        yield
    finally:
        _shape_mode.active = before


class _NumpyArrayScope:
    """A scope in which Gluon uses mx.np arrays or not."""

    _current = threading.local()

    def __init__(self, is_np_array: bool) -> None:
        self._old_scope: _NumpyArrayScope | None = None
        self._is_np_array = is_np_array

    def __enter__(self) -> _NumpyArrayScope:
        self._old_scope = getattr(_NumpyArrayScope._current, "value", None) or _NumpyArrayScope(False)
        _NumpyArrayScope._current.value = self
        return self

    def __exit__(self, *_: object) -> None:
        assert self._old_scope
        _NumpyArrayScope._current.value = self._old_scope


def np_array(active: bool = True) -> _NumpyArrayScope:
    """A scope in which Gluon uses mx.np arrays or not: the arrays of parameters, and the results of blocks."""
    return _NumpyArrayScope(active)


def is_np_array() -> bool:
    """True if Gluon uses mx.np arrays in this thread."""
    scope = getattr(_NumpyArrayScope._current, "value", None)
    return scope is not None and scope._is_np_array


def _set_np_array(active: bool) -> bool:
    """Set whether Gluon uses mx.np arrays in this thread; returns the previous state."""
    if active:
        _log_once(_ARRAYS_ARE_ON)
    before = is_np_array()
    _NumpyArrayScope._current.value = _NumpyArrayScope(active)
    return before


def set_np(shape: bool = True, array: bool = True) -> None:
    """Switch NumPy's shapes and mx.np arrays on or off for this thread. ValueError for arrays without shapes."""
    if array and not shape:
        raise ValueError("NumPy Shape semantics is required in using NumPy array semantics.")
    _set_np_array(array)
    set_np_shape(shape)


def reset_np() -> None:
    """Switch NumPy's shape semantics and mx.np arrays off."""
    set_np(shape=False, array=False)


def _scoped(name: str, scope: Callable[[], Any]) -> Callable[[Any], Any]:
    """A decorator that runs a function, or each method and property of a class, in a scope."""

    def is_method(value: Any) -> bool:
        return inspect.isfunction(value) or inspect.ismethod(value) or isinstance(value, property)

    def decorate(func: Any) -> Any:
        if inspect.isclass(func):
            for member, method in inspect.getmembers(func, is_method):
                static = inspect.getattr_static(func, member)
                if isinstance(static, staticmethod | classmethod):
                    setattr(func, member, type(static)(decorate(static.__func__)))
                elif isinstance(method, property):
                    getter = decorate(method.__get__)
                    setattr(func, member, property(getter, method.__set__, method.__delete__, method.__doc__))
                else:
                    setattr(func, member, decorate(method))
            return func
        if not callable(func):
            cls = type(func)
            raise TypeError(f"{name} can only decorate classes and callable objects, while received a {cls}")

        @wraps(func)
        def run(*args: Any, **kwargs: Any) -> Any:
            with scope():
                return func(*args, **kwargs)

        return run

    return decorate


def use_np_shape(func: _T) -> _T:
    """A decorator: a function, or the methods of a class, run in a scope with NumPy's shape semantics."""
    return _scoped("use_np_shape", np_shape)(func)


def use_np_array(func: _T) -> _T:
    """A decorator: a function, or the methods of a class, run in a scope of mx.np arrays."""
    return _scoped("use_np_array", np_array)(func)


def is_np_default_dtype() -> bool:
    """False: as in MXNet 1.9.1, the default dtype of `mx.np` is float32."""
    return False


def set_np_default_dtype(is_np_default_dtype: bool = True) -> bool:
    """MXNet 2's switch to NumPy's default dtypes. NotImplementedError for True: the default dtype is float32."""
    if is_np_default_dtype:
        raise NotImplementedError("NumPy's default dtypes: the default dtype of mx.np is float32; pass dtype='float64'")
    return False


def use_np(func: _T) -> _T:
    """A decorator: a function, or the methods of a class, run in MXNet's NumPy mode."""
    return use_np_shape(use_np_array(func))


def set_module(module: str) -> Callable[[_T], _T]:
    """A decorator that gives a function or class the module name under which users know it."""

    def rename(thing: _T) -> _T:
        thing.__module__ = module
        return thing

    return rename


def get_gpu_count() -> int:
    return num_gpus()


def get_gpu_memory(gpu_dev_id: int) -> tuple[int, int]:
    """Free and total bytes of a GPU. MXNetError if there is none."""
    return gpu_memory_info(gpu_dev_id)


def get_cuda_compute_capability(ctx: Context) -> int:
    """Ten times the compute capability of a GPU. ValueError for other contexts, OSError without CUDA's driver."""
    if ctx.device_type != "gpu":
        raise ValueError(f"Expecting a gpu context to get cuda compute capability, while received ctx {ctx}")
    from ..runtime.devices import unavailable

    if not num_gpus():
        raise OSError(unavailable("gpu"))
    target: Any = device_of(ctx).target
    return target.capability


_UFUNC_DTYPES = frozenset("int8 uint8 int32 int64 float16 float32 float64".split())
_UFUNC_CASTINGS = ("no", "equiv", "safe", "same_kind", "unsafe")
_np_ufunc_default_kwargs: dict[str, Any] = {
    "where": True,
    "casting": "same_kind",
    "order": "K",
    "dtype": None,
    "subok": True,
}


def np_ufunc_legal_option(key: str, value: Any) -> bool:
    """True if NumPy's ufuncs have this argument and accept this value."""
    legal: dict[str, Callable[[Any], bool]] = {
        "where": lambda _: True,
        "casting": lambda v: v in _UFUNC_CASTINGS,
        "order": lambda v: isinstance(v, str),
        "dtype": lambda v: getattr(v, "__name__", v) in _UFUNC_DTYPES,
        "subok": lambda v: isinstance(v, bool),
    }
    return key in legal and legal[key](value)


def check_ufunc_options(name: str, options: dict[str, Any]) -> None:
    """NotImplementedError for an option other than NumPy's default, TypeError for one that NumPy does not have."""
    for key, value in options.items():
        if key not in _np_ufunc_default_kwargs:
            raise TypeError(f"{key} is an invalid keyword to function '{name}'")
        if hasattr(value, "asnumpy"):
            raise NotImplementedError(f"{name}: {key}= cannot be an array; use np.where on the result")
        if value == _np_ufunc_default_kwargs[key]:
            continue
        if np_ufunc_legal_option(key, value):
            raise NotImplementedError(f"{key}={value} is not implemented yet for operator {name}")
        raise TypeError(f"{key}={value} not understood for operator {name}")


def wrap_np_unary_func(func: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a NumPy ufunc to a function of one array; only their defaults are accepted."""

    @wraps(func)
    def wrapped(x: Any, out: Any = None, **kwargs: Any) -> Any:
        check_ufunc_options(func.__name__, kwargs)
        return func(x, out=out)

    return wrapped


def wrap_np_binary_func(func: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a NumPy ufunc to a function of two arrays; only their defaults are accepted."""

    @wraps(func)
    def wrapped(x1: Any, x2: Any, out: Any = None, **kwargs: Any) -> Any:
        check_ufunc_options(func.__name__, kwargs)
        return func(x1, x2, out=out)

    return wrapped


def getenv(name: str) -> str | None:
    """The value of an environment variable; None if it is not set."""
    return os.environ.get(name)


def setenv(name: str, value: str | None) -> None:
    """Set an environment variable; None removes it."""
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value
