"""Attributes that all symbols made inside a `with AttrScope(...)` receive."""

from __future__ import annotations

import threading
import warnings
from collections import Counter
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from .base import string_types

__all__ = ["AttrScope", "string_types"]


class _Scopes(type):
    """The class of AttrScope: `AttrScope.current` can be read and set, and warns."""

    @property
    def current(cls) -> AttrScope:
        """The scope of this thread's innermost `with`; deprecated."""
        _warn_of_current("AttrScope")
        return current_scope()

    @current.setter
    def current(cls, scope: AttrScope) -> None:
        _warn_of_current("AttrScope")
        AttrScope._current.value = scope


def _warn_of_current(kind: str) -> None:
    message = f"{kind}.current has been deprecated. It is advised to use the `with` statement with {kind}."
    warnings.warn(message, DeprecationWarning, stacklevel=3)


class AttrScope(metaclass=_Scopes):
    """Attributes (texts) for every symbol created inside; inner scopes add to outer ones and win over them."""

    _current = threading.local()
    _subgraph_names: Counter[str] = Counter()
    """How many subgraphs have been made under each name: what they are called depends on it."""

    def __init__(self, **kwargs: str) -> None:
        if not all(isinstance(value, str) for value in kwargs.values()):
            raise ValueError("Attributes need to be string")
        self._old_scope: AttrScope | None = None
        self._attr = kwargs

    def get(self, attr: Mapping[str, str] | None) -> dict[str, str]:
        """The scope's attributes together with those of one symbol, which win; ValueError unless they are texts."""
        if attr and not all(isinstance(value, str) for value in attr.values()):
            raise ValueError(f"Set Attr only accepts string values: {attr}")
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
