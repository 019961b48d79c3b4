"""Builds ops of core and mx from printed attributes; importing this module registers both dialects.

A core primitive is a dataclass whose fields are converted from attributes: enumerations from mnemonics, pairs from flat
tuples, graphs from the regions in order. An mx operator parses its own parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, fields
from enum import Enum
from functools import cache
from types import NoneType
from typing import Any, cast, get_args, get_origin, get_type_hints

import numpy as np

from ..graph import Attribute, Graph, Op
from ..registry import Dialect, register_dialect
from ..types import DType, Layout, TensorType

VARIADIC = frozenset(
    f"core.{name}" for name in ("concat", "sort", "fused", "call", "cond", "while", "scan", "host_callback")
)
"""Primitives with a variable number of operands or results of different types."""

Reader = Callable[[str, dict[str, Attribute], list[Graph]], Any]


def _core_operations() -> Iterable[type[Op]]:
    from .core import PRIMITIVES

    return PRIMITIVES.values()


def _core_build(name: str, attributes: Mapping[str, Attribute], regions: tuple[Graph, ...]) -> Op:
    from .core import PRIMITIVES

    op = PRIMITIVES[name]
    if name == "core.host_callback":
        raise ValueError("a host callback calls a Python function, which text does not contain")
    left, bodies = dict(attributes), list(regions)
    values = {field: read(field, left, bodies) for field, read in _readers(op).items()}
    if left:
        raise ValueError(f"{name} has no attribute {next(iter(left))!r}")
    if bodies:
        raise ValueError(f"{name} has {len(regions) - len(bodies)} regions, got {len(regions)}")
    return op(**values)


def field_hints(op: type[Op]) -> dict[str, Any]:
    """The types of a primitive's parameters, in order."""
    hints = get_type_hints(op)
    return {f.name: hints[f.name] for f in fields(op) if f.init and not f.name.startswith("_")}  # type: ignore[arg-type]


@cache
def _readers(op: type[Op]) -> dict[str, Reader]:
    declared: dict[str, Field[Any]] = {f.name: f for f in fields(op)}  # type: ignore[arg-type]
    return {name: _reader(hint, declared[name]) for name, hint in field_hints(op).items()}


def _reader(hint: Any, field: Field[Any]) -> Reader:
    if hint is Graph or Graph in get_args(hint):
        return _read_region if hint is Graph else _read_last_region
    if Layout in get_args(hint):
        return _read_layout
    optional = NoneType in get_args(hint)
    convert = _converter(next(a for a in get_args(hint) if a is not NoneType) if optional else hint)
    missing = None if optional and field.default is MISSING else field.default

    def read(name: str, attributes: dict[str, Attribute], regions: list[Graph]) -> Any:
        if name not in attributes:
            if missing is MISSING:
                raise ValueError(f"attribute {name!r} is missing")
            return missing
        value = attributes.pop(name)
        try:
            return convert(value)
        except (TypeError, ValueError):
            raise ValueError(f"attribute {name!r} cannot be {value!r}") from None

    return read


def _read_region(name: str, attributes: dict[str, Attribute], regions: list[Graph]) -> Graph:
    if not regions:
        raise ValueError(f"region {name!r} is missing")
    return regions.pop(0)


def _read_last_region(name: str, attributes: dict[str, Attribute], regions: list[Graph]) -> Graph | None:
    return regions.pop(0) if regions else None


def _read_layout(name: str, attributes: dict[str, Attribute], regions: list[Graph]) -> Layout | None:
    """A layout is stored as `block` and `halo`; without them the memory is row-major."""
    if "block" not in attributes:
        return None
    block, halo = attributes.pop("block"), attributes.pop("halo", ())
    if not isinstance(block, int) or not isinstance(halo, tuple):
        raise ValueError("a layout requires an integer 'block' and integers 'halo'")
    return Layout(block, _pairs(halo))


def _converter(hint: Any) -> Callable[[Any], Any]:
    """Returns a function that converts an attribute to its field's type; TypeError or ValueError if it does not fit."""
    if isinstance(hint, type) and issubclass(hint, Enum) and hint is not DType:
        return hint
    if get_origin(hint) is tuple:
        return _pairs if get_origin(get_args(hint)[0]) is tuple else _exactly(tuple)
    if get_origin(hint) is np.ndarray or hint is np.ndarray:
        return _exactly(np.ndarray)
    return _exactly(hint) if hint in (bool, int, float, str, DType, TensorType) else lambda value: value


def _exactly(type_of_value: type) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        if type(value) is not type_of_value:
            raise TypeError(f"expected {type_of_value.__name__}")
        return value

    return check


def _pairs(flat: Any) -> tuple[tuple[int, int], ...]:
    if type(flat) is not tuple:
        raise TypeError("expected integers")
    numbers = cast("tuple[int, ...]", flat)
    return tuple(zip(numbers[::2], numbers[1::2], strict=True))


def _mx_operations() -> Iterable[type[Op]]:
    from .mx.operator import all_operators

    return all_operators()


def _mx_build(name: str, attributes: Mapping[str, Attribute], regions: tuple[Graph, ...]) -> Op:
    from .mx.operator import from_attributes

    if regions:
        raise ValueError(f"{name} has no regions")
    return from_attributes(name, attributes)


def _mx_is_variadic(op: type[Op]) -> bool:
    """True if IRDL cannot list the operands and results: it allows one optional operand, the last."""
    from .mx.operator import Operator

    assert issubclass(op, Operator)
    optional = [name for name in op.inputs if "?" in name]
    overridden = op.output_names is not Operator.output_names or op.input_names is not Operator.input_names
    starred = any("*" in name for name in op.inputs)
    return overridden or starred or optional not in ([], [*op.inputs[-1:]])


register_dialect(Dialect("core", _core_operations, lambda op: op.name in VARIADIC, _core_build))
register_dialect(Dialect("mx", _mx_operations, _mx_is_variadic, _mx_build))
