"""The tables of a Mach-O object for AArch64, and how its relocations correspond to those of ELF.

Source: Apple's headers <mach-o/loader.h>, <mach-o/nlist.h>, <mach-o/reloc.h> and <mach-o/arm64/reloc.h>.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

MAGIC, ARM64, OBJECT = 0xFEEDFACF, 0x0100000C, 1
SEGMENT, SYMBOL_TABLE, DYNAMIC_SYMBOL_TABLE, BUILD_VERSION = 0x19, 0x2, 0xB, 0x32
MACOS, OLDEST_MACOS = 1, 11 << 16  # the first system for these processors

HEADER = np.dtype([(n, "<u4") for n in ("magic", "cpu", "subtype", "type", "commands", "bytes", "flags", "reserved")])
COMMAND = np.dtype([("command", "<u4"), ("bytes", "<u4")])
SEGMENT_COMMAND = np.dtype(
    [
        ("command", "<u4"), ("bytes", "<u4"), ("name", "S16"), ("address", "<u8"), ("memory", "<u8"),
        ("offset", "<u8"), ("size", "<u8"), ("most", "<u4"), ("initial", "<u4"), ("sections", "<u4"), ("flags", "<u4"),
    ]
)  # fmt: skip
SECTION = np.dtype(
    [
        ("name", "S16"), ("segment", "S16"), ("address", "<u8"), ("size", "<u8"), ("offset", "<u4"), ("align", "<u4"),
        ("relocations", "<u4"), ("relocated", "<u4"), ("flags", "<u4"), ("reserved", "V12"),
    ]
)  # fmt: skip
SYMBOL_COMMAND = np.dtype([(n, "<u4") for n in ("command", "bytes", "symbols", "count", "strings", "string_bytes")])
DYNAMIC_COMMAND = np.dtype([("command", "<u4"), ("bytes", "<u4"), ("ranges", "<u4", 6), ("tables", "<u4", 12)])
VERSION_COMMAND = np.dtype([(n, "<u4") for n in ("command", "bytes", "platform", "oldest", "sdk", "tools")])
SYMBOL = np.dtype([("name", "<u4"), ("type", "u1"), ("section", "u1"), ("flags", "<u2"), ("value", "<u8")])
RELOCATION = np.dtype([("offset", "<u4"), ("what", "<u4")])

EXTERNAL, HIDDEN, IN_SECTION, KIND = 0x01, 0x10, 0x0E, 0x0E  # of the type of a symbol
WEAK = 0x40  # of its flags
ZEROS, SECTION_KIND, INSTRUCTIONS = 0x1, 0xFF, 0x80000400  # of the flags of a section

UNSIGNED, SUBTRACTOR, BRANCH26, PAGE21, PAGEOFF12, GOT_PAGE21, GOT_PAGEOFF12 = range(7)
ADDEND = 10  # the addend of the relocation that follows

TYPES: Mapping[int, int] = {
    275: PAGE21,
    277: PAGEOFF12,
    278: PAGEOFF12,
    282: BRANCH26,
    283: BRANCH26,
    284: PAGEOFF12,
    285: PAGEOFF12,
    286: PAGEOFF12,
    299: PAGEOFF12,
    311: GOT_PAGE21,
    312: GOT_PAGEOFF12,
}
"""The relocations of instructions: the type in Mach-O by that in ELF."""

IS_RELATIVE = frozenset({BRANCH26, PAGE21, GOT_PAGE21})
ABSOLUTE = 257
DISTANCES = {261: 2, 260: 3}
"""The relocations of distances in data, with the logarithm of their bytes. In Mach-O they are two: minus one symbol,
plus another one."""


def what(symbol: int, type: int, width: int = 2, *, is_symbol: bool = True) -> int:
    """The second word of a relocation. `width` is the logarithm of the bytes of the field."""
    return symbol | (type in IS_RELATIVE) << 24 | width << 25 | is_symbol << 27 | type << 28
