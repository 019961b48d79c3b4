"""Automatic names for symbols: a counter for each operator, as in MXNet."""

from __future__ import annotations

import threading
import warnings
from types import TracebackType
from typing import Self

__all__ = ["NameManager", "Prefix"]


class _Managers(type):
    """The metaclass of NameManager: `NameManager.current` can be read, with a warning, and set."""

    @property
    def current(cls) -> NameManager:
        """The manager of this thread's innermost `with`; deprecated."""
        message = "NameManager.current has been deprecated. It is advised to use the `with` statement with NameManager."
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        return current_manager()

    @current.setter
    def current(cls, manager: NameManager) -> None:
        NameManager._current.value = manager


class NameManager(metaclass=_Managers):
    """Names symbols without a name `fullyconnected0`, `fullyconnected1`, ...; active in a `with` block."""

    _current = threading.local()

    def __init__(self) -> None:
        self._counter: dict[str, int] = {}
        self._old_manager: NameManager | None = None

    def get(self, name: str | None, hint: str) -> str:
        """`name` if it is not empty, else `hint` with the next number."""
        if name:
            return name
        count = self._counter.get(hint, 0)
        self._counter[hint] = count + 1
        return f"{hint}{count}"

    def __enter__(self) -> Self:
        self._old_manager = current_manager()
        NameManager._current.value = self
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        NameManager._current.value = self._old_manager


class Prefix(NameManager):
    """Adds a prefix to all names, also to names that the user chose."""

    def __init__(self, prefix: str) -> None:
        super().__init__()
        self._prefix = prefix

    def get(self, name: str | None, hint: str) -> str:
        return self._prefix + super().get(name, hint)


def current_manager() -> NameManager:
    """The manager of this thread's innermost `with`, or the thread's own."""
    manager = getattr(NameManager._current, "value", None)
    if manager is None:
        manager = NameManager._current.value = NameManager()
    return manager
