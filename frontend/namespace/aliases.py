"""Makes the packages of `frontend` importable under MXNet's names: `mxforge.nd`, `mxforge.ndarray.ndarray`,
`mxforge.gluon.nn`.

The files are loaded once, under their own names; an alias is a second name for the same module. Modules of MXNet that
mxforge does not have import too (see absent_modules.py). Loaded modules also get the names that MXNet's have from
elsewhere (see borrowed.py).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING

from .borrowed_names import BORROWED
from .modules import ABSENT_MODULES, PRESENT, SECOND_NAMES, loaded_paths
from .whole_imports import find_whole, load_whole

if TYPE_CHECKING:
    from importlib.abc import Loader, MetaPathFinder

    from .late import LateModule
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
        self.frontend = f"{root}.frontend."
        self.late: dict[str, LateModule] = {}

    def real_name(self, fullname: str) -> str | None:
        root, _, path = fullname.partition(".")
        path = SECOND_NAMES.get(path, path)
        alias, dot, inner = path.partition(".")
        if root != self.root or alias not in self.aliases:
            return None
        return f"{self.frontend}{self.aliases[alias]}{dot}{inner}"

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.startswith(self.frontend) or fullname == f"{self.root}.runtime":
            return self._completed(fullname, path)
        if fullname.startswith(self.root + "."):
            absent = self._absent(fullname.removeprefix(self.root + "."))
            if absent is not None:
                return absent
        return super().find_spec(fullname, path, target)

    def register_modules(self, name: str) -> None:
        """Put the modules that MXNet has after its import into `sys.modules`, as `NAME.path`."""
        for path in loaded_paths():
            sys.modules[f"{name}.{path}"] = self._module_at(path)

    def _module_at(self, path: str) -> ModuleType:
        from .absent_modules import AbsentModule
        from .late import LateModule

        fullname = f"{self.root}.{path}"
        if path in ABSENT_MODULES:
            return sys.modules.setdefault(fullname, AbsentModule(self.root, path))
        real = self.real_name(fullname) or fullname
        return sys.modules.get(real) or self.late.setdefault(real, LateModule(real))

    def _absent(self, path: str) -> ModuleSpec | None:
        if path not in ABSENT_MODULES:
            return None
        return ModuleSpec(f"{self.root}.{path}", _AbsentLoader(self.root, path), is_package=True)

    def _completed(self, fullname: str, path: Sequence[str] | None) -> ModuleSpec | None:
        place = fullname.removeprefix(self.frontend).removeprefix(f"{self.root}.")
        if place not in PRESENT and place not in BORROWED:
            return None
        spec = find_whole(fullname, path)
        if spec is not None and spec.loader is not None:
            spec.loader = _CompletingLoader(spec.loader, self.root, place, self.late.get(fullname))
        return spec


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


class _AbsentLoader(Loader):
    """Makes a module that refuses to be used."""

    def __init__(self, root: str, path: str) -> None:
        self.root = root
        self.path = path

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        from .absent_modules import AbsentModule

        return AbsentModule(self.root, self.path)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing: the module has no contents."""


class _CompletingLoader(Loader):
    """Runs a module's own loader, into `late` if that is given, then adds the names that MXNet's module of that place
    has from elsewhere."""

    def __init__(self, own: Loader, root: str, place: str, late: LateModule | None) -> None:
        self.own = own
        self.root = root
        self.place = place
        self.late = late

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        if self.late is None:
            return self.own.create_module(spec)
        from .late import begin

        begin(self.late)
        return self.late

    def exec_module(self, module: ModuleType) -> None:
        if self.late is None:
            load_whole(module, self._run)
            return
        from .late import finish

        loaded = False
        try:
            load_whole(module, self._run)
            loaded = True
        finally:
            finish(self.late, loaded)

    def _run(self, module: ModuleType) -> None:
        spec = module.__spec__
        assert spec is not None
        spec.loader = module.__loader__ = self.own
        self.own.exec_module(module)
        from .borrowed import complete

        complete(module, self.root, self.place)
        if self.place in PRESENT:  # the path that its classes give as theirs
            sys.modules.setdefault(f"{self.root}.{self.place}", module)


def folder_aliases(root: str) -> FolderAliases:
    """What `install_aliases` has put among the finders of the import system."""
    return next(finder for finder in sys.meta_path if isinstance(finder, FolderAliases) and finder.root == root)


def install_aliases(root: str, aliases: Mapping[str, str]) -> None:
    """Have the import system know the aliases; `ROOT.ALIAS` before all others, since a folder of that name may exist
    too."""
    sys.meta_path.insert(0, FolderAliases(root, aliases))
