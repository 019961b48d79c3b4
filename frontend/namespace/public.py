"""The public names of MXNet's modules: the names in `dir`, and the `__module__` of public classes and functions.

A class can be defined in any file of a package. Users and pickles see the public path: `mxforge.gluon.Block`.
"""

from __future__ import annotations

from types import FunctionType, ModuleType
from typing import Any

from .modules import PRESENT

_ATTRIBUTES = frozenset(
    "__builtins__ __cached__ __doc__ __file__ __loader__ __name__ __package__ __path__ __spec__".split()
)
_SOURCE_ONLY = frozenset(("TYPE_CHECKING", "annotations"))
_TYPING = frozenset(("collections.abc", "types", "typing"))


class PublicNames:
    """The public names of a loaded module, which corresponds to MXNet's module at `place` below `root`.

    They are the names in its `__all__`. Without `__all__`, they are its definitions and, for a package, the definitions
    that it imports from its submodules.
    """

    def __init__(self, module: ModuleType, root: str, place: str) -> None:
        self._module = module
        self._place = place
        self._path = f"{root}.{place}"
        self._listed = frozenset(module.__dict__.get("__all__", ()))
        self._decided = frozenset(module.__dict__) if self._listed else _SOURCE_ONLY
        self._own: set[str] = set()

    def publish(self) -> None:
        """Set `__module__` of the module's classes and functions to its public path."""
        for name, value in self._module.__dict__.items():
            if isinstance(value, type | FunctionType) and value.__qualname__ == name and self._owns(name, value):
                value.__module__ = self._path
                self._own.add(name)

    def _owns(self, name: str, value: Any) -> bool:
        """True if `value` is defined in this module or a submodule, or if it is in `__all__` and defined in an internal
        module of the same package."""
        real, origin = self._module.__name__, value.__module__
        if f"{origin}.".startswith((f"{real}.", f"{self._path}.")):
            return True
        same_package = origin.rpartition(".")[0] == real.rpartition(".")[0]
        return (
            same_package and name in self._listed and origin.removeprefix(real.removesuffix(self._place)) not in PRESENT
        )

    def names(self) -> set[str]:
        """The current names of the module that `dir` lists."""
        return {name for name, value in self._module.__dict__.items() if self._is_public(name, value)}

    def _is_public(self, name: str, value: Any) -> bool:
        if name in _ATTRIBUTES or name in self._listed:
            return True
        if name.startswith("_") or name in self._decided:
            return False
        if isinstance(value, ModuleType):
            below = value.__name__.removeprefix(f"{self._module.__name__}.")
            return f"{self._place}.{below}" in PRESENT
        if getattr(value, "__qualname__", None) == getattr(value, "__name__", ""):  # a class or function of some module
            return name in self._own
        return type(value).__module__ not in _TYPING
