"""The types of operator parameters, which read MXNet's strings as well as Python values.

MXNet writes every parameter as text: "(2, 2)" or "[2,2]", "True" or "1", "None", "1e-05". An operator's field with one
of these types accepts that text or the Python value, and stores the Python value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from operator import index
from typing import Annotated, Any, Literal, SupportsIndex, cast

import numpy as np

from .declared import Reader

_BOOLS = {"True": True, "true": True, "1": True, "False": False, "false": False, "0": False}


def attribute_text(value: Any) -> str:
    """A parameter as MXNet's Python writes it. NumPy's numbers in containers are plain digits, as with NumPy 1."""
    cls = value.__class__
    if cls in _PLAIN or (cls in (tuple, list) and all(item.__class__ in _PLAIN for item in value)):
        return str(value)
    with np.printoptions(legacy="1.25"):
        return str(value)


_PLAIN = frozenset((str, int, float, bool, type(None)))


def _integer(value: Any) -> int:
    """2.0 and True are not integers: MXNet parses the parameter's text."""
    try:
        if isinstance(value, str):
            return _written_integer(value)
        if isinstance(value, bool):
            raise TypeError
        return index(cast("SupportsIndex", value))
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{value!r} is not an integer") from None


_INTEGER = re.compile(r"\s*([+-]?[0-9]{1,19})L?\s*", re.ASCII)


def _written_integer(text: str) -> int:
    """A 64-bit decimal number, optionally with the suffix L of Python 2."""
    matched = _INTEGER.fullmatch(text)
    if matched is None or not -(2**63) <= int(matched[1]) < 2**63:
        raise ValueError(text)
    return int(matched[1])


def _natural(value: Any) -> int:
    number = _integer(value)
    if number < 0:
        raise ValueError(f"must not be negative, got {number}")
    return number


def _positive(value: Any) -> int:
    number = _integer(value)
    if number < 1:
        raise ValueError(f"must be positive, got {number}")
    return number


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{value!r} is not a number") from None


def _non_negative(value: Any) -> float:
    number = _number(value)
    if not number >= 0:
        raise ValueError(f"must not be negative, got {number}")
    return number


def _boolean(value: Any) -> bool:
    if isinstance(value, str):
        if value not in _BOOLS:
            raise ValueError(f"not a boolean: {value!r}")
        return _BOOLS[value]
    if value not in (0, 1):
        raise ValueError(f"not a boolean: {value!r}")
    return bool(value)


def _sequence(value: Any) -> tuple[Any, ...]:
    """A tuple in MXNet's or Python's notation; a single number is a tuple of one, None is empty."""
    if isinstance(value, str):
        return _items(value.strip())
    if value is None:
        return ()
    return tuple(cast("Iterable[Any]", value)) if hasattr(value, "__iter__") else (value,)


def _items(text: str) -> tuple[str | None, ...]:
    """The items of a tuple of numbers and None, as text."""
    if text == "None":
        return ()
    if text[:1] not in ("(", "["):
        return (text,)
    if text[-1] not in (")", "]"):
        raise ValueError(f"the bracket {text[0]!r} is not closed")
    items = [item.strip() for item in text[1:-1].split(",")]
    if not items[-1]:
        items.pop()
    return tuple(None if item == "None" else item for item in items)


def _shape(value: Any) -> tuple[int, ...]:
    return tuple(_integer(n) for n in _sequence(value))


def _slice_bounds(value: Any) -> tuple[int | None, ...]:
    return tuple(None if n is None else _integer(n) for n in _sequence(value))


def _numbers(value: Any) -> tuple[float, ...]:
    return tuple(_number(n) for n in _sequence(value))


def _or_none(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None or value == "None" else read(value)


def _same(value: Any) -> Any:
    return value


Int = Annotated[int, Reader(_integer)]
Positive = Annotated[int, Reader(_positive)]
Natural = Annotated[int, Reader(_natural)]
Float = Annotated[float, Reader(_number)]
NonNegative = Annotated[float, Reader(_non_negative)]
Bool = Annotated[bool, Reader(_boolean)]
Ints = Annotated[tuple[int, ...], Reader(_shape)]
Bounds = Annotated[tuple[int | None, ...], Reader(_slice_bounds)]
Floats = Annotated[tuple[float, ...], Reader(_numbers)]
OptionalInt = Annotated[int | None, Reader(_or_none(_integer))]
OptionalFloat = Annotated[float | None, Reader(_or_none(_number))]
OptionalBool = Annotated[bool | None, Reader(_or_none(_boolean))]
OptionalInts = Annotated[tuple[int, ...] | None, Reader(_or_none(_shape))]
Text = str

OR_NONE = Reader(_or_none(_same))
"""Converts the text "None" to None: `Annotated[Literal["NCHW", "NHWC"] | None, OR_NONE]`."""

OptionalFloatDType = Annotated[Literal["float16", "float32", "float64"] | None, OR_NONE]
DTypeName = Literal["bfloat16", "float16", "float32", "float64", "int32", "int64", "int8", "uint8"]
OptionalDTypeName = Annotated[DTypeName | None, OR_NONE]
DTypeNameOrBool = Literal["bfloat16", "bool", "float16", "float32", "float64", "int32", "int64", "int8", "uint8"]
ConvLayout = Annotated[Literal["NCDHW", "NCHW", "NCW", "NDHWC", "NHWC"] | None, OR_NONE]
PlainLayout = Annotated[Literal["NCDHW", "NCHW", "NCW"] | None, OR_NONE]
CudnnTune = Annotated[Literal["fastest", "limited_workspace", "off"] | None, OR_NONE]
ImageLayout = Annotated[Literal["NCDHW", "NCHW", "NDHWC", "NHWC"] | None, OR_NONE]
PoolingLayout = Annotated[Literal["NCDHW", "NCHW", "NCW", "NDHWC", "NHWC", "NWC"] | None, OR_NONE]
