"""`mx.sym.np`: the functions of `mx.np` on symbols. They are created when they are first accessed."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ..numpy_symbol import _Symbol
from .functions import find as _find
from .functions import names as _names

_MODULES = ("linalg", "random")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f".{name}", __name__)
    function = _find(name)
    if function is None:
        raise AttributeError(f"module 'mxforge.symbol.numpy' has no attribute {name!r}", name=name)
    globals()[name] = function
    return function


def __dir__() -> list[str]:
    return sorted({*_names(), *_MODULES})
