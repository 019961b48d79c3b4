"""Reads ELF files, checking each offset and index against the bounds before it is used: the tables of a relocatable
object, and the sections of any file.

Files come from a disk cache or from a deployed program, so they can be truncated or damaged: LinkError for anything
invalid. The result of `read_object` can be indexed without further checks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...ir.lazy_dataclass import dataclass
from .relocations import ARCHITECTURES, Architecture, Words

if TYPE_CHECKING:
    import numpy.typing as npt

HEADER = np.dtype(
    [
        ("magic", "S4"), ("bits", "u1"), ("order", "u1"), ("ident", "V10"), ("type", "<u2"), ("machine", "<u2"),
        ("version", "<u4"), ("entry", "<u8"), ("phoff", "<u8"), ("shoff", "<u8"), ("flags", "<u4"), ("ehsize", "<u2"),
        ("phentsize", "<u2"), ("phnum", "<u2"), ("shentsize", "<u2"), ("shnum", "<u2"), ("shstrndx", "<u2"),
    ]
)  # fmt: skip
SECTION = np.dtype(
    [
        ("name", "<u4"), ("type", "<u4"), ("flags", "<u8"), ("addr", "<u8"), ("offset", "<u8"), ("size", "<u8"),
        ("link", "<u4"), ("info", "<u4"), ("align", "<u8"), ("entsize", "<u8"),
    ]
)  # fmt: skip
SYMBOL = np.dtype(
    [("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("value", "<u8"), ("size", "<u8")]
)
RELOCATION = np.dtype([("offset", "<u8"), ("type", "<u4"), ("symbol", "<u4"), ("addend", "<i8")])

_RELOCATABLE = 1
_SYMTAB, _STRTAB, _RELA, _NOBITS, _REL, _INIT_ARRAY = 2, 3, 4, 8, 9, 14
_WRITE, _ALLOC, _EXEC, _MERGEABLE, _THREAD_LOCAL = 1, 2, 4, 0x10, 0x400
_UNDEFINED, _ABSOLUTE = 0, 0xFFF1
_LOCAL, _WEAK = 0, 2
LARGEST_SECTION = 1 << 30
"""The most bytes of a section of an object."""
_LARGEST_ALIGNMENT = 1 << 16

Column = np.ndarray[Any, np.dtype[np.integer]]


class LinkError(ValueError):
    """An object file is damaged, or uses a symbol or feature that the loader does not provide."""


@dataclass(frozen=True, slots=True)
class Section:
    """A section of the image. `content` is None for a section of zeros (.bss). `entry` is the size of its constants if
    it consists of constants of one size that code refers to separately, else 0."""

    name: str
    flags: int
    size: int
    align: int
    content: npt.NDArray[np.uint8] | None
    entry: int = 0

    @property
    def is_code(self) -> bool:
        return bool(self.flags & _EXEC)

    @property
    def is_data(self) -> bool:
        """True if code writes to the section at run time. Only the loader writes to `.data.rel.ro`."""
        return bool(self.flags & _WRITE) and not self.name.startswith(".data.rel.ro")


@dataclass(frozen=True, slots=True)
class Symbols:
    """The symbol table by columns. `section` is 0 for an external symbol and -1 for an absolute symbol.

    A program has thousands of local symbols (a label for each constant) whose names are rarely used: `name` decodes
    them on demand.
    """

    section: Words
    value: Words
    size: Words
    is_local: npt.NDArray[np.bool_]
    is_weak: npt.NDArray[np.bool_]
    name_offsets: Words
    strings: bytes

    def __len__(self) -> int:
        return len(self.section)

    def name(self, index: int) -> str:
        return _string(self.strings, int(self.name_offsets[index]))


@dataclass(frozen=True, slots=True)
class Relocations:
    """The relocations of one section, by columns."""

    section: int
    offset: Words
    type: Words
    symbol: Words
    addend: Words


@dataclass(frozen=True, slots=True)
class ObjectFile:
    """`sections` are the sections to load, by their index in the file."""

    architecture: Architecture
    sections: dict[int, Section]
    symbols: Symbols
    relocations: list[Relocations]


@dataclass(frozen=True, slots=True)
class FileSection:
    """A section of a file. `info` is a field whose meaning depends on the section; `content` is empty for a section of
    zeros."""

    info: int
    content: bytes


def read_sections(data: bytes) -> dict[str, FileSection]:
    """The sections of a little-endian, 64-bit ELF file by name. LinkError if it is none, or damaged."""
    table = _section_table(data)
    return {
        name: FileSection(int(row["info"]), b"" if row["type"] == _NOBITS else bytes(_content(data, row, name)))
        for name, row in zip(_section_names(data, table), table, strict=True)
    }


def read_object(data: bytes) -> ObjectFile:
    """The tables of a relocatable object, checked. LinkError if they are invalid."""
    architecture = read_architecture(data)
    table = _section_table(data)
    names = _section_names(data, table)
    loaded = {i: _section(data, table[i], names[i]) for i in range(len(table)) if _is_loaded(table[i], names[i])}
    symbols = _read_symbols(data, table, loaded)
    tables = [i for i in range(len(table)) if table[i]["type"] == _RELA and int(table[i]["info"]) in loaded]
    relocations = [_read_relocations(data, table[i], names[i], loaded, len(symbols)) for i in tables]
    return ObjectFile(architecture, loaded, symbols, relocations)


def read_architecture(data: bytes) -> Architecture:
    """The architecture of a relocatable object. LinkError if it is not one, or for an unsupported architecture."""
    header = _header(data)
    if header["type"] != _RELOCATABLE:
        raise LinkError("not a relocatable ELF object")
    try:
        return ARCHITECTURES[int(header["machine"])]
    except KeyError:
        raise LinkError(f"object for ELF machine {header['machine']}, which is neither x86-64 nor AArch64") from None


def _header(data: bytes) -> np.void:
    header = _table(data, HEADER, 0, 1, "file header")[0]
    if (header["magic"], header["bits"], header["order"]) != (b"\x7fELF", 2, 1):
        raise LinkError("not a little-endian, 64-bit ELF file")
    return header


def _table(data: bytes, dtype: np.dtype[np.void], offset: int, count: int, what: str) -> npt.NDArray[np.void]:
    if offset + count * dtype.itemsize > len(data):
        raise LinkError(
            f"the object is truncated: its {what} ends at byte {offset + count * dtype.itemsize} of {len(data)}"
        )
    return np.frombuffer(data, dtype, count, offset)


def _section_table(data: bytes) -> npt.NDArray[np.void]:
    header = _header(data)
    if header["shentsize"] != SECTION.itemsize or header["shnum"] == 0:
        raise LinkError("the object has no section table, or one in an unknown format")
    return _table(data, SECTION, int(header["shoff"]), int(header["shnum"]), "section table")


def _section_names(data: bytes, table: npt.NDArray[np.void]) -> list[str]:
    index = int(_header(data)["shstrndx"])
    strings = _strings(data, table, index)
    return [_string(strings, int(offset)) for offset in table["name"]]


def _strings(data: bytes, table: npt.NDArray[np.void], index: int) -> bytes:
    if index >= len(table) or table[index]["type"] != _STRTAB:
        raise LinkError(f"section {index} is not a string table")
    return bytes(_content(data, table[index], "string table"))


def _string(strings: bytes, offset: int) -> str:
    end = strings.find(b"\0", offset)
    if offset >= len(strings) or end < 0:
        raise LinkError(f"a name at byte {offset} is outside the string table")
    return strings[offset:end].decode("utf-8", "replace")


def _content(data: bytes, row: np.void, what: str) -> npt.NDArray[np.uint8]:
    return _table(data, np.dtype(np.uint8), int(row["offset"]), int(row["size"]), what)  # type: ignore[arg-type]


def _is_loaded(row: np.void, name: str) -> bool:
    """True for sections to load. Unwind tables are not loaded: no exception passes through compiled kernels."""
    if not row["flags"] & _ALLOC or name == ".eh_frame":
        return False
    if row["flags"] & _THREAD_LOCAL or row["type"] == _INIT_ARRAY:
        raise LinkError(f"section {name!r} holds thread-local data or constructors, which are not supported")
    return True


def _section(data: bytes, row: np.void, name: str) -> Section:
    size, align = int(row["size"]), max(int(row["align"]), 1)
    if size > LARGEST_SECTION:
        raise LinkError(f"section {name!r} has an invalid size of {size} bytes")
    if align & (align - 1) or align > _LARGEST_ALIGNMENT:
        raise LinkError(f"section {name!r} has an invalid alignment of {align}")
    content = None if row["type"] == _NOBITS else _content(data, row, f"section {name!r}")
    entry = int(row["entsize"]) if row["flags"] & _MERGEABLE else 0
    return Section(name, int(row["flags"]), size, align, content, entry)


def _read_symbols(data: bytes, table: npt.NDArray[np.void], loaded: dict[int, Section]) -> Symbols:
    rows = [row for row in table if row["type"] == _SYMTAB]
    if len(rows) != 1:
        raise LinkError(f"the object has {len(rows)} symbol tables, not 1")
    entries = _table(data, SYMBOL, int(rows[0]["offset"]), int(rows[0]["size"]) // SYMBOL.itemsize, "symbol table")
    section = entries["section"].astype(np.int64)
    section[section == _ABSOLUTE] = -1
    binding = entries["info"] >> 4
    symbols = Symbols(
        section,
        entries["value"].astype(np.int64),
        entries["size"].astype(np.int64),
        binding == _LOCAL,
        binding == _WEAK,
        entries["name"].astype(np.int64),
        _strings(data, table, int(rows[0]["link"])),
    )
    _check_symbols(symbols, len(table), loaded)
    return symbols


def _check_symbols(symbols: Symbols, sections: int, loaded: dict[int, Section]) -> None:
    sizes = np.full(sections + 1, np.iinfo(np.int64).max)  # the last one: absolute symbols, section -1
    for index, section in loaded.items():
        sizes[index] = section.size
    if symbols.section.size and int(symbols.section.max()) >= sections:
        raise LinkError(f"a symbol refers to section {int(symbols.section.max())} of {sections}")
    outside = np.flatnonzero((symbols.value < 0) | (symbols.value > sizes[symbols.section]))
    if outside.size:
        raise LinkError(f"symbol {symbols.name(int(outside[0]))!r} is outside its section")


def _read_relocations(data: bytes, row: np.void, name: str, loaded: dict[int, Section], symbols: int) -> Relocations:
    count = int(row["size"]) // RELOCATION.itemsize
    entries = _table(data, RELOCATION, int(row["offset"]), count, f"section {name!r}")
    if entries.size and int(entries["symbol"].max()) >= symbols:
        raise LinkError(f"a relocation in {name!r} refers to symbol {int(entries['symbol'].max())} of {symbols}")
    section = int(row["info"])
    if entries.size and int(entries["offset"].max()) > loaded[section].size - 4:
        raise LinkError(f"a relocation in {name!r} is outside its section")
    columns = {c: entries[c].astype(np.int64) for c in ("offset", "type", "symbol", "addend")}
    return Relocations(section, **columns)
