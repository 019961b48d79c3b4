"""Adds borrowed names to modules: names that MXNet's modules import from other modules and so re-export.

Third-party code uses them: `mxnet.test_utils.os`, `mxnet.autograd.NDArray`. They are listed in borrowed_names.py and
looked up at first access.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

from ..tracebacks import api_boundary
from .attribute_error import attribute_error
from .borrowed_names import BORROWED, EXPORTED, LISTED, SOURCES
from .modules import ABSENT_MODULES, MODULE_ALIASES
from .public import PublicNames

_TYPING = ("__future__", "collections.abc", "typing")
_HELPERS = frozenset(("attribute_finder", "find_function"))  # create functions of operators


@cache
def _origins() -> dict[str, str]:
    """The origin of each name in SOURCES, as "place:member". The member is empty if the value is the module."""
    origins: dict[str, str] = {}
    for place, names in SOURCES.items():
        own = place.rstrip("?").rpartition(".")[2]
        for entry in names.split():
            name, equals, member = entry.partition("=")
            origins[name] = f"{place}:{member if equals else '' if name == own else name}"
    return origins


@cache
def _borrowed(place: str) -> Mapping[str, str]:
    """The origin of each name that the module at `place` below the root borrows."""
    origins: dict[str, str] = {}
    for entry in BORROWED.get(place, "").split():
        name, _, origin = entry.partition("=")
        origins[name] = origin or _origins()[name]
    return origins


def _resolve(root: str, origin: str) -> Any:
    """The value of the origin "place:member".

    A place that starts with a dot is below `root`. A place that ends with a question mark is an optional package: the
    value is None if it is missing.
    """
    place, _, member = origin.partition(":")
    optional = place.endswith("?")
    try:
        module = import_module(root + place.rstrip(".") if place.startswith(".") else place.rstrip("?"))
    except ImportError:
        if optional:
            return None
        raise
    return getattr(module, member) if member else module


def find_borrowed(root: str, place: str, name: str) -> tuple[Any] | None:
    """(value,) of a name that the module at `place` borrows, or of a submodule without a file; None if not found."""
    origin = _borrowed(place).get(name)
    if origin is not None:
        return (_resolve(root, origin),)
    below = f"{place}.{name}"
    is_module = below in ABSENT_MODULES or below in MODULE_ALIASES
    return (import_module(f"{root}.{below}"),) if is_module else None


def complete(module: ModuleType, root: str, place: str) -> None:
    """Set `__getattr__` and `__dir__` of a loaded module.

    The module then finds its borrowed names, lists its public names in `dir`, and exports the same names to `import *`
    as MXNet's module. Its original `__getattr__` finds other names, and its original `__dir__` lists the names that are
    created on demand.
    """
    public = PublicNames(module, root, place)
    public.publish()
    original_find: Callable[[str], Any] | None = module.__dict__.get("__getattr__")
    original_names: Callable[[], Iterable[str]] = module.__dict__.get("__dir__", list)
    listed: Sequence[str] = module.__dict__.pop("__all__", ())
    contents = frozenset(module.__dict__)
    borrowed = _borrowed(place)

    def created_on_demand() -> set[str]:  # functions of operators
        names = original_names()
        return {n for n in names if n not in contents and not isinstance(module.__dict__.get(n), ModuleType)}

    def exported() -> list[str]:
        generated = created_on_demand()
        if place in LISTED:
            own = listed or contents
            return sorted({*_public(own, module), *_public(generated, module), *EXPORTED.get(place, "").split()})
        return sorted({*listed, *_public({*contents, *generated, *borrowed}, module)})

    def find(name: str) -> Any:
        if name == "__all__":
            return exported()
        member = find_borrowed(root, place, name)
        if member is not None:
            return module.__dict__.setdefault(name, member[0])
        if original_find is not None:
            return original_find(name)
        raise attribute_error(root, place, name)

    def names() -> list[str]:
        return sorted({*public.names(), *created_on_demand(), *borrowed})

    module.__dict__.update(__getattr__=api_boundary(find), __dir__=names)


def _public(names: Iterable[str], module: ModuleType) -> list[str]:
    """The names that MXNet exports. Names with a leading underscore are excluded (two underscores in `_internal`), and
    so are names of typing and helpers, which only mxforge's source has."""
    hidden = "__" if module.__name__.endswith("._internal") else "_"
    visible = (n for n in names if not n.startswith(hidden) and n not in _HELPERS)
    return [n for n in visible if not _is_typing(module.__dict__.get(n))]


def _is_typing(value: Any) -> bool:
    return getattr(value, "__module__", None) in _TYPING or type(value).__module__ in _TYPING
