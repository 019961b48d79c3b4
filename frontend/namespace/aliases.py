"""Makes the packages of `frontend` importable under MXNet's names: `mxforge.nd`, `mxforge.ndarray.ndarray`,
`mxforge.gluon.nn`.

A file is loaded once, under its real name; an alias is a second name for the same module. Modules of MXNet that mxforge
does not implement can be imported too (see absent_modules.py). Loaded modules also get the names that MXNet's modules
re-export (see borrowed.py).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING

from .atomic_imports import find_atomic, load_atomically
from .borrowed_names import BORROWED
from .modules import ABSENT_MODULES, MODULE_ALIASES, PRESENT, loaded_paths

if TYPE_CHECKING:
    from importlib.abc import Loader, MetaPathFinder

    from .lazy import LazyModule
else:
    Loader = MetaPathFinder = object  # importing importlib.abc takes 10 ms, and its classes are interfaces


class ModuleAliases(MetaPathFinder):
    """A finder of modules by alias. `real_name` returns the real name of an alias."""

    def real_name(self, fullname: str) -> str | None:
        raise NotImplementedError

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        real = self.real_name(fullname)
        spec = None if real is None else find_spec(real)
        if real is None or spec is None:
            return None
        return ModuleSpec(fullname, _AliasLoader(real), is_package=spec.submodule_search_locations is not None)


class FolderAliases(ModuleAliases):
    """Maps `ROOT.ALIAS[.rest]` to `ROOT.frontend.TARGET[.rest]`. `aliases` maps ALIAS to TARGET."""

    def __init__(self, root: str, aliases: Mapping[str, str]) -> None:
        self.root = root
        self.aliases = aliases
        self.frontend = f"{root}.frontend."
        self.lazy: dict[str, LazyModule] = {}

    def real_name(self, fullname: str) -> str | None:
        root, _, path = fullname.partition(".")
        path = MODULE_ALIASES.get(path, path)
        alias, dot, inner = path.partition(".")
        if root != self.root or alias not in self.aliases:
            return None
        return f"{self.frontend}{self.aliases[alias]}{dot}{inner}"

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.startswith(self.frontend) or fullname == f"{self.root}.runtime":
            return self._completing_spec(fullname, path)
        if fullname.startswith(self.root + "."):
            absent = self._absent_spec(fullname.removeprefix(self.root + "."))
            if absent is not None:
                return absent
        return super().find_spec(fullname, path, target)

    def register_modules(self, name: str) -> None:
        """Add the modules that MXNet has loaded after its import to `sys.modules`, as `NAME.path`."""
        for path in loaded_paths():
            sys.modules[f"{name}.{path}"] = self._module_at(path)

    def _module_at(self, path: str) -> ModuleType:
        from .absent_modules import AbsentModule
        from .lazy import LazyModule

        fullname = f"{self.root}.{path}"
        if path in ABSENT_MODULES:
            return sys.modules.setdefault(fullname, AbsentModule(self.root, path))
        real = self.real_name(fullname) or fullname
        return sys.modules.get(real) or self.lazy.setdefault(real, LazyModule(real))

    def _absent_spec(self, path: str) -> ModuleSpec | None:
        if path not in ABSENT_MODULES:
            return None
        return ModuleSpec(f"{self.root}.{path}", _AbsentLoader(self.root, path), is_package=True)

    def _completing_spec(self, fullname: str, path: Sequence[str] | None) -> ModuleSpec | None:
        place = fullname.removeprefix(self.frontend).removeprefix(f"{self.root}.")
        if place not in PRESENT and place not in BORROWED:
            return None
        spec = find_atomic(fullname, path)
        if spec is not None and spec.loader is not None:
            spec.loader = _CompletingLoader(spec.loader, self.root, place, self.lazy.get(fullname))
        return spec


class RenamedPackage(ModuleAliases):
    """Maps `NAME.rest` to `ROOT.rest`."""

    def __init__(self, name: str, root: str) -> None:
        self.name = name
        self.root = root

    def real_name(self, fullname: str) -> str | None:
        name, dot, rest = fullname.partition(".")
        return f"{self.root}{dot}{rest}" if name == self.name else None


class _AliasLoader(Loader):
    """Returns the module that is loaded under its real name."""

    def __init__(self, real: str) -> None:
        self.real = real

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = import_module(self.real)
        self.spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.spec  # the import system has set it to the alias's spec


class _AbsentLoader(Loader):
    """Creates an AbsentModule."""

    def __init__(self, root: str, path: str) -> None:
        self.root = root
        self.path = path

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        from .absent_modules import AbsentModule

        return AbsentModule(self.root, self.path)

    def exec_module(self, module: ModuleType) -> None:
        """Does nothing: the module has no contents."""


class _CompletingLoader(Loader):
    """Runs a module's original loader, then adds the names that MXNet's module at `place` re-exports.

    If `lazy` is not None, the module is loaded into this object.
    """

    def __init__(self, own: Loader, root: str, place: str, lazy: LazyModule | None) -> None:
        self.own = own
        self.root = root
        self.place = place
        self.lazy = lazy

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        if self.lazy is None:
            return self.own.create_module(spec)
        from .lazy import begin

        begin(self.lazy)
        return self.lazy

    def exec_module(self, module: ModuleType) -> None:
        if self.lazy is None:
            load_atomically(module, self._run)
            return
        from .lazy import finish

        loaded = False
        try:
            load_atomically(module, self._run)
            loaded = True
        finally:
            finish(self.lazy, loaded)

    def _run(self, module: ModuleType) -> None:
        spec = module.__spec__
        assert spec is not None
        spec.loader = module.__loader__ = self.own
        self.own.exec_module(module)
        from .borrowed import complete

        complete(module, self.root, self.place)
        if self.place in PRESENT:  # the path in the `__module__` of its classes
            sys.modules.setdefault(f"{self.root}.{self.place}", module)


def folder_aliases(root: str) -> FolderAliases:
    """The finder that `install_aliases` added to the import system."""
    return next(finder for finder in sys.meta_path if isinstance(finder, FolderAliases) and finder.root == root)


def install_aliases(root: str, aliases: Mapping[str, str]) -> None:
    """Add the aliases to the import system, as its first finder: a folder with the name of an alias can exist."""
    sys.meta_path.insert(0, FolderAliases(root, aliases))
