"""Questions that programs ask about MXNet's NumPy mode, which mxforge does not have, and about its devices."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from .base import MXNetError
from .context import num_gpus

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
    set_np(False, active)
    yield


def set_np_shape(active: bool) -> bool:
    """Accepts False alone; returns the former state."""
    if active:
        raise MXNetError(_NO_NUMPY_MODE)
    return False


def set_np(shape: bool = True, array: bool = True) -> None:
    """Accepts the classic mode alone."""
    if shape or array:
        raise MXNetError(_NO_NUMPY_MODE)


def reset_np() -> None:
    """Back to the classic mode, which is always on."""


def use_np(function: _T) -> _T:
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


def getenv(name: str) -> str | None:
    """An environment variable as C code would see it."""
    return os.environ.get(name)


def setenv(name: str, value: str | None) -> None:
    """Set an environment variable, or remove it."""
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value
