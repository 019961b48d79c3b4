"""Lazy modules: they are in `sys.modules` before they are loaded. Some frameworks look there for `mxnet.ndarray`.

MXNet loads all of its modules at `import mxnet`. mxforge adds an object for each, which is loaded at the first access
to an attribute. The object stays the same, under all its names.
"""

from __future__ import annotations

from importlib import import_module
from importlib.machinery import ModuleSpec
from itertools import accumulate
from threading import get_ident
from types import ModuleType
from typing import Any

_QUIET = frozenset("__class__ __name__ __spec__ __loader__ __package__ __file__ __cached__ __warningregistry__".split())
"""Attributes that tools read of every module in `sys.modules`. Reading them does not load a module."""


class LazyModule(ModuleType):
    """A module that is not loaded yet. When it is loaded, its class becomes ModuleType."""

    def __init__(self, real: str) -> None:
        super().__init__(real)
        vars_of(self).update(__spec__=ModuleSpec(real, None), _loading_thread=None)

    def __getattribute__(self, name: str) -> Any:
        if name in _QUIET or vars_of(self)["_loading_thread"] == get_ident():
            return super().__getattribute__(name)
        return getattr(_load(self), name)

    def __setattr__(self, name: str, value: Any) -> None:
        if vars_of(self)["_loading_thread"] == get_ident():
            super().__setattr__(name, value)
        else:
            setattr(_load(self), name, value)

    def __delattr__(self, name: str) -> None:
        delattr(_load(self), name)


def vars_of(module: LazyModule) -> dict[str, Any]:
    """The module's `__dict__`, without loading the module."""
    return ModuleType.__getattribute__(module, "__dict__")


def _load(module: LazyModule) -> ModuleType:
    """Load the module and return it.

    The enclosing packages are loaded first, one by one. Otherwise, threads that load a package and a module in it at
    the same time could deadlock on the import locks.
    """
    *packages, name = accumulate(vars_of(module)["__name__"].split("."), "{}.{}".format)
    for package in packages:
        import_module(package)
    return import_module(name)


def begin(module: LazyModule) -> None:
    """Mark the module as being loaded by this thread, which can access its partial contents. Other threads wait."""
    vars_of(module)["_loading_thread"] = get_ident()


def finish(module: LazyModule, loaded: bool) -> None:
    """Make a loaded module an ordinary module. If the import failed, the next access tries again."""
    if loaded:
        del vars_of(module)["_loading_thread"]
        object.__setattr__(module, "__class__", ModuleType)
    else:
        vars_of(module)["_loading_thread"] = None
