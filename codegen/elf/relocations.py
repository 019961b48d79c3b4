"""The relocations of x86-64 and AArch64 ELF objects that LLVM emits, applied to many places at once.

Each architecture has a table from relocation type to `Relocation`. `refers` is the target of the place: the symbol
itself, a slot of the global offset table (GOT) that holds its address, or for calls the symbol or a stub that jumps to
it. `encode(field, place, value)` returns the new content: `field` is the old 4 or 8 bytes, `place` the address of the
field, `value` the target's address plus the addend. Source: the System V ABI for AMD64, section 4.4.1, and the ELF ABI
for the Arm 64-bit Architecture, section 5.7.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

import numpy as np

from ...ir.lazy_dataclass import dataclass

Words = np.ndarray[Any, np.dtype[np.int64]]
Encode = Callable[[Words, Words, Words], Words]


class RelocationError(ValueError):
    """A value does not fit its field."""


class Refers(Enum):
    SYMBOL = "symbol"
    GOT = "got"
    CALL = "call"


@dataclass(frozen=True, slots=True)
class Relocation:
    """`width` is the size of the field in bytes, 4 or 8."""

    name: str
    refers: Refers
    width: int
    encode: Encode

    @property
    def is_narrow_address(self) -> bool:
        """True for an address of 4 bytes, which code at any address cannot have."""
        return self.encode in (_absolute32, _absolute32s)


@dataclass(frozen=True, slots=True)
class Nearby:
    """How a field refers to a target in the same code, wherever the code is: `encode` depends only on the distance,
    which is less than a megabyte. If `with_type` is not 0, the instruction reads what one with a relocation of that
    type for the same target has computed."""

    encode: Encode
    with_type: int = 0


@dataclass(frozen=True, slots=True)
class Architecture:
    """`machine` is e_machine of the ELF header; `stub(distance)` is code that jumps to the address in the GOT slot
    `distance` bytes from the stub.

    `thunk` is a function that jumps to another one with the address of a table as its fifth argument; its fields are
    (offset, relocation type, addend). The jump alone is the code from `jump_start` on. `address` is the relocation type
    of an absolute address of 8 bytes.

    In shared libraries, `loaded` is the relocation type of an address of the library itself, and `slot` that of a GOT
    slot of a symbol of another one. `page` is the largest page in bytes. `nearby` has the relocations of code that can
    be moved with its constants (`kernels.py`).
    """

    name: str
    machine: int
    stub_bytes: int
    stub: Callable[[int], bytes]
    address: int
    thunk: bytes
    thunk_table: tuple[tuple[int, int, int], ...]
    thunk_jump: tuple[int, int, int]
    jump_start: int
    loaded: int
    slot: int
    page: int
    nearby: dict[int, Nearby]
    relocations: dict[int, Relocation]


def _bounded(values: Words, low: int, high: int) -> Words:
    if values.size and not (low <= int(values.min()) and int(values.max()) < high):
        raise RelocationError(
            f"an address is out of reach: {int(values.min())}..{int(values.max())} leaves [{low}, {high})"
        )
    return values


def _absolute(field: Words, place: Words, value: Words) -> Words:
    return value


def _relative(field: Words, place: Words, value: Words) -> Words:
    return value - place


def _absolute32(field: Words, place: Words, value: Words) -> Words:
    return _bounded(value, 0, 1 << 32)


def _absolute32s(field: Words, place: Words, value: Words) -> Words:
    return _bounded(value, -(1 << 31), 1 << 31)


def _relative32(field: Words, place: Words, value: Words) -> Words:
    return _bounded(value - place, -(1 << 31), 1 << 31)


def _x86_stub(distance: int) -> bytes:
    """jmp *[rip + distance - 6], padded to 8 bytes."""
    return b"\xff\x25" + (distance - 6).to_bytes(4, "little", signed=True) + b"\xcc\xcc"


X86_64 = Architecture(
    "x86-64",
    62,
    8,
    _x86_stub,
    1,
    bytes.fromhex("4c8d0500000000 e900000000"),  # lea r8, [rip + table]; jmp kernel
    ((3, 2, -4),),
    (8, 4, -4),
    7,
    8,  # R_X86_64_RELATIVE
    6,  # R_X86_64_GLOB_DAT
    4 << 10,
    {2: Nearby(_relative32), 4: Nearby(_relative32), 24: Nearby(_relative)},
    {
        1: Relocation("R_X86_64_64", Refers.SYMBOL, 8, _absolute),
        2: Relocation("R_X86_64_PC32", Refers.SYMBOL, 4, _relative32),
        4: Relocation("R_X86_64_PLT32", Refers.CALL, 4, _relative32),
        9: Relocation("R_X86_64_GOTPCREL", Refers.GOT, 4, _relative32),
        10: Relocation("R_X86_64_32", Refers.SYMBOL, 4, _absolute32),
        11: Relocation("R_X86_64_32S", Refers.SYMBOL, 4, _absolute32s),
        24: Relocation("R_X86_64_PC64", Refers.SYMBOL, 8, _relative),
        41: Relocation("R_X86_64_GOTPCRELX", Refers.GOT, 4, _relative32),
        42: Relocation("R_X86_64_REX_GOTPCRELX", Refers.GOT, 4, _relative32),
    },
)


def _branch26(field: Words, place: Words, value: Words) -> Words:
    """B and BL: a signed distance in instructions in the low 26 bits."""
    distance = _bounded(value - place, -(1 << 27), 1 << 27) >> 2
    return (field & ~0x03FFFFFF) | (distance & 0x03FFFFFF)


def _page21(field: Words, place: Words, value: Words) -> Words:
    """ADRP: the distance in 4 KiB pages, its low 2 bits in 30:29 and the other 19 in 23:5."""
    pages = _bounded((value >> 12) - (place >> 12), -(1 << 20), 1 << 20)
    return (field & ~0x60FFFFE0) | (pages & 3) << 29 | ((pages >> 2) & 0x7FFFF) << 5


def _low12(shift: int) -> Encode:
    """ADD, LDR, STR: the offset in the page in bits 21:10, in units of the access."""

    def encode(field: Words, place: Words, value: Words) -> Words:
        offset = value & 0xFFF
        if offset.size and int((offset & ((1 << shift) - 1)).max()):
            raise RelocationError(f"an access of {1 << shift} bytes is not aligned to its size")
        return (field & ~0x003FFC00) | (offset >> shift) << 10

    return encode


def _near(field: Words, place: Words, value: Words) -> Words:
    """An ADRP becomes ADR: its register gets the target's address instead of its page."""
    distance = _bounded(value - place, -(1 << 20), 1 << 20)
    return (field & ~0xE0FFFFE0) | (distance & 3) << 29 | ((distance >> 2) & 0x7FFFF) << 5


