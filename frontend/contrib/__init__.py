"""`mxforge.contrib`: modules that are not part of MXNet's stable interface, each imported when it is first used."""

from __future__ import annotations

from importlib import import_module as _import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import amp, autograd, io, ndarray, onnx, svrg_optimization, symbol, tensorboard, text
    from . import ndarray as nd
    from . import symbol as sym

__all__ = ["amp", "autograd", "io", "nd", "ndarray", "onnx", "sym", "symbol", "tensorboard", "text"]

_NAMES = frozenset(__all__)  # of a loaded module, `__all__` lists other names too
_ALIASES = {"nd": "ndarray", "sym": "symbol"}


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
    module = globals()[name] = _import_module(f"{__name__}.{_ALIASES.get(name, name)}")
    return module


def __dir__() -> list[str]:
    return sorted({*(name for name in globals() if name.startswith("__")), *_NAMES})
