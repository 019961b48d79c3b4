"""Makes imports of this package atomic: neither Ctrl-C nor a fork leaves a partially loaded module.

Modules are loaded at first use, and so is NumPy. An interrupted import cannot be repeated: NumPy does not support it,
and an operator cannot be declared twice. So KeyboardInterrupt is raised after the outermost import. A fork waits for
the imports of other threads, because the child would wait for their import locks forever.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from importlib import (
    _bootstrap,  # type: ignore[attr-defined]
    import_module,
)
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from threading import current_thread, get_ident, main_thread
from types import ModuleType
from typing import TYPE_CHECKING

from ...ir.collection import collection_paused
from ...ir.import_lock import is_importing
from ...ir.interrupts import Delay
from ...ir.locks import await_while

if TYPE_CHECKING:
    from importlib.abc import MetaPathFinder
else:
    MetaPathFinder = object  # importing importlib.abc takes 10 ms, and its classes are interfaces

_awaited = {"llvmlite", "mxnet", "numpy"}
_complete: dict[str, ModuleType] = {}  # loaded modules whose import ended with a delayed KeyboardInterrupt


class AtomicImports(MetaPathFinder):
    """Finds the modules of one package and makes their imports atomic."""

    def __init__(self, root: str) -> None:
        self._prefix = f"{root}."

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return find_atomic(fullname, path) if fullname.startswith(self._prefix) else None


class _AtomicLoader(SourceFileLoader):
    """Runs a module's code without interruption by Ctrl-C."""

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return _complete.get(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        load_atomically(module, super().exec_module)


def load_atomically(module: ModuleType, run: Callable[[ModuleType], None]) -> None:
    """Run the code of a new module without interruption by Ctrl-C."""
    name = module.__name__
    if _complete.pop(name, None) is not None:
        return
    if current_thread() is not main_thread():  # Ctrl-C interrupts only the main thread
        with collection_paused(objects_stay=True):
            run(module)
        return
    with _uninterrupted() as delay, collection_paused(objects_stay=True):
        run(module)
        if delay.is_pending:  # KeyboardInterrupt follows, and the import system then drops the module
            _complete[name] = module


def find_atomic(fullname: str, path: Sequence[str] | None) -> ModuleSpec | None:
    """The spec that the import system finds. Modules with Python source get an atomic loader."""
    spec = PathFinder.find_spec(fullname, path)
    if spec is not None and type(spec.loader) is SourceFileLoader:
        spec.loader = _AtomicLoader(spec.loader.name, spec.loader.path)
    return spec


@contextmanager
def _uninterrupted() -> Generator[Delay]:
    """Delay Ctrl-C in the main thread until the end of the body. It can be nested."""
    delay = Delay()
    try:
        delay.begin()
        yield delay
    finally:
        if delay.end():
            import signal

            signal.raise_signal(signal.SIGINT)


def import_atomically(name: str) -> ModuleType:
    """Import a module of another package without interruption by Ctrl-C."""
    _awaited.add(name.partition(".")[0])
    with _uninterrupted():
        return import_module(name)


def _others_import() -> bool:
    """True if another thread is importing a module of `_awaited`. Python has no public interface for this.

    A module's lock exists while a thread imports it. It has no owner while a thread is about to acquire it or has just
    released it. The thread then holds an inner lock, which would stay locked in a forked child. An owner need not be
    importing: Ctrl-C interrupted it.
    """
    me = get_ident()
    for name, reference in tuple(_bootstrap._module_locks.items()):  # type: ignore[attr-defined]
        lock = reference() if name.partition(".")[0] in _awaited else None
        if lock is None or (owner := lock.owner) == me:
            continue
        threads = tuple(sys._current_frames()) if owner is None else (owner,)  # pyright: ignore[reportPrivateUsage]
        if any(is_importing(thread) for thread in threads if thread != me):
            return True
    return False


def install_atomic_imports(root: str) -> None:
    """Make later imports of the package `root` atomic."""
    sys.meta_path.insert(0, AtomicImports(root))
    _awaited.add(root)
    await_while(_others_import)
