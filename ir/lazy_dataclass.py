"""A decorator for dataclasses whose methods are generated when they are first called.

`dataclasses.dataclass` generates and compiles up to six methods of each class while its module loads. A process calls
few of them. With it, creating the 200 classes that a first call needs took 15 % of the time of that call.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError, fields
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass"]

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(cls=None, /, *, frozen=False, slots=False, weakref_slot=False, kw_only=False, eq=True):
        """As `dataclasses.dataclass`, with fewer options and without `InitVar`. Only classes of this decorator can
        inherit from a frozen one."""

        def decorate(plain):
            plain.__doc__ = plain.__doc__ or plain.__name__  # else one would be made from the signature
            own = vars(plain)
            defined = set(own) - ({"__hash__"} if "__eq__" in own and own["__hash__"] is None else set())
            process = dataclasses.dataclass(
                init=False, repr=False, eq=False, slots=slots, weakref_slot=weakref_slot, kw_only=kw_only
            )
            owner = process(plain)  # another class, if it gets slots
            for name, method in _methods(owner, frozen=frozen, slots=slots, eq=eq).items():
                if name not in defined:
                    setattr(owner, name, method)
            return owner

        return decorate if cls is None else decorate(cls)


def _methods(cls: type[Any], *, frozen: bool, slots: bool, eq: bool) -> dict[str, Any]:
    """What a dataclass with these options defines, unless its source does."""
    methods: dict[str, Any] = {
        "__init__": _on_first_call(cls, "__init__", lambda: _init(cls, frozen)),
        "__repr__": _on_first_call(cls, "__repr__", lambda: _repr(cls)),
    }
    if eq:
        methods["__eq__"] = _on_first_call(cls, "__eq__", lambda: _eq(cls))
        methods["__hash__"] = _on_first_call(cls, "__hash__", lambda: _hash(cls)) if frozen else None
    if frozen:
        methods |= _refusals(cls)
        if slots:  # the default would set attributes
            methods |= {"__getstate__": _state, "__setstate__": _set_state}
    return methods


def _on_first_call(cls: type[Any], name: str, generate: Callable[[], Callable[..., Any]]) -> Callable[..., Any]:
    """A method that replaces itself by the one that `generate` returns, and calls that."""

    def method(*args: Any, **named: Any) -> Any:
        generated = generate()
        generated.__qualname__, generated.__module__ = f"{cls.__qualname__}.{name}", cls.__module__
        setattr(cls, name, generated)
        return generated(*args, **named)

    return method


def _compiled(source: str, names: dict[str, Any]) -> Callable[..., Any]:
    """The function `method` that `source` defines, with `names` as globals."""
    exec(source, names)
    return names["method"]


def _init(cls: type[Any], frozen: bool) -> Callable[..., Any]:
    names: dict[str, Any] = {"_set": object.__setattr__, "_missing": MISSING}
    parameters: dict[bool, list[str]] = {False: ["self"], True: []}  # by whether they are keywords only
    body: list[str] = []
    for f in fields(cls):
        value = f.name
        if f.default_factory is not MISSING:
            names[f"_new_{f.name}"], default = f.default_factory, "_missing"
            value = f"_new_{f.name}() if {f.name} is _missing else {f.name}" if f.init else f"_new_{f.name}()"
        elif f.default is not MISSING:
            names[default := f"_default_{f.name}"] = f.default
            value = f.name if f.init else default
        else:
            default = ""
        if f.init:
            parameters[bool(f.kw_only)].append(f"{f.name}={default}" if default else f.name)
        if f.init or default:
            body.append(f"_set(self, {f.name!r}, {value})" if frozen else f"self.{f.name} = {value}")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    listed = parameters[False] + (["*", *parameters[True]] if parameters[True] else [])
    return _compiled(f"def method({', '.join(listed)}):\n " + "\n ".join(body or ["pass"]), names)


def _eq(cls: type[Any]) -> Callable[..., Any]:
    compared = [f for f in fields(cls) if f.compare]
    return _compiled(
        "def method(self, other):\n"
        " if other.__class__ is self.__class__:\n"
        f"  return {_values('self', compared)} == {_values('other', compared)}\n"
        " return NotImplemented",
        {},
    )


def _hash(cls: type[Any]) -> Callable[..., Any]:
    hashed = [f for f in fields(cls) if (f.compare if f.hash is None else f.hash)]
    return _compiled(f"def method(self):\n return hash({_values('self', hashed)})", {})


def _values(owner: str, of: list[Field[Any]]) -> str:
    return f"({''.join(f'{owner}.{f.name}, ' for f in of)})"


def _repr(cls: type[Any]) -> Callable[..., Any]:
    shown = ", ".join(f"{f.name}={{self.{f.name}!r}}" for f in fields(cls) if f.repr)
    return recursive_repr()(_compiled(f'def method(self):\n return f"{{type(self).__qualname__}}({shown})"', {}))


def _refusals(cls: type[Any]) -> dict[str, Any]:
    """`__setattr__` and `__delattr__` of a frozen class, which refuse its fields."""
    names = frozenset(f.name for f in fields(cls))

    def __setattr__(self: Any, name: str, value: Any) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def __delattr__(self: Any, name: str) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    return {"__setattr__": __setattr__, "__delattr__": __delattr__}


def _state(self: Any) -> list[Any]:
    return [getattr(self, f.name) for f in fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for f, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, f.name, value)
