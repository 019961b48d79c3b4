"""Properties that are computed at their first use, by one thread.

Python 3.11's `functools.cached_property` has one lock for all instances of a class: instances wait for each other, and
a child that another thread's fork created waits forever. Python 3.12's has none, so several threads compute the value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

from .locks import ForkSafeLock

_T = TypeVar("_T")
_MISSING: Any = object()


class once(Generic[_T]):
    """A decorator for methods that makes them properties: `make(instance)` is called once. The instance stores the
    value in its dictionary, where later reads find it without a call. Threads that read it meanwhile wait. An exception
    of `make` propagates, and nothing is stored."""

    def __init__(self, make: Callable[[Any], _T]) -> None:
        self._make, self.__doc__ = make, make.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name, self._lock = name, f"lock of {name}"

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: type) -> _T: ...

    def __get__(self, instance: object | None, owner: type) -> Self | _T:
        if instance is None:
            return self
        stored = vars(instance)
        with stored.setdefault(self._lock, ForkSafeLock()):
            value = stored.get(self._name, _MISSING)
            if value is _MISSING:
                value = stored[self._name] = self._make(instance)
        stored.pop(self._lock, None)
        return value
