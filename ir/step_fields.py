"""The types of the fields of steps: what functions on programs do with a field, whatever the kind of the step is.

    annotation                  value
    Place, Place | None         a place
    tuple[Place | int, ...]     what a kernel is called with
    tuple[Access, ...]          an access for each place of the arguments
    Steps                       a list of steps
    Layers                      positions in the names of the program
    int, str

Functions that treat all kinds of steps alike visit `fields_of(kind)`: moves, text, bytes and checks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from functools import cache, lru_cache
from typing import Any, NamedTuple

from .places import Access, Move, Place, Space

Layers = tuple[int, ...]
"""Positions of layers in the names of a program."""

LARGEST = 1 << 62
_SPACES = {space.value: space for space in Space}


class FieldType:
    """A field that holds neither places nor steps, as an integer that is not negative."""

    attribute = "integer"
    """The MLIR attribute that prints a value; "" if steps can be printed without."""

    has_places = False
    """Whether values hold places."""

    has_steps = False
    """Whether values are lists of steps, which callers visit recursively."""

    has_layers = False
    """Whether values are positions in the names of the program."""

    def places(self, value: Any) -> Sequence[Place]:
        """The places in the value."""
        return ()

    def moved(self, value: Any, move: Move) -> Any:
        """The value with `move` applied to its places."""
        return value

    def text(self, value: Any) -> Any:
        """The value as an attribute of the printed step; None to leave it out."""
        return value

    def to_json(self, value: Any) -> Any:
        """The value as JSON."""
        return value

    def from_json(self, record: Any) -> Any:
        """The value of `to_json`; ValueError or TypeError for anything else."""
        return natural(record)


class _Text(FieldType):
    attribute = ""

    def text(self, value: str) -> str | None:
        return value or None

    def from_json(self, record: Any) -> str:
        return string(record)


class _Layers(FieldType):
    attribute, has_layers = "", True

    def text(self, value: Layers) -> None:
        """None: labels name them."""

    def from_json(self, record: Any) -> Layers:
        return tuple(map(natural, record))


class _Place(FieldType):
    attribute = "string"
    has_places = True

    def places(self, value: Place) -> Sequence[Place]:
        return (value,)

    def moved(self, value: Place, move: Move) -> Place:
        return move(value)

    def text(self, value: Place) -> str:
        return value.text()

    def to_json(self, value: Place) -> Any:
        return _place_to_json(value)

    def from_json(self, record: Any) -> Place:
        return _place_from_json(record)


class _Optional(FieldType):
    """A field that can be None."""

    attribute = ""

    def __init__(self, type: FieldType) -> None:
        self.type, self.has_places = type, type.has_places

    def places(self, value: Any) -> Sequence[Place]:
        return () if value is None else self.type.places(value)

    def moved(self, value: Any, move: Move) -> Any:
        return None if value is None else self.type.moved(value, move)

    def text(self, value: Any) -> Any:
        return None if value is None else self.type.text(value)

    def to_json(self, value: Any) -> Any:
        return None if value is None else self.type.to_json(value)

    def from_json(self, record: Any) -> Any:
        return None if record is None else self.type.from_json(record)


class _Arguments(FieldType):
    attribute = "array"
    has_places = True

    def places(self, value: Sequence[Place | int]) -> Sequence[Place]:
        return [a for a in value if isinstance(a, Place)]

    def moved(self, value: Sequence[Place | int], move: Move) -> tuple[Place | int, ...]:
        return tuple([move(a) if isinstance(a, Place) else a for a in value])

    def text(self, value: Sequence[Place | int]) -> tuple[str | int, ...]:
        return tuple([a.text() if isinstance(a, Place) else a for a in value])

    def to_json(self, value: Sequence[Place | int]) -> Any:
        return [_place_to_json(a) if isinstance(a, Place) else a for a in value]

    def from_json(self, record: Any) -> tuple[Place | int, ...]:
        return tuple([_place_from_json(a) if isinstance(a, list) else integer(a) for a in record])


class _Accesses(FieldType):
    attribute = ""

    def text(self, value: Sequence[Access]) -> str | None:
        return " ".join(access.text() for access in value) or None

    def to_json(self, value: Sequence[Access]) -> Any:
        return [a.nbytes << 2 | a.reads << 1 | a.writes for a in value]

    def from_json(self, record: Any) -> tuple[Access, ...]:
        return tuple([_access(natural(number)) for number in record])


@lru_cache(4096)
def _access(number: int) -> Access:
    return Access(number >> 2, bool(number & 2), bool(number & 1))


class _Steps(FieldType):
    attribute, has_steps = "", True

    def text(self, value: Any) -> None:
        """None: steps are printed as regions."""


_NATURAL = FieldType()
_TYPES: dict[str, FieldType] = {
    "int": _NATURAL,
    "str": _Text(),
    "Place": _Place(),
    "Place | None": _Optional(_Place()),
    "tuple[Place | int, ...]": _Arguments(),
    "tuple[Place, ...]": _Arguments(),
    "tuple[Access, ...]": _Accesses(),
    "Steps": _Steps(),
    "Layers": _Layers(),
}


class Fields(NamedTuple):
    """The fields of a kind of step: all by name, those with places, and the names of lists of steps and of layers."""

    all: dict[str, FieldType]
    places: tuple[tuple[str, FieldType], ...]
    steps: tuple[str, ...]
    layers: tuple[str, ...]


@cache
def fields_of(kind: type[Any]) -> Fields:
    """The fields of a kind of step."""
    types = {field.name: _TYPES[str(field.type)] for field in fields(kind)}
    return Fields(
        types,
        tuple((name, type) for name, type in types.items() if type.has_places),
        tuple(name for name, type in types.items() if type.has_steps),
        tuple(name for name, type in types.items() if type.has_layers),
    )


def _place_to_json(place: Place) -> list[Any]:
    return [place.space.value, place.index, place.offset, *place.strides]


def _place_from_json(record: Any) -> Place:
    name, index, offset, *strides = record
    if name not in _SPACES:
        raise ValueError(f"space {name!r} is unknown")
    return Place(_SPACES[name], natural(index), natural(offset), tuple(map(integer, strides)) if strides else ())


def integer(value: Any) -> int:
    """The value, if it is an integer of 63 bits; else ValueError."""
    if type(value) is not int or not -LARGEST <= value <= LARGEST:
        raise ValueError(f"{value!r} is not an integer of 63 bits")
    return value


def natural(value: Any) -> int:
    """The value, if it is an integer of 63 bits and not negative; else ValueError."""
    if type(value) is int and 0 <= value <= LARGEST:
        return value
    raise ValueError(f"{integer(value)} is negative")


def string(value: Any) -> str:
    """The value, if it is a string; else ValueError."""
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not a string")
    return value
