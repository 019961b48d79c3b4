"""Attributes that all symbols made inside a `with AttrScope(...)` receive."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from types import TracebackType
from typing import Self


class AttrScope:
    """Attributes (texts) for every symbol created inside; inner scopes add to outer ones and win over them."""

    _current = threading.local()

    def __init__(self, **kwargs: str) -> None:
        if not all(isinstance(value, str) for value in kwargs.values()):
            raise ValueError("Attributes need to be string")
        self._old_scope: AttrScope | None = None
        self._attr = kwargs

    def get(self, attr: Mapping[str, str] | None) -> dict[str, str]:
        """The scope's attributes together with those of one symbol, which win."""
        return {**self._attr, **(attr or {})}

    def __enter__(self) -> Self:
        self._old_scope = current_scope()
        self._attr = {**self._old_scope._attr, **self._attr}
        AttrScope._current.value = self
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        AttrScope._current.value = self._old_scope


def current_scope() -> AttrScope:
    """The scope of this thread's innermost `with`, or an empty one."""
    found = getattr(AttrScope._current, "value", None)
    if found is None:
        found = AttrScope._current.value = AttrScope()
    return found