def _no_offset(field: Words, place: Words, value: Words) -> Words:
    """The instruction adds nothing to a register that has the target's address."""
    return field & ~0x003FFC00


def _aarch64_stub(distance: int) -> bytes:
    """ldr x16, [pc + distance]; br x16."""
    load = 0x58000010 | ((distance >> 2) & 0x7FFFF) << 5
    return load.to_bytes(4, "little") + (0xD61F0200).to_bytes(4, "little")


AARCH64 = Architecture(
    "aarch64",
    183,
    8,
    _aarch64_stub,
    257,
    bytes.fromhex("04000090 84000091 00000014"),  # adrp x4, table; add x4, x4, :lo12:table; b kernel
    ((0, 275, 0), (4, 277, 0)),
    (8, 282, 0),
    8,
    1027,  # R_AARCH64_RELATIVE
    1025,  # R_AARCH64_GLOB_DAT
    64 << 10,
    {
        260: Nearby(_relative),
        261: Nearby(_relative32),
        **{type: Nearby(_branch26) for type in (282, 283)},
        275: Nearby(_near),
        **{type: Nearby(_no_offset, with_type=275) for type in (277, 278, 284, 285, 286, 299)},
    },
    {
        257: Relocation("R_AARCH64_ABS64", Refers.SYMBOL, 8, _absolute),
        258: Relocation("R_AARCH64_ABS32", Refers.SYMBOL, 4, _absolute32),
        260: Relocation("R_AARCH64_PREL64", Refers.SYMBOL, 8, _relative),
        261: Relocation("R_AARCH64_PREL32", Refers.SYMBOL, 4, _relative32),
        275: Relocation("R_AARCH64_ADR_PREL_PG_HI21", Refers.SYMBOL, 4, _page21),
        277: Relocation("R_AARCH64_ADD_ABS_LO12_NC", Refers.SYMBOL, 4, _low12(0)),
        278: Relocation("R_AARCH64_LDST8_ABS_LO12_NC", Refers.SYMBOL, 4, _low12(0)),
        282: Relocation("R_AARCH64_JUMP26", Refers.CALL, 4, _branch26),
        283: Relocation("R_AARCH64_CALL26", Refers.CALL, 4, _branch26),
        284: Relocation("R_AARCH64_LDST16_ABS_LO12_NC", Refers.SYMBOL, 4, _low12(1)),
        285: Relocation("R_AARCH64_LDST32_ABS_LO12_NC", Refers.SYMBOL, 4, _low12(2)),
        286: Relocation("R_AARCH64_LDST64_ABS_LO12_NC", Refers.SYMBOL, 4, _low12(3)),
        299: Relocation("R_AARCH64_LDST128_ABS_LO12_NC", Refers.SYMBOL, 4, _low12(4)),
        311: Relocation("R_AARCH64_ADR_GOT_PAGE", Refers.GOT, 4, _page21),
        312: Relocation("R_AARCH64_LD64_GOT_LO12_NC", Refers.GOT, 4, _low12(3)),
        314: Relocation("R_AARCH64_PLT32", Refers.CALL, 4, _relative32),
    },
)

ARCHITECTURES = {arch.machine: arch for arch in (X86_64, AARCH64)}


def architecture_of(triple: str) -> Architecture:
    """The architecture of a target triple of LLVM, such as x86_64-unknown-linux-gnu."""
    return X86_64 if triple.startswith("x86_64") else AARCH64
