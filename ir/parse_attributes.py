"""Reads attributes from MLIR assembly, as `attributes` writes them. Never evaluates any part of the text."""

from __future__ import annotations

import re
import struct
from typing import Any, NoReturn

import numpy as np

from .graph import Attribute
from .types import DType, Layout, TensorType

MAX_DEPTH = 32
"""The maximum nesting depth of arrays and dictionaries."""
MAX_CONSTANT_BYTES = 1 << 31
"""Limits memory: short text can describe a large constant (`dense<0.0> : tensor<1000000x1000000xf32>`)."""

STRING = r'"(?:[^"\\\n]++|\\.)*+"'
LAYOUT = r"\{block = \d+ : i64, halo = array<i64[^<>]*>\}"
TENSOR = rf"tensor<(?:\d+x)*+\w+(?:, {LAYOUT})?>"
_TENSOR = re.compile(r"tensor<((?:\d+x)*+)(\w+)(?:, \{block = (\d+) : i64, halo = array<i64(?:: ([-\d, ]+))?>\})?>")
_STRING = re.compile(STRING)
_KEY = re.compile(rf"([A-Za-z_][\w.$]*+|{STRING})\s*=\s*", re.ASCII)
_NUMBER = re.compile(r"(0x[0-9A-Fa-f]+|[-+]?\d+(\.\d*(?:[eE][-+]?\d+)?)?) : (i64|ui64|f64)")
_ARRAY = re.compile(r"array<(i64|f64|i1)(?::\s*([^<>]*))?>")
_DENSE = re.compile(rf"dense<({STRING}|[^<>\"]*+)> : ({TENSOR})")
_WORD = re.compile(r"\w+")
_COMMA = re.compile(r"\s*,\s*")
_ESCAPE = re.compile(rb"\\([0-9A-Fa-f]{2}|.)", re.DOTALL)
_NAMED_ESCAPES = {b"n": b"\n", b"t": b"\t", b'"': b'"', b"\\": b"\\"}
_DTYPES = {d.value: d for d in DType}


