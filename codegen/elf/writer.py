"""Writes relocatable ELF objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

import numpy as np

from ...ir.lazy_dataclass import dataclass
from .reader import HEADER, RELOCATION, SECTION, SYMBOL
from .relocations import Architecture

TEXT, CONSTANTS, RELOCATED, DATA = ".text", ".rodata", ".data.rel.ro", ".data"
"""Names of sections: code, constants, constants that contain addresses, and data that code writes."""

_FLAGS = {TEXT: 6, CONSTANTS: 2, RELOCATED: 3, DATA: 3}
_PROGBITS, _SYMTAB, _STRTAB, _RELA = 1, 2, 3, 4
_INFO_LINK = 0x40  # the field `info` is the number of a section
_SECTION_SYMBOL, _LOCAL, _GLOBAL = 0x03, 0x00, 0x10
_FUNCTION, _OBJECT = 2, 1
_ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class _Reference:
    section: str
    offset: int
    type: int
    symbol: str
    addend: int


@dataclass(frozen=True, slots=True)
class _Definition:
    section: str
    offset: int
    size: int
    is_local: bool

    @property
    def info(self) -> int:
        """The binding and the type, as a symbol table has them."""
        return (_LOCAL if self.is_local else _GLOBAL) | (_FUNCTION if self.section == TEXT else _OBJECT)


@dataclass(slots=True)
class ObjectWriter:
    """An object under construction. All sections are aligned to 64 bytes."""

    architecture: Architecture
    _contents: dict[str, bytearray] = field(default_factory=lambda: {name: bytearray() for name in _FLAGS})
    _defined: dict[str, _Definition] = field(default_factory=dict[str, _Definition])
    _references: list[_Reference] = field(default_factory=list[_Reference])

    def add(self, section: str, content: bytes | bytearray | memoryview) -> int:
        """Append to a section, aligned; returns the offset in it."""
        data = self._contents[section]
        data.extend(bytes(-len(data) % _ALIGNMENT))
        offset = len(data)
        data.extend(content)
        return offset

    def function(self, name: str, code: bytes) -> int:
        """Append a function and define its global symbol; returns its offset in the code."""
        offset = self.add(TEXT, code)
        self.define(name, TEXT, offset, len(code))
        return offset

    def define(self, name: str, section: str, offset: int, size: int = 0, *, is_local: bool = False) -> None:
        """Define a symbol, which is global unless it `is_local`."""
        self._defined[name] = _Definition(section, offset, size, is_local)

    def alias(self, name: str, function: str) -> None:
        """Define another global symbol of a function."""
        self._defined[name] = self._defined[function]

    def refer(self, section: str, offset: int, type: int, symbol: str, addend: int) -> None:
        """Let the field at an offset refer to a section or to a function, of this object or of another one."""
        self._references.append(_Reference(section, offset, type, symbol, addend))

    def finish(self) -> bytes:
        """The bytes of the object."""
        contents = {name: content for name, content in self._contents.items() if content or name != DATA}
        numbers = {name: 1 + k for k, name in enumerate(contents)}
        known = numbers.keys() | self._defined.keys()
        external = {r.symbol: None for r in self._references if r.symbol not in known}
        local = {name: None for name, definition in self._defined.items() if definition.is_local}
        order = [*numbers, *local, *(name for name in self._defined if name not in local), *external]
        symbols, names, index = self._symbols(numbers, order)
        rows = [(b"", 0, 0, 0, 0, 0, 0, b"")]
        rows += [(n.encode(), _PROGBITS, _FLAGS[n], _ALIGNMENT, 0, 0, 0, bytes(c)) for n, c in contents.items()]
        table = len(rows) + len(contents)  # the number of the symbol table
        for name, number in numbers.items():
            entries = self._relocations(name, index)
            rows.append((b".rela" + name.encode(), _RELA, _INFO_LINK, 8, RELOCATION.itemsize, table, number, entries))
        first_global = 1 + len(numbers) + len(local)
        rows.append((b".symtab", _SYMTAB, 0, 8, SYMBOL.itemsize, table + 1, first_global, symbols))
        titles = b"\0".join(row[0] for row in rows) + b"\0.strtab\0.note.GNU-stack\0"
        rows.append((b".strtab", _STRTAB, 0, 1, 0, 0, 0, names + titles))
        rows.append((b".note.GNU-stack", _PROGBITS, 0, 1, 0, 0, 0, b""))  # no code is on the stack
        return _file(self.architecture, rows, names + titles, len(rows) - 2)

    def _symbols(self, sections: Mapping[str, int], order: Sequence[str]) -> tuple[bytes, bytes, dict[str, int]]:
        """The symbol table in this order, its names, and the position of each symbol."""
        table = np.zeros(1 + len(order), SYMBOL)
        names = bytearray(b"\0")
        index = {name: position for position, name in enumerate(order, 1)}
        for name, position in index.items():
            if name in sections:
                table[position] = (0, _SECTION_SYMBOL, 0, sections[name], 0, 0)
                continue
            known = self._defined.get(name)
            row = (_GLOBAL, 0, 0, 0, 0)
            if known is not None:
                row = known.info, 0, sections[known.section], known.offset, known.size
            table[position] = (len(names), *row)
            names.extend(name.encode() + b"\0")
        return table.tobytes(), bytes(names), index

    def _relocations(self, section: str, index: Mapping[str, int]) -> bytes:
        rows = [(r.offset, r.type, index[r.symbol], r.addend) for r in self._references if r.section == section]
        return np.array(rows, RELOCATION).tobytes()


_Row = tuple[bytes, int, int, int, int, int, int, bytes]
"""A section: name, type, flags, alignment, size of entries, link, info, content."""


def _file(architecture: Architecture, rows: Sequence[_Row], names: bytes, strings: int) -> bytes:
    """A file of sections; their names are in section `strings`, whose content is `names`."""
    table = np.zeros(len(rows), SECTION)
    data = bytearray(HEADER.itemsize)
    for entry, (name, type, flags, align, size, link, info, content) in zip(table, rows, strict=True):
        data.extend(bytes(-len(data) % max(align, 1)))
        at = names.index(b"\0" + name + b"\0") + 1 if name else 0
        entry["name"], entry["type"], entry["flags"], entry["align"] = at, type, flags, align
        entry["offset"], entry["size"], entry["entsize"] = len(data), len(content), size
        entry["link"], entry["info"] = link, info
        data.extend(content)
    data.extend(bytes(-len(data) % 8))
    header = np.zeros((), HEADER)
    header["magic"], header["bits"], header["order"], header["type"] = b"\x7fELF", 2, 1, 1
    header["ident"] = b"\1"
    header["machine"], header["version"], header["shoff"] = architecture.machine, 1, len(data)
    header["ehsize"], header["shentsize"] = HEADER.itemsize, SECTION.itemsize
    header["shnum"], header["shstrndx"] = len(rows), strings
    return header.tobytes() + bytes(data[HEADER.itemsize :]) + table.tobytes()
