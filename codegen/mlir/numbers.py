"""Numbers in LLVM IR: the LLVM of MLIR writes floats in ways that LLVM 22 does not read."""

from __future__ import annotations

import re

import numpy as np

from ...ir.dialects.core.numerics import round_bfloat16

_FLOAT = re.compile(
    r"\bf0x([0-9A-F]+)\b|(?<![\w.%@-])([+-]?(?:inf|(?:s|q)?nan(?:\(0x[0-9A-Fa-f]+\))?|\d+\.\d+(?:e[+-]\d+)?)(?!\w))"
)
_NAN = re.compile(r"([+-]?)(s|q)?nan(?:\(0x([0-9A-Fa-f]+)\))?")
_TYPE = re.compile(r"\b(half|bfloat|float|double)\b")
_FORMATS = {"half": (">f2", "0xH"), "bfloat": (">f4", "0xR"), "float": (">f4", "0x"), "double": (">f8", "0x")}
"""By type of LLVM, a format that holds its numbers and the prefix of their bits."""
_FRACTIONS = {"half": (16, 10), "bfloat": (16, 7), "float": (32, 23), "double": (64, 52)}
"""By type, its bits and those of its fraction."""


def with_plain_numbers(text: str) -> str:
    """LLVM IR with the bits of its floats as LLVM 22 reads them: the LLVM of MLIR writes them in other ways."""

    def plain(match: re.Match[str]) -> str:
        line = match.string.rfind("\n", 0, match.start()) + 1
        return _plain_number(_TYPE.findall(match.string, line, match.start())[-1], match[1], match[2])

    return _FLOAT.sub(plain, text)


def _plain_number(type: str, bits: str | None, text: str | None) -> str:
    """A number of a type, of which the bits or the decimal text are known."""
    bits = bits or _bits(type, text or "")
    return f"{_FORMATS[type][1]}{_as_double(bits) if type == 'float' else bits}"


def _bits(type: str, text: str) -> str:
    if match := _NAN.fullmatch(text):
        return _nan_bits(type, *match.groups())
    number = np.array(text, _FORMATS[type][0])
    if type == "bfloat":
        number = round_bfloat16(number.astype("f4")).astype(number.dtype)
    return number.tobytes().hex().upper()[: _FRACTIONS[type][0] // 4]


def _nan_bits(type: str, sign: str, kind: str | None, payload: str | None) -> str:
    """A NaN, which is quiet unless it is named `snan`."""
    width, fraction = _FRACTIONS[type]
    exponent = ((1 << (width - 1 - fraction)) - 1) << fraction
    quiet = 0 if kind == "s" else 1 << (fraction - 1)
    number = (int(sign == "-") << (width - 1)) | exponent | quiet | int(payload or "0", 16)
    return f"{number:0{width // 4}X}"


def _as_double(bits: str) -> str:
    """The bits of a float as those of a double, also of a NaN, which a conversion would make quiet."""
    number = int(bits, 16)
    if number & 0x7F800000 == 0x7F800000:
        return f"{(number >> 31) << 63 | 0x7FF << 52 | (number & 0x7FFFFF) << 29:016X}"
    return np.frombuffer(bytes.fromhex(bits), ">f4").astype(">f8").tobytes().hex().upper()