class AttributeSyntaxError(ValueError):
    """The text at `position` is not an attribute."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message)
        self.position = position


def unquote(literal: str) -> str:
    """The content of a string literal with quotes; ValueError for an unknown escape."""
    body = literal[1:-1]
    if "\\" not in body:
        return body
    return _ESCAPE.sub(_unescape, body.encode(errors="surrogateescape")).decode(errors="surrogateescape")


def _unescape(match: re.Match[bytes]) -> bytes:
    code = match[1]
    if len(code) == 2:
        return bytes.fromhex(code.decode())
    if code not in _NAMED_ESCAPES:
        raise ValueError(f"unknown escape \\{code.decode(errors='replace')} in a string")
    return _NAMED_ESCAPES[code]


def tensor_type(text: str) -> TensorType:
    """The type written as `text`; ValueError describes the syntax error."""
    match = _TENSOR.fullmatch(text)
    if match is None or match[2] not in _DTYPES:
        raise ValueError(f"{text!r} is not a tensor type")
    shape = tuple(map(int, match[1].split("x")[:-1]))
    return TensorType(shape, _DTYPES[match[2]], _layout(match[3], match[4]) if match[3] else None)


def _layout(block: str, halo: str | None) -> Layout:
    flat = [int(n) for n in halo.split(",")] if halo else []
    if len(flat) % 2:
        raise ValueError("a layout's halo has a pair of numbers for each spatial axis")
    return Layout(int(block), tuple(zip(flat[::2], flat[1::2], strict=True)))


def parse_dictionary(text: str) -> dict[str, Attribute]:
    """The attributes in `{key = value, ...}`; AttributeSyntaxError has the position of a syntax error."""
    reader = _Reader(text)
    attributes = reader.dictionary(0)
    if reader.at != len(text):
        reader.fail("expected the end of the attributes")
    return attributes


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def fail(self, message: str) -> NoReturn:
        raise AttributeSyntaxError(message, self.at)

    def expect(self, pattern: re.Pattern[str], what: str) -> re.Match[str]:
        match = pattern.match(self.text, self.at)
        if match is None:
            self.fail(f"expected {what}")
        self.at = match.end()
        return match

    def dictionary(self, depth: int) -> dict[str, Attribute]:
        attributes: dict[str, Attribute] = {}
        self.at += 1
        while self.text[self.at : self.at + 1] != "}":
            if attributes:
                self.expect(_COMMA, "',' or '}'")
            key = self.expect(_KEY, "the name of an attribute and '='")[1]
            name = unquote(key) if key[0] == '"' else key
            if name in attributes:
                self.fail(f"attribute {name!r} is defined twice")
            attributes[name] = self.value(depth + 1)
        self.at += 1
        return attributes

    def value(self, depth: int) -> Any:
        if depth > MAX_DEPTH:
            self.fail(f"attributes nest deeper than {MAX_DEPTH}")
        first = self.text[self.at : self.at + 1]
        start = self.at
        try:
            return self._value(first, depth)
        except AttributeSyntaxError:
            raise
        except (ValueError, OverflowError) as error:
            raise AttributeSyntaxError(str(error), start) from error

    def _value(self, first: str, depth: int) -> Any:
        match first:
            case '"':
                return unquote(self.expect(_STRING, "a string")[0])
            case "[":
                return self.items(depth)
            case "{":
                return self.layout(depth)
            case _ if first.isdigit() or first in "+-":
                return _number(self.expect(_NUMBER, "a number with its type, as in '3 : i64'"))
            case _:
                return self.word()

    def word(self) -> Any:
        rest = self.text[self.at : self.at + 7]
        if rest.startswith("array<"):
            return _array(self.expect(_ARRAY, "array<i64: ...>, array<f64: ...> or array<i1: ...>"))
        if rest.startswith("dense<"):
            return _dense(self.expect(_DENSE, "dense<...> and its type"))
        if rest == "tensor<":
            return tensor_type(self.expect(re.compile(TENSOR), "a tensor type")[0])
        start = self.at
        word = self.expect(_WORD, "an attribute")[0]
        if word in ("true", "false"):
            return word == "true"
        if word not in _DTYPES:
            self.at = start
            self.fail(f"{word!r} is not an attribute")
        return _DTYPES[word]

    def items(self, depth: int) -> tuple[Any, ...]:
        items: list[Any] = []
        self.at += 1
        while self.text[self.at : self.at + 1] != "]":
            if items:
                self.expect(_COMMA, "',' or ']'")
            items.append(self.value(depth + 1))
        self.at += 1
        return tuple(items)

    def layout(self, depth: int) -> Layout:
        match self.dictionary(depth):
            case {"block": int(block), "halo": tuple(halo), **rest} if not rest and len(halo) % 2 == 0:
                return Layout(block, tuple(zip(halo[::2], halo[1::2], strict=True)))  # type: ignore[arg-type]
            case _:
                self.fail("a dictionary must be a layout: {block = 8 : i64, halo = array<i64: ...>}")


def _number(match: re.Match[str]) -> int | float:
    digits, fraction, type = match.groups()
    if type != "f64":
        if fraction or digits.startswith("0x"):
            raise ValueError(f"{digits} is not a whole number")
        return int(digits)
    return _float64(digits)


def _float64(digits: str) -> float:
    if digits.startswith("0x"):
        return struct.unpack(">d", bytes.fromhex(digits[2:].zfill(16)))[0]
    return float(digits)


def _array(match: re.Match[str]) -> tuple[int, ...] | tuple[float, ...]:
    type, listed = match.groups()
    items = [item.strip() for item in listed.split(",")] if listed else []
    if type == "i64":
        return tuple(map(int, items))
    if type == "f64":
        return tuple(map(_float64, items))
    return tuple(map(_truth, items))


def _truth(word: str) -> bool:
    if word not in ("true", "false"):
        raise ValueError(f"{word!r} is neither true nor false")
    return word == "true"


def _dense(match: re.Match[str]) -> np.ndarray[Any, Any]:
    content, type = match[1], tensor_type(match[2])
    if type.layout is not None or type.dtype is DType.BF16:
        raise ValueError(f"a constant cannot have the type {type}")
    if type.nbytes > MAX_CONSTANT_BYTES:
        raise ValueError(f"a constant of {type.nbytes} bytes is larger than {MAX_CONSTANT_BYTES}")
    if content.startswith('"'):
        return _from_hex(content[1:-1], type)
    return _from_list(content, type)


def _from_hex(content: str, type: TensorType) -> np.ndarray[Any, Any]:
    raw = bytes.fromhex(content.removeprefix("0x"))
    if type.dtype is DType.BOOL or not content.startswith("0x") or len(raw) != type.nbytes:
        raise ValueError(f"the bytes of a constant do not fit {type}")
    stored = np.frombuffer(raw, type.dtype.numpy.newbyteorder("<"))
    return stored.astype(type.dtype.numpy).reshape(type.shape)


def _from_list(content: str, type: TensorType) -> np.ndarray[Any, Any]:
    words = [w for w in re.split(r"[\[\],\s]+", content) if w]
    elements = [_element(word, type.dtype) for word in words]
    if content.startswith("[") or not words:
        flat = np.array(elements, type.dtype.numpy)
        if flat.size != type.size or not _nests(content, type):
            raise ValueError(f"a constant with {flat.size} elements does not fit {type}")
        return flat.reshape(type.shape)
    if len(words) != 1:
        raise ValueError("a constant without brackets has one element")
    return np.full(type.shape, elements[0], type.dtype.numpy)


def _nests(content: str, type: TensorType) -> bool:
    """True if the brackets match those of a nested list of this shape."""
    if type.size == 0:
        return not content
    opened, lists = 0, 1
    for n in type.shape:
        opened, lists = opened + lists, lists * n
    return content.count("[") == content.count("]") == opened


def _element(word: str, dtype: DType) -> Any:
    if dtype is DType.BOOL:
        return _truth(word)
    if dtype.is_integer:
        return int(word)
    if word.startswith("0x"):
        bits = bytes.fromhex(word[2:].zfill(dtype.itemsize * 2))
        return np.frombuffer(bits, dtype.numpy.newbyteorder(">"))[0]
    return dtype.numpy.type(float(word))
