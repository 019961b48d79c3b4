"""`mxforge.sym`: symbols, and one function for each of MXNet's operators, made when it is first asked for."""

from __future__ import annotations

import sys as _sys
from typing import TYPE_CHECKING, Any

from ..name import NameManager as _NameManager
from . import contrib, random
from . import ops as _ops
from .creation import (
    arange,
    eye,
    full,
    histogram,
    hypot,
    linspace,
    maximum,
    minimum,
    ones,
    pow,
    power,
    split_v2,
    zeros,
)
from .symbol import NotImplementedForSymbol, Symbol
from .variable import Group, Variable, fromjson, load, load_json, var

linalg = _ops.Namespace(f"{__name__}.linalg", "linalg")
sparse = _ops.Namespace(f"{__name__}.sparse", "sparse")
image = _ops.Namespace(f"{__name__}.image", "image")
op = _ops.Namespace(f"{__name__}.op", "")
_internal = _ops.Namespace(
    f"{__name__}._internal",
    "_internal",
    {"AttrScope": contrib.AttrScope, "NameManager": _NameManager, "SymbolBase": Symbol},
)
for _module in (linalg, sparse, image, op, _internal):
    _sys.modules[_module.__name__] = _module

if TYPE_CHECKING:
    from .op import *  # noqa: F403  # pyright: ignore[reportMissingModuleSource]


# The modules into which MXNet generates functions, and the one that does it.
_GENERATED = {f"gen_{name}": name for name in ("op", "_internal", "contrib", "image", "linalg", "random", "sparse")}
_GENERATED["register"] = "_ops"


def __getattr__(name: str) -> Any:
    if name in _GENERATED:
        return globals()[_GENERATED[name]]
    found = None if name.startswith("__") else _ops.find_function("", name)
    if found is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_ops.names_of("")})
