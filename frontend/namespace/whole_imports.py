"""Loads the modules of this package whole: neither Ctrl-C nor a fork leaves one half loaded.

Modules are loaded when they are first used, and NumPy with the first of them. NumPy cannot be loaded a second time when
its import is cut off, and an operator cannot be declared twice. So Ctrl-C is raised when the outermost import has
ended, and a fork waits for the imports of other threads, which a child would wait for forever.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import (
    _bootstrap,  # type: ignore[attr-defined]
    import_module,
)
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from threading import current_thread, get_ident, main_thread
from types import FrameType, ModuleType
from typing import TYPE_CHECKING, Any

from ...ir.locks import await_while

if TYPE_CHECKING:
    from importlib.abc import MetaPathFinder
else:
    MetaPathFinder = object  # importing importlib.abc takes 10 ms, and its classes are interfaces

_awaited = {"llvmlite", "mxnet", "numpy", "pydantic", "pydantic_core"}
_complete: dict[str, ModuleType] = {}  # modules that were loaded when Ctrl-C was raised at the end of their import


class WholeImports(MetaPathFinder):
    """Finds the modules of one package where the import system finds them, and has them loaded whole."""

    def __init__(self, root: str) -> None:
        self._prefix = f"{root}."

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return find_whole(fullname, path) if fullname.startswith(self._prefix) else None


class _WholeLoader(SourceFileLoader):
    """Runs a module's code without being interrupted."""

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return _complete.get(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        load_whole(module, super().exec_module)


def load_whole(module: ModuleType, run: Callable[[ModuleType], None]) -> None:
    """Run the code of a module that the import system has made, without being interrupted."""
    name = module.__name__
    if _complete.pop(name, None) is not None:
        return
    if current_thread() is not main_thread():  # which alone is interrupted
        run(module)
        return
    with _Uninterrupted() as interrupts:
        run(module)
        if interrupts:  # to be raised: the import system takes that for a failure and forgets the module
            _complete[name] = module


def find_whole(fullname: str, path: Sequence[str] | None) -> ModuleSpec | None:
    """What the import system finds, to be loaded whole if it is Python's source."""
    spec = PathFinder.find_spec(fullname, path)
    if spec is not None and type(spec.loader) is SourceFileLoader:
        spec.loader = _WholeLoader(spec.loader.name, spec.loader.path)
    return spec


class _Uninterrupted:
    """A context at whose end the main thread is interrupted instead of in its middle. It may stand inside another."""

    def __init__(self) -> None:
        self._interrupts: list[int] = []
        self._handler: Callable[[int, FrameType | None], Any] | None = None

    def __enter__(self) -> list[int]:
        import signal

        handler = signal.getsignal(signal.SIGINT)
        if callable(handler) and not isinstance(handler, _Note):
            self._handler = handler
            signal.signal(signal.SIGINT, _Note(self._interrupts))
        return self._interrupts

    def __exit__(self, *_: object) -> None:
        if self._handler is None:
            return
        import signal

        signal.signal(signal.SIGINT, self._handler)
        if self._interrupts:
            signal.raise_signal(signal.SIGINT)


class _Note:
    """A handler that notes the signal."""

    def __init__(self, interrupts: list[int]) -> None:
        self._interrupts = interrupts

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self._interrupts.append(number)


def import_whole(name: str) -> ModuleType:
    """A module of another package, which Ctrl-C interrupts as little as ours."""
    _awaited.add(name.partition(".")[0])
    if current_thread() is not main_thread():
        return import_module(name)
    with _Uninterrupted():
        return import_module(name)


def _others_import() -> bool:
    """Whether another thread imports a module that we need. Python says so in no public way."""
    me = get_ident()
    for name, reference in tuple(_bootstrap._module_locks.items()):  # type: ignore[attr-defined]
        lock = reference() if name.partition(".")[0] in _awaited else None
        if lock is not None and lock.owner not in (None, me):
            return True
    return False


def install_whole_imports(root: str) -> None:
    """Have the modules of the package `root` loaded whole from now on."""
    sys.meta_path.insert(0, WholeImports(root))
    _awaited.add(root)
    await_while(_others_import)
