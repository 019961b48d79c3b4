"""Gives modules the names that MXNet's modules have from elsewhere: other people's code finds them where MXNet happens
to import them, `mxnet.test_utils.os` or `mxnet.autograd.NDArray`.

borrowed_names.py says which; each is looked up when it is first asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

from ..tracebacks import api_boundary
from .absent import attribute_error
from .borrowed_names import BORROWED, EXPORTED, LISTED, SOURCES
from .modules import ABSENT_MODULES, SECOND_NAMES
from .public import PublicNames

_TYPING = ("__future__", "collections.abc", "typing")
_MAKERS = frozenset(("attribute_finder", "find_function", "names_of"))  # of functions for operators


@cache
def _origins() -> dict[str, str]:
    """For each name of SOURCES the place and the member, as "place:member"; the member is empty for a module itself."""
    origins: dict[str, str] = {}
    for place, names in SOURCES.items():
        own = place.rstrip("?").rpartition(".")[2]
        for entry in names.split():
            name, given, member = entry.partition("=")
            origins[name] = f"{place}:{member if given else '' if name == own else name}"
    return origins


@cache
def _borrowed(place: str) -> Mapping[str, str]:
    """The names that the module at `place` below the root borrows, each with its origin."""
    found: dict[str, str] = {}
    for entry in BORROWED.get(place, "").split():
        name, _, origin = entry.partition("=")
        found[name] = origin or _origins()[name]
    return found


def _resolve(root: str, origin: str) -> Any:
    """The value behind "place:member". A place that begins with a dot is below `root`; one that ends with a question
    mark is a package that may be missing, which gives None."""
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
    """The value of a name that the module at `place` borrows, or of a module below it that exists by name alone; None
    if there is none."""
    origin = _borrowed(place).get(name)
    if origin is not None:
        return (_resolve(root, origin),)
    below = f"{place}.{name}"
    known = below in ABSENT_MODULES or below in SECOND_NAMES
    return (import_module(f"{root}.{below}"),) if known else None


def complete(module: ModuleType, root: str, place: str) -> None:
    """Have a loaded module find the names it borrows, list its public names in `dir`, and export to `import *` what
    MXNet's does.

    Its own `__getattr__` finds the other names, and its own `__dir__` lists those that are made on demand.
    """
    public = PublicNames(module, root, place)
    public.publish()
    own_find: Callable[[str], Any] | None = module.__dict__.get("__getattr__")
    own_names: Callable[[], Iterable[str]] = module.__dict__.get("__dir__", list)
    listed: Sequence[str] = module.__dict__.pop("__all__", ())
    contents = frozenset(module.__dict__)
    borrowed = _borrowed(place)

    def made_on_demand() -> set[str]:  # functions of operators
        return {n for n in own_names() if n not in contents and not isinstance(module.__dict__.get(n), ModuleType)}

    def exported() -> list[str]:
        generated = made_on_demand()
        if place in LISTED:
            mine = listed or contents
            return sorted({*_public(mine, module), *_public(generated, module), *EXPORTED.get(place, "").split()})
        return sorted({*listed, *_public({*contents, *generated, *borrowed}, module)})

    def find(name: str) -> Any:
        if name == "__all__":
            return exported()
        found = find_borrowed(root, place, name)
        if found is not None:
            return module.__dict__.setdefault(name, found[0])
        if own_find is not None:
            return own_find(name)
        raise attribute_error(root, place, name)

    def names() -> list[str]:
        return sorted({*public.names(), *made_on_demand(), *borrowed})

    module.__dict__.update(__getattr__=api_boundary(find), __dir__=names)


def _public(names: Iterable[str], module: ModuleType) -> list[str]:
    """The names that MXNet exports: without those with underscores, but in the modules of operators by their full
    names; and without what only mxforge's own source needs."""
    hidden = "__" if module.__name__.endswith("._internal") else "_"
    mine = (n for n in names if not n.startswith(hidden) and n not in _MAKERS)
    return [n for n in mine if not _is_typing(module.__dict__.get(n))]


def _is_typing(value: Any) -> bool:
    return getattr(value, "__module__", None) in _TYPING or type(value).__module__ in _TYPING
