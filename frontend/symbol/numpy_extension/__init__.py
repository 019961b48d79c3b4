"""`mx.sym.npx`: the functions of `mx.npx` on symbols."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ...generated_functions import Row as _Row
from ...numpy_functions import bound as _bound
from ...numpy_functions import names as _names
from ...numpy_rows import EXTENSIONS as _EXTENSIONS

_MODULES = ("image", "random")


def __getattr__(name: str) -> Any:
    from ..numpy.functions import NPX, internal

    if name in _MODULES:
        return import_module(f".{name}", __name__)
    function: Any = None
    if name in _EXTENSIONS:
        function = NPX.listed(_Row(name, _EXTENSIONS[name], ()))
    else:
        function = _bound(name, internal, "mxforge.symbol.numpy_extension", "npx")
    if function is None:
        raise AttributeError(f"module 'mxforge.symbol.numpy_extension' has no attribute {name!r}", name=name)
    globals()[name] = function
    return function


def __dir__() -> list[str]:
    return sorted({*_EXTENSIONS, *_names("npx"), *_MODULES})
