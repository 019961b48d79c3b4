"""How attributes, strings and constants are written in MLIR assembly; `parse_attributes` reads the same text.

    bool     true         tuple of ints    array<i64: 1, 2>      DType        f32
    int      3 : i64      tuple of floats  array<f64: 0.5, 1.0>  TensorType   tensor<2x3xf32>
    float    0.5 : f64    any other tuple  ["a", "b"]            Layout       {block = 8 : i64, halo = array<i64: 1, 1>}
    str      "text"       ndarray          dense<...> : tensor<...>

Every number is exact. Floats are the shortest decimals that read back as themselves; infinities and NaN are the
hexadecimal of their bits. Constants of more than `MAX_LISTED` elements are the hexadecimal of their bytes, little
endian.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any, cast

import numpy as np

from .symbolic import concrete, is_symbolic
from .types import DType, Layout, TensorType

MAX_LISTED = 16
"""Constants of at most this many elements are printed element by element (BOOL: always)."""

Array = np.ndarray[Any, Any]
_CONTROL = re.compile(r'["\\\x00-\x1f\x7f\udc80-\udcff]')
_BARE_KEY = re.compile(r"[A-Za-z_][\w.$]*", re.ASCII)
_I64_END = 1 << 63


def quote(text: str) -> str:
    """A string literal. Control characters and undecodable bytes (surrogate escapes) are escaped as bytes."""
    return f'"{_CONTROL.sub(_escape, text)}"' if _CONTROL.search(text) else f'"{text}"'


def _escape(match: re.Match[str]) -> str:
    char = match[0]
    return "\\" + char if char in '"\\' else f"\\{ord(char) & 0xFF:02X}"


def attribute_text(value: object) -> str:
    """The text of one attribute; a symbolic number is printed as its value. TypeError names a Python type that cannot
    be printed."""
    writer = _WRITERS.get(type(value))
    if writer is not None:
        return writer(value)
    if isinstance(value, np.generic):
        return attribute_text(cast("object", value.item()))
    if isinstance(value, np.ndarray):
        return dense_text(cast("Array", value))
    if is_symbolic(value):
        return attribute_text(concrete(value))
    raise TypeError(f"an attribute of type {type(value).__name__} cannot be printed: {value!r}")


def dictionary_text(attributes: Mapping[str, object]) -> str:
    """`{key = value, ...}`; TypeError names the type of an attribute that cannot be printed."""
    return "{" + ", ".join(f"{_key(k)} = {attribute_text(v)}" for k, v in attributes.items()) + "}"


def integers_text(values: tuple[int, ...]) -> str:
    return f"array<i64: {', '.join(map(str, values))}>" if values else "array<i64>"


def float_text(value: float) -> str:
    """A float64 literal without its type."""
    if not isfinite(value):
        return f"0x{struct.pack('>d', value).hex().upper()}"
    return _with_point(repr(value))


def dense_text(array: Array) -> str:
    """The text of a constant tensor; TypeError if the array's dtype is not an element type."""
    dtype = DType.from_numpy(array.dtype)
    type = TensorType(array.shape, dtype)
    if array.size == 0:
        return f"dense<> : {type}"
    raw = np.ascontiguousarray(array, dtype.numpy.newbyteorder("<")).reshape(array.shape)
    if _is_uniform(raw):
        return f"dense<{_element(raw.reshape(-1)[0], dtype)}> : {type}"
    if raw.size <= MAX_LISTED or dtype is DType.BOOL:
        return f"dense<{_nested(raw, dtype)}> : {type}"
    return f'dense<"0x{raw.tobytes().hex().upper()}"> : {type}'


def _key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else quote(name)


def _integer(value: int) -> str:
    if not -_I64_END <= value < 2 * _I64_END:
        raise TypeError(f"{value} does not fit in 64 bits")
    return f"{value} : i64" if value < _I64_END else f"{value} : ui64"


def _tuple(values: tuple[object, ...]) -> str:
    kinds = {bool if isinstance(v, np.bool_) else type(v) for v in values}
    if not kinds or kinds == {int}:
        return integers_text(cast("tuple[int, ...]", values))
    if kinds == {float}:
        return f"array<f64: {', '.join(float_text(cast('float', v)) for v in values)}>"
    if kinds == {bool}:
        return f"array<i1: {', '.join('true' if v else 'false' for v in values)}>"
    return f"[{', '.join(map(attribute_text, values))}]"


def _layout(value: Layout) -> str:
    return dictionary_text({"block": value.block, "halo": tuple(n for pair in value.halo for n in pair)})


def _is_uniform(array: Array) -> bool:
    """True if all elements have the same bits (-0.0 differs from 0.0, a NaN equals itself)."""
    bits = array.reshape(-1).view(f"u{array.itemsize}")
    return bool((bits == bits[0]).all())


def _nested(array: Array, dtype: DType) -> str:
    if array.ndim == 0:
        return _element(cast("Any", array[()]), dtype)
    return f"[{', '.join(_nested(row, dtype) for row in array)}]"


def _element(scalar: np.generic, dtype: DType) -> str:
    if dtype is DType.BOOL:
        return "true" if scalar else "false"
    if not dtype.is_float:
        return str(scalar.item())
    value = float(scalar)  # type: ignore[arg-type]
    if not isfinite(value):
        return f"0x{scalar.tobytes()[::-1].hex().upper()}"
    short = str(scalar)
    # MLIR reads a decimal as float64 and then rounds it: the result must be the same element.
    exact = dtype.numpy.type(float(short)) == scalar
    return _with_point(short if exact else repr(value))


def _with_point(text: str) -> str:
    """Add the decimal point that MLIR requires in every float: 1e-05 becomes 1.0e-05."""
    if "." in text:
        return text
    mantissa, mark, exponent = text.partition("e")
    return f"{mantissa}.0{mark}{exponent}"


_WRITERS: dict[type, Callable[[Any], str]] = {
    bool: lambda v: "true" if v else "false",
    int: _integer,
    float: lambda v: f"{float_text(v)} : f64",
    str: quote,
    tuple: _tuple,
    DType: lambda v: v.value,
    TensorType: str,
    Layout: _layout,
}
