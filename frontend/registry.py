"""Registries of classes by name: initializers, optimizers, metrics."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

_C = TypeVar("_C", bound=type)
_REGISTRY: dict[type, dict[str, type]] = {}


def get_registry(base_class: type) -> dict[str, type]:
    """A copy of the table of registered subclasses of `base_class` by name."""
    return dict(_REGISTRY.setdefault(base_class, {}))


def get_register_func(base_class: type, nickname: str) -> Callable[..., Any]:
    """`register(klass, name=None)`: registers a class under `name` or its own name, in lower case."""
    table = _REGISTRY.setdefault(base_class, {})

    def register(klass: _C, name: str | None = None) -> _C:
        if not issubclass(klass, base_class):
            raise AssertionError(f"Can only register subclass of {base_class.__name__}")
        key = (name or klass.__name__).lower()
        if key in table and table[key] is not klass:
            name_of = f"{klass.__module__}.{klass.__name__}"
            message = f"New {nickname} {name_of} registered with name {key} is overriding {table[key]}"
            warnings.warn(message, UserWarning, stacklevel=2)
        table[key] = klass
        return klass

    return register


def get_alias_func(base_class: type, nickname: str) -> Callable[..., Callable[[_C], _C]]:
    """`alias("zeros")`: a decorator that registers a class under further names."""
    register = get_register_func(base_class, nickname)

    def alias(*names: str) -> Callable[[_C], _C]:
        def decorate(klass: _C) -> _C:
            for name in names:
                register(klass, name)
            return klass

        return decorate

    return alias


def get_create_func(base_class: type, nickname: str) -> Callable[..., Any]:
    """`create(what, ...)`: `what` is an instance, which is returned, a name, JSON `["name", {...}]`, or a dictionary
    with the name.

    As in MXNet, AssertionError for a name that is not registered.
    """
    table = _REGISTRY.setdefault(base_class, {})

    def create(*args: Any, **kwargs: Any) -> Any:
        name, args = (args[0], args[1:]) if args else (kwargs.pop(nickname), ())
        if isinstance(name, base_class):
            if args or kwargs:
                raise AssertionError(f"{nickname} is already an instance. Additional arguments are invalid")
            return name
        if isinstance(name, Mapping):
            return create(**name)
        if not isinstance(name, str):
            raise AssertionError(f"{nickname} must be of string type, not {type(name).__name__}")
        if name.startswith("["):
            name, kwargs = json.loads(name)
        elif name.startswith("{"):
            return create(**json.loads(name))
        if name.lower() not in table:
            raise AssertionError(f"{name} is not registered. Please register with {nickname}.register first")
        return table[name.lower()](*args, **kwargs)

    return create
