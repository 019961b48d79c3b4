"""Modules of MXNet that mxforge does not implement. They can be imported; access to their contents raises
AttributeError."""

from __future__ import annotations

from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from .attribute_error import attribute_error
from .borrowed import find_borrowed
from .modules import ABSENT_MODULES


class AbsentModule(ModuleType):
    """A module of MXNet that mxforge does not implement. Access to its contents raises AttributeError."""

    def __init__(self, root: str, path: str) -> None:
        super().__init__(f"{root}.{path}", f"Absent: {ABSENT_MODULES[path]}.")
        self.__path__ = []  # submodules are found by name
        self.__spec__ = ModuleSpec(self.__name__, None, is_package=True)
        self._root, self._below_root = root, path

    def __getattr__(self, name: str) -> Any:
        borrowed = find_borrowed(self._root, self._below_root, name)
        if borrowed is None:
            raise attribute_error(self._root, self._below_root, name)
        return borrowed[0]


def absent_module(root: str, path: str) -> ModuleType | None:
    """The absent module at this path below `root`; None if the path is not in ABSENT_MODULES."""
    return import_module(f"{root}.{path}") if path in ABSENT_MODULES else None
