"""AttrScope: attributes for all symbols that are created in a `with AttrScope(...)`."""

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
    """The metaclass of AttrScope: `AttrScope.current` can be read and set; both warn."""

    @property
    def current(cls) -> AttrScope:
        """The scope of this thread's innermost `with`; deprecated."""
        _warn_of_current("AttrScope")
        return current_scope()

    @current.setter
    def current(cls, scope: AttrScope) -> None:
        _warn_of_current("AttrScope")
        AttrScope._current.value = scope


def _warn_of_current(class_name: str) -> None:
    message = f"{class_name}.current has been deprecated. It is advised to use the `with` statement with {class_name}."
    warnings.warn(message, DeprecationWarning, stacklevel=3)


class AttrScope(metaclass=_Scopes):
    """Attributes (strings) for every symbol created in the scope. Inner scopes add to outer ones and override them."""

    _current = threading.local()
    _subgraph_names: Counter[str] = Counter()
    """The number of subgraphs created under each name, from which a new subgraph's name is made."""

    def __init__(self, **kwargs: str) -> None:
        if not all(isinstance(value, str) for value in kwargs.values()):
            raise ValueError("Attributes need to be string")
        self._old_scope: AttrScope | None = None
        self._attr = kwargs

    def get(self, attr: Mapping[str, str] | None) -> dict[str, str]:
        """The attributes of the scope and `attr`, which overrides the scope's. ValueError unless they are strings."""
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
    scope = getattr(AttrScope._current, "value", None)
    if scope is None:
        scope = AttrScope._current.value = AttrScope()
    return scope
