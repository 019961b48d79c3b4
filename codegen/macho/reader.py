"""Reads Mach-O objects for AArch64 as if they were ELF objects: names without their underscore, relocations of ELF.

LinkError for a damaged object, and for one that uses a feature that neither the package's objects nor those of
`writer.py` have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..elf.reader import LARGEST_SECTION, LinkError, ObjectFile, Relocations, Section, Symbols, read_object
from ..elf.relocations import AARCH64
from ..elf.writer import RELOCATED
from . import format as macho

if TYPE_CHECKING:
    import numpy.typing as npt

_ELF = {macho.BRANCH26: 283, macho.PAGE21: 275, macho.GOT_PAGE21: 311, macho.GOT_PAGEOFF12: 312}
_LOADS = (278, 284, 285, 286, 299)  # of 1, 2, 4, 8 and 16 bytes
_ADD = 277
_DISTANCES = (0, 0, 261, 260)  # by the logarithm of their bytes
_ALLOCATED, _WRITTEN, _EXECUTED = 2, 1, 4  # flags of sections of ELF
_LARGEST_ALIGNMENT = 16  # as a logarithm


def read_any(data: bytes) -> ObjectFile:
    """The tables of an object in either format, checked. LinkError if they are invalid."""
    return read_macho(data) if data[:4] == macho.MAGIC.to_bytes(4, "little") else read_object(data)


def read_macho(data: bytes) -> ObjectFile:
    """The tables of a Mach-O object for AArch64, checked. LinkError if they are invalid."""
    return _Reader(data).file()


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        header = self._table(macho.HEADER, 0, 1, "header")[0]
        if (header["magic"], header["cpu"], header["type"]) != (macho.MAGIC, macho.ARM64, macho.OBJECT):
            raise LinkError("not a Mach-O object for AArch64")
        self._rows: npt.NDArray[np.void] = np.zeros(0, macho.SECTION)
        self._entries: npt.NDArray[np.void] = np.zeros(0, macho.SYMBOL)
        self._strings = b""
        offset = macho.HEADER.itemsize
        for _ in range(int(header["commands"])):
            command = self._table(macho.COMMAND, offset, 1, "commands")[0]
            self._read_command(int(command["command"]), offset)
            offset += max(int(command["bytes"]), macho.COMMAND.itemsize)
        self._symbols = self._read_symbols()

    def _table(self, dtype: np.dtype[np.void], offset: int, count: int, what: str) -> npt.NDArray[np.void]:
        if offset + count * dtype.itemsize > len(self._data):
            raise LinkError(f"the object is truncated: its {what} ends after byte {len(self._data)}")
        return np.frombuffer(self._data, dtype, count, offset)

    def _read_command(self, command: int, offset: int) -> None:
        if command == macho.SEGMENT:
            row = self._table(macho.SEGMENT_COMMAND, offset, 1, "segment")[0]
            start = offset + macho.SEGMENT_COMMAND.itemsize
            self._rows = self._table(macho.SECTION, start, int(row["sections"]), "section table")
        elif command == macho.SYMBOL_TABLE:
            row = self._table(macho.SYMBOL_COMMAND, offset, 1, "symbol table")[0]
            self._entries = self._table(macho.SYMBOL, int(row["symbols"]), int(row["count"]), "symbol table")
            strings = self._table(np.dtype("V1"), int(row["strings"]), int(row["string_bytes"]), "string table")
            self._strings = strings.tobytes()

    def _read_symbols(self) -> Symbols:
        """The symbols, and after them one for each section, which relocations without a symbol refer to."""
        entries, rows = self._entries, self._rows
        kind = entries["type"] & macho.KIND
        section = np.where(kind == macho.IN_SECTION, entries["section"], 0).astype(np.int64)
        if section.size and int(section.max()) > len(rows):
            raise LinkError(f"a symbol refers to section {int(section.max())} of {len(rows)}")
        bases = np.concatenate([[0], rows["address"].astype(np.int64)])
        sizes = np.concatenate([[np.iinfo(np.int64).max], rows["size"].astype(np.int64)])
        value = entries["value"].astype(np.int64) - bases[section]
        if ((value < 0) | (value > sizes[section])).any():
            raise LinkError("a symbol is outside its section")
        own = np.arange(1, len(rows) + 1)
        names = self._name_offsets(entries["name"].astype(np.int64))
        return Symbols(
            np.concatenate([section, own]),
            np.concatenate([value, 0 * own]),
            np.zeros(len(section) + len(own), np.int64),
            np.concatenate([(entries["type"] & macho.EXTERNAL) == 0, own > 0]),
            np.concatenate([(entries["flags"] & macho.WEAK) != 0, own < 0]),
            np.concatenate([names, np.full(len(own), len(self._strings))]),
            self._strings + b"\0",
        )

    def _name_offsets(self, offsets: np.ndarray) -> np.ndarray:
        """The offsets of names without their underscore."""
        if offsets.size and int(offsets.max()) >= len(self._strings):
            raise LinkError("a name is outside the string table")
        begins = np.frombuffer(self._strings, np.uint8)[offsets] == ord("_") if offsets.size else offsets
        return offsets + begins

    def file(self) -> ObjectFile:
        sections = {i: self._section(row) for i, row in enumerate(self._rows, 1) if _is_loaded(row)}
        relocations = [self._read_relocations(i, row) for i, row in enumerate(self._rows, 1) if i in sections]
        return ObjectFile(AARCH64, sections, self._symbols, [r for r in relocations if len(r.offset)])

    def _section(self, row: np.void) -> Section:
        size, align = int(row["size"]), int(row["align"])
        if size > LARGEST_SECTION or align > _LARGEST_ALIGNMENT:
            raise LinkError(f"a section has {size} bytes at a multiple of 2**{align}")
        name, segment = row["name"].decode("latin-1"), row["segment"].decode("latin-1")
        flags, content = _ALLOCATED, None
        if (int(row["flags"]) & macho.SECTION_KIND) != macho.ZEROS:
            content = self._table(np.dtype("V1"), int(row["offset"]), size, name).view(np.uint8)
        if int(row["flags"]) & macho.INSTRUCTIONS:
            flags |= _EXECUTED
        elif (segment, name) == ("__DATA", "__const"):
            name, flags = RELOCATED, flags | _WRITTEN
        elif segment == "__DATA":
            flags |= _WRITTEN
        return Section(name, flags, size, 1 << align, content)

    def _read_relocations(self, number: int, row: np.void) -> Relocations:
        entries = self._table(macho.RELOCATION, int(row["relocations"]), int(row["relocated"]), "relocations")
        rows: list[tuple[int, int, int, int]] = []
        addend, minus = 0, -1
        for entry in entries:
            offset, what = int(entry["offset"]), int(entry["what"])
            type = what >> 28
            if type == macho.ADDEND:
                addend = (what & 0xFFFFFF ^ 0x800000) - 0x800000
                continue
            symbol, field = self._referred(row, offset, what)
            if type == macho.SUBTRACTOR:
                minus = symbol
                continue
            if minus >= 0:
                field += offset - self._origin(number, minus)
                rows.append((offset, _DISTANCES[what >> 25 & 3], symbol, field))
            elif type == macho.UNSIGNED:
                rows.append((offset, macho.ABSOLUTE, symbol, field))
            else:
                rows.append((offset, _instruction(type, field), symbol, addend))
            addend, minus = 0, -1
        columns = np.array(rows, np.int64).reshape(-1, 4).T
        return Relocations(number, *columns)

    def _referred(self, row: np.void, offset: int, what: int) -> tuple[int, int]:
        """The symbol that a relocation of a section refers to, and the content of its field."""
        symbol, field = what & 0xFFFFFF, self._field(row, offset, 1 << (what >> 25 & 3))
        if not what >> 27 & 1:  # a section, whose address is in the field
            field -= int(self._rows[symbol - 1]["address"]) if 0 < symbol <= len(self._rows) else 0
            symbol += len(self._entries) - 1
        if symbol >= len(self._symbols):
            raise LinkError(f"a relocation refers to symbol {symbol} of {len(self._symbols)}")
        return symbol, field

    def _origin(self, section: int, symbol: int) -> int:
        """The offset of a symbol that a distance in a section is counted from."""
        if self._symbols.section[symbol] != section:
            raise LinkError("a distance is counted from another section")
        return int(self._symbols.value[symbol])

    def _field(self, row: np.void, offset: int, width: int) -> int:
        """The content of a field of a section."""
        if offset + width > int(row["size"]):
            raise LinkError("a relocation is outside its section")
        start = int(row["offset"]) + offset
        return int.from_bytes(self._data[start : start + width], "little", signed=True)


def _is_loaded(row: np.void) -> bool:
    """False for debugging information and unwind tables."""
    return row["segment"] in (b"__TEXT", b"__DATA") and row["name"] != b"__eh_frame"


def _instruction(type: int, instruction: int) -> int:
    """The relocation of ELF for one of an instruction. Offsets in a page have one for additions, and one for loads and
    stores of each size."""
    if type in _ELF:
        return _ELF[type]
    if type != macho.PAGEOFF12:
        raise LinkError(f"unknown relocation type {type} of Mach-O")
    if instruction & 0x3B000000 != 0x39000000:
        return _ADD
    size = instruction >> 30 & 3
    return _LOADS[4 if size == 0 and instruction & 0x04800000 == 0x04800000 else size]
