"""Modules that are in `sys.modules` before they are loaded: frameworks look there for `mxnet.ndarray` and its kin.

After `import mxnet`, MXNet has loaded all of its modules. Here each is an object that the import system loads when
something of it is first touched. It is the same object before and after, under all its names.
"""

from __future__ import annotations

from importlib import import_module
from importlib.machinery import ModuleSpec
from itertools import accumulate
from threading import get_ident
from types import ModuleType
from typing import Any

_QUIET = frozenset("__class__ __name__ __spec__ __loader__ __package__ __file__ __cached__ __warningregistry__".split())
"""What tools ask of every module in `sys.modules`, which must not load them."""


class LateModule(ModuleType):
    """A module that is not loaded yet. Once it is, its class is ModuleType."""

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


def vars_of(module: LateModule) -> dict[str, Any]:
    """The module's names, without loading it."""
    return ModuleType.__getattribute__(module, "__dict__")


def _load(module: LateModule) -> ModuleType:
    """The module, loaded.

    The packages around it come first, each on its own: threads that load a package and a module in it at the same time
    would otherwise each wait for the lock that the other one holds.
    """
    *packages, name = accumulate(vars_of(module)["__name__"].split("."), "{}.{}".format)
    for package in packages:
        import_module(package)
    return import_module(name)


def begin(module: LateModule) -> None:
    """Note that this thread loads the module: it sees what is there so far, and others wait for the import."""
    vars_of(module)["_loading_thread"] = get_ident()


def finish(module: LateModule, loaded: bool) -> None:
    """Make an ordinary module of one that is loaded; one whose import failed is tried again when it is touched."""
    if loaded:
        del vars_of(module)["_loading_thread"]
        object.__setattr__(module, "__class__", ModuleType)
    else:
        vars_of(module)["_loading_thread"] = None
