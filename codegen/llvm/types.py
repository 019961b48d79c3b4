"""The LLVM types that emitted code uses, and the exact text of their constants.

A `Type` is an element type and a lane count (1 = a scalar). Types are interned: `Type.of` returns the same object for
the same element and lanes, so they compare by identity. Pointers are opaque and always scalar, except as the result of
a vector gep.

A bfloat is emitted as an i16 that holds its bits, and conversions from and to it are integer instructions: on a
processor without bfloat16 instructions LLVM would scalarize a masked store of `bfloat` and call `__truncsfbf2`.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import ClassVar

from ...ir.symbolic import is_symbolic
from ...ir.types import DType

_BITS = {
    "i1": 1,
    "i8": 8,
    "i16": 16,
    "i32": 32,
    "i64": 64,
    "half": 16,
    "bfloat": 16,
    "float": 32,
    "double": 64,
    "ptr": 64,
}
_PACKED = {"i8": "B", "i16": "H", "i32": "I", "i64": "Q"}
_FLOATS = frozenset(("half", "bfloat", "float", "double"))
_SPELLED = {"bfloat": "i16"}  # other elements have LLVM's name
_MANGLED = {"half": "f16", "bfloat": "i16", "float": "f32", "double": "f64", "ptr": "p0"}


class Type:
    """A scalar or vector type; create it only with `Type.of`.

    `text` is the type in LLVM assembly, `mangled` its part of an intrinsic's name, `bits` the width of ONE lane.
    """

    __slots__ = ("bits", "element", "is_float", "lanes", "mangled", "text")
    _interned: ClassVar[dict[tuple[str, int], Type]] = {}

    def __init__(self, element: str, lanes: int) -> None:
        scalar, spelled = _MANGLED.get(element, element), _SPELLED.get(element, element)
        self.element, self.lanes, self.bits, self.is_float = element, lanes, _BITS[element], element in _FLOATS
        self.text = spelled if lanes == 1 else f"<{lanes} x {spelled}>"
        self.mangled = scalar if lanes == 1 else f"v{lanes}{scalar}"

    @classmethod
    def of(cls, element: str, lanes: int = 1) -> Type:
        """The type of `lanes` elements of `element` (i1 i8 i16 i32 i64 half bfloat float double ptr); ValueError for
        others."""
        interned = cls._interned.get((element, lanes))
        if interned is None:
            if element not in _BITS or lanes < 1:
                raise ValueError(f"no LLVM type of {lanes} lanes of {element!r}")
            interned = cls._interned[(element, lanes)] = cls(element, lanes)
        return interned

    def with_lanes(self, lanes: int) -> Type:
        """The same element with another lane count."""
        return Type.of(self.element, lanes)

    def with_element(self, element: str) -> Type:
        """Another element with the same lane count."""
        return Type.of(element, self.lanes)

    @property
    def scalar(self) -> Type:
        """The type of one lane."""
        return Type.of(self.element)

    @property
    def bytes(self) -> int:
        """Bytes of one lane in memory."""
        return max(1, self.bits // 8)

    def __repr__(self) -> str:
        return self.text


I1, I8, I16, I32, I64 = (Type.of(element) for element in ("i1", "i8", "i16", "i32", "i64"))
F16, BF16, F32, F64, PTR = (Type.of(element) for element in ("half", "bfloat", "float", "double", "ptr"))

_ELEMENT_OF_DTYPE = {
    DType.F16: "half",
    DType.BF16: "bfloat",
    DType.F32: "float",
    DType.F64: "double",
    DType.I8: "i8",
    DType.I16: "i16",
    DType.I32: "i32",
    DType.I64: "i64",
    DType.U8: "i8",
    DType.U16: "i16",
    DType.U32: "i32",
    DType.U64: "i64",
    DType.BOOL: "i1",
}


def type_of(dtype: DType, lanes: int = 1) -> Type:
    """The type in which values of `dtype` are computed; i1 for BOOL. For memory see `memory_type_of`."""
    return Type.of(_ELEMENT_OF_DTYPE[dtype], lanes)


def memory_type_of(dtype: DType, lanes: int = 1) -> Type:
    """The type in which values of `dtype` are stored in memory: a byte for BOOL, else the type of computation."""
    return Type.of("i8" if dtype is DType.BOOL else _ELEMENT_OF_DTYPE[dtype], lanes)


Number = int | float


def scalar_constant(element: str, number: Number) -> str:
    """The exact text of `number` rounded to `element`; integers wrap to its width. ValueError if it has none.

    LLVM's text of a float is the bits of the double with the same value, that of a half its bits.
    """
    if element == "float":
        return f"0x{_double_bits(_round_float(number)):016X}"
    if element == "double":
        return f"0x{_double_bits(float(number)):016X}"
    if element == "half":
        return f"0xH{_half_bits(float(number)):04X}"
    if element == "bfloat":
        return str(_bfloat_bits(float(number)))
    if element == "i1":
        return "true" if number else "false"
    if element == "ptr":
        return _null(number)
    return _integer_constant(element, number)


def _integer_constant(element: str, number: Number) -> str:
    if number != int(number):
        raise ValueError(f"{number!r} is not a constant of type {element}")
    bits = _BITS[element]
    wrapped = int(number) & ((1 << bits) - 1)
    return str(wrapped - (1 << bits) if wrapped >> (bits - 1) else wrapped)


def table_constant(type: Type, numbers: Sequence[Number]) -> str:
    """The text of an array of integers, modulo two to the power of their bits, as a string of bytes, which LLVM reads
    ten times faster than numbers. ValueError for other numbers."""
    if any(n != int(n) for n in numbers):
        raise ValueError(f"a table of {type.text} holds integers")
    mask = (1 << type.bits) - 1
    raw = struct.pack(f"<{len(numbers)}{_PACKED[type.element]}", *[int(n) & mask for n in numbers])
    spelled = raw.hex("\\")
    return f'[{len(raw)} x i8] c"{spelled and chr(92) + spelled}"'


def _null(number: Number) -> str:
    if number != 0:
        raise ValueError(f"{number!r} is not a constant pointer; only 0 (null) is")
    return "null"


def _double_bits(number: float) -> int:
    if math.isnan(number):  # one canonical quiet NaN: the text must not depend on the bits of the NaN
        return 0x7FF8000000000000
    return struct.unpack("<Q", struct.pack("<d", number))[0]


def _round_float(number: Number) -> float:
    """`number` rounded to the nearest float32; infinity outside of the range, as in C."""
    try:
        return struct.unpack("<f", struct.pack("<f", number))[0]
    except OverflowError:
        return math.copysign(math.inf, number)


def _half_bits(number: float) -> int:
    if math.isnan(number):
        return 0x7E00
    try:
        return struct.unpack("<H", struct.pack("<e", number))[0]
    except OverflowError:
        return 0xFC00 if number < 0 else 0x7C00


def _bfloat_bits(number: float) -> int:
    """The bits of `number` rounded to the nearest bfloat16, ties to even (through float32)."""
    if math.isnan(number):
        return 0x7FC0
    bits: int = struct.unpack("<I", struct.pack("<f", _round_float(number)))[0]
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16


_spelled: dict[tuple[Type, type, Number, bool], str] = {}
_class_of = type  # distinguishes a symbolic number, whose `__class__` is int
_REMEMBERED = 1 << 16


def constant(type: Type, number: Number) -> str:
    """The text of a constant of which every lane is `number`."""
    key = (type, _class_of(number), number, number == 0 and math.copysign(1.0, number) < 0)
    spelled = _spelled.get(key)
    if spelled is None:
        if len(_spelled) >= _REMEMBERED:
            _spelled.clear()
        text = scalar_constant(type.element, number)
        spelled = text if type.lanes == 1 else f"splat ({type.scalar.text} {text})"
        if not is_symbolic(number):
            _spelled[key] = spelled
    return spelled
