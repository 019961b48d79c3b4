"""Makes the packages of `frontend` importable under MXNet's names: `mxforge.nd`, `mxforge.ndarray.ndarray`,
`mxforge.gluon.nn`.

The files are loaded once, under their own names; an alias is a second name for the same module.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.abc import Loader, MetaPathFinder
else:
    Loader = MetaPathFinder = object  # importing importlib.abc takes 10 ms, and its classes are interfaces


class ModuleAliases(MetaPathFinder):
    """Finds modules by second names; `real_name` says which module a name stands for."""

    def real_name(self, fullname: str) -> str | None:
        raise NotImplementedError

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        real = self.real_name(fullname)
        found = None if real is None else find_spec(real)
        if real is None or found is None:
            return None
        return ModuleSpec(fullname, _AliasLoader(real), is_package=found.submodule_search_locations is not None)


class FolderAliases(ModuleAliases):
    """`ROOT.ALIAS[.rest]` stands for `ROOT.frontend.TARGET[.rest]`, by a table."""

    def __init__(self, root: str, aliases: Mapping[str, str]) -> None:
        self.root = root
        self.aliases = aliases

    def real_name(self, fullname: str) -> str | None:
        root, _, rest = fullname.partition(".")
        alias, dot, inner = rest.partition(".")
        if root != self.root or alias not in self.aliases:
            return None
        return f"{root}.frontend.{self.aliases[alias]}{dot}{inner}"


class RenamedPackage(ModuleAliases):
    """`NAME.rest` stands for `ROOT.rest`."""

    def __init__(self, name: str, root: str) -> None:
        self.name = name
        self.root = root

    def real_name(self, fullname: str) -> str | None:
        name, dot, rest = fullname.partition(".")
        return f"{self.root}{dot}{rest}" if name == self.name else None


class _AliasLoader(Loader):
    """Gives the module that is loaded under its own name."""

    def __init__(self, real: str) -> None:
        self.real = real

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = import_module(self.real)
        self.spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.spec  # the import system has put the alias's there


def install_aliases(root: str, aliases: Mapping[str, str]) -> None:
    """Have the import system know the aliases; `ROOT.ALIAS` before all others, since a folder of that name may exist
    too."""
    sys.meta_path.insert(0, FolderAliases(root, aliases))
