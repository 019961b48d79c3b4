"""Writes shared libraries (ET_DYN) without a linker.

    file = headers | dynamic symbols, names, hash table, relocations | constants     readable
         | code | stubs of calls to other libraries                                  executable
         | dynamic section | global offset table (GOT) | constants with addresses    writable until it is loaded
         | data                                                                      writable
         | memory                                                                    readable
         | table of sections                                                         not loaded

Each line is a segment, and starts on a page of its own in memory, but not in the file: two segments can map one page of
the file. `memory` is a block of any size that only addresses of 8 bytes refer to, such as weights. All symbols are
bound when the library is loaded. Source: the System V ABI, chapters 4 and 5.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field

import numpy as np

from ...ir.lazy_dataclass import dataclass
from .merge import Fields, Merged, MergedSymbol, merge_objects
from .reader import HEADER, RELOCATION, SECTION, SYMBOL, LinkError
from .relocations import Refers, Relocation, RelocationError, Words
from .writer import CONSTANTS, DATA, RELOCATED, TEXT

_PROGRAM_HEADER = np.dtype(
    [
        ("type", "<u4"), ("flags", "<u4"), ("offset", "<u8"), ("address", "<u8"), ("physical", "<u8"),
        ("file_bytes", "<u8"), ("bytes", "<u8"), ("align", "<u8"),
    ]
)  # fmt: skip
_DYNAMIC_ENTRY = np.dtype([("tag", "<i8"), ("value", "<u8")])
_SHARED = 3
_LOAD, _DYNAMIC, _STACK, _RELRO = 1, 2, 0x6474E551, 0x6474E552
_EXECUTABLE, _WRITABLE, _READABLE = 1, 2, 4
_NEEDED, _HASH, _STRTAB, _SYMTAB, _RELA, _RELASZ, _RELAENT, _STRSZ, _SYMENT, _SONAME = 1, 4, 5, 6, 7, 8, 9, 10, 11, 14
_FLAGS, _FLAGS_1, _RELACOUNT = 30, 0x6FFFFFFB, 0x6FFFFFF9
_BIND_NOW, _NOW = 8, 1
_ALIGNMENT = 64
_GLOBAL, _WEAK, _FUNCTION, _OBJECT = 0x10, 0x20, 2, 1
_FIELDS = {4: np.dtype("<u4"), 8: np.dtype("<i8")}

Buffer = bytes | bytearray | memoryview


def shared_library(
    objects: Sequence[bytes],
    exports: Mapping[str, str],
    *,
    name: str,
    needs: Sequence[str],
    provided: Callable[[str], bool],
    memory: tuple[str, Buffer] | None = None,
) -> list[Buffer]:
    """The file in parts. `exports` are the symbols that programs see, with their names. The libraries `needs` define
    the symbols that are `provided`. `memory` is a symbol with its content. LinkError for damaged objects, code that
    cannot run at any address, and symbols that nothing defines."""
    merged = merge_objects(objects)
    merged.require(lambda symbol: provided(symbol) or (memory is not None and symbol == memory[0]))
    return _Library(merged, dict(merged.exported(exports)), name, needs, memory).parts()


@dataclass(slots=True)
class _Piece:
    """A part of the file with a section header: (name, type, flags, link, info, size of entries)."""

    name: str
    type: int
    flags: int
    content: Buffer
    link: str = ""
    info: int = 0
    entry: int = 0
    align: int = _ALIGNMENT
    offset: int = 0
    address: int = 0


@dataclass(slots=True)
class _Segment:
    flags: int
    pieces: list[_Piece] = field(default_factory=list[_Piece])


class _Library:
    def __init__(
        self,
        merged: Merged,
        exports: Mapping[str, MergedSymbol],
        name: str,
        needs: Sequence[str],
        memory: tuple[str, Buffer] | None,
    ) -> None:
        self._merged, self._exports, self._memory = merged, exports, memory
        self._architecture = merged.architecture
        self._imports = [i for i, s in enumerate(merged.symbols) if not s.section and not self._is_memory(s)]
        self._slots = self._slot_numbers()
        self._names = bytearray(b"\0")
        self._dynamic_name = {text: self._add_name(text) for text in (name, *needs)}
        self._name, self._needs = name, needs
        self._own_relocations = self._sections_at = 0
        self._lay_out()

    def _is_memory(self, symbol: MergedSymbol) -> bool:
        return self._memory is not None and symbol.name == self._memory[0]

    def _add_name(self, text: str) -> int:
        start = len(self._names)
        self._names.extend(text.encode() + b"\0")
        return start

    def _slot_numbers(self) -> dict[int, int]:
        """The number of the GOT slot of each symbol that has one: of other libraries, and where code asks for it."""
        symbols = set(self._imports)
        for table in self._merged.fields:
            types = [t for t in set(table.type.tolist()) if self._relocation(t).refers is Refers.GOT]
            symbols.update(table.symbol[np.isin(table.type, types)].tolist())
        return {symbol: number for number, symbol in enumerate(sorted(symbols))}

    def _relocation(self, type: int) -> Relocation:
        try:
            return self._architecture.relocations[type]
        except KeyError:
            raise LinkError(f"unknown {self._architecture.name} relocation type {type}") from None

    # --- sizes and addresses

    def _lay_out(self) -> None:
        """Give each piece its place. The sizes of all pieces are known before their contents."""
        merged, contents = self._merged, self._merged.contents
        symbols = len(self._imports) + len(self._exports) + 1
        dynamic_names = [merged.symbols[i].name for i in self._imports] + list(self._exports)
        self._symbol_names = [self._add_name(text) for text in dynamic_names]
        self._dynamic_names = dynamic_names
        stubs = len(self._imports) * self._architecture.stub_bytes
        relocations = bytes(self._relocation_count() * RELOCATION.itemsize)
        pieces = {
            ".dynsym": _Piece(".dynsym", 11, 2, bytes(symbols * SYMBOL.itemsize), ".dynstr", 1, SYMBOL.itemsize),
            ".dynstr": _Piece(".dynstr", 3, 2, bytes(self._names)),
            ".hash": _Piece(".hash", 5, 2, self._hash_table(), ".dynsym", 0, 4),
            ".rela.dyn": _Piece(".rela.dyn", 4, 2, relocations, ".dynsym", 0, RELOCATION.itemsize),
            CONSTANTS: _Piece(CONSTANTS, 1, 2, contents[CONSTANTS]),
            TEXT: _Piece(TEXT, 1, 6, contents[TEXT] + bytes(-len(contents[TEXT]) % _ALIGNMENT + stubs)),
            ".dynamic": _Piece(".dynamic", 6, 3, self._dynamic_section({}), ".dynstr", 0, _DYNAMIC_ENTRY.itemsize),
            ".got": _Piece(".got", 1, 3, bytearray(8 * len(self._slots))),
            RELOCATED: _Piece(RELOCATED, 1, 3, contents[RELOCATED]),
            DATA: _Piece(DATA, 1, 3, contents[DATA]),
        }
        first = [".dynsym", ".dynstr", ".hash", ".rela.dyn", CONSTANTS]
        segments = [
            (_READABLE, first),
            (_READABLE | _EXECUTABLE, [TEXT]),
            (_READABLE | _WRITABLE, [".dynamic", ".got", RELOCATED]),
            *([(_READABLE | _WRITABLE, [DATA])] if contents[DATA] else []),
        ]
        if self._memory is not None:
            pieces[".memory"] = _Piece(".memory", 1, 2, self._memory[1])
            segments.append((_READABLE, [".memory"]))
        self._pieces = pieces
        self._segments = [_Segment(flags, [pieces[name] for name in names]) for flags, names in segments]
        self._headers = HEADER.itemsize + (len(self._segments) + 3) * _PROGRAM_HEADER.itemsize
        self._place()

    def _place(self) -> None:
        offset = address = self._headers
        page = self._architecture.page
        for segment in self._segments:
            offset = _align(offset, _ALIGNMENT)
            address = _align(address, page) + offset % page if segment is not self._segments[0] else offset
            for piece in segment.pieces:
                start = _align(offset, piece.align)
                address += start - offset
                piece.offset, piece.address = start, address
                offset, address = start + len(piece.content), address + len(piece.content)
        self._end = offset

    def _addresses(self) -> Words:
        """The address of each symbol; 0 for those of other libraries."""
        addresses = np.zeros(len(self._merged.symbols), np.int64)
        for i, symbol in enumerate(self._merged.symbols):
            if symbol.section:
                addresses[i] = self._pieces[symbol.section].address + symbol.offset
            elif self._is_memory(symbol):
                addresses[i] = self._pieces[".memory"].address
        return addresses

    # --- contents

    def parts(self) -> list[Buffer]:
        """The file."""
        addresses = self._addresses()
        slots, calls = self._fill_slots(addresses)
        targets = {Refers.SYMBOL: addresses, Refers.GOT: slots, Refers.CALL: calls}
        own: list[tuple[int, int, int]] = []  # (place, symbol, addend)
        for table in self._merged.fields:
            own += self._relocate(table, targets)
        pieces = self._pieces
        pieces[".rela.dyn"].content = self._dynamic_relocations(own, addresses, slots)
        pieces[".dynsym"].content = self._dynamic_symbols()
        pieces[".dynamic"].content = self._dynamic_section({name: piece.address for name, piece in pieces.items()})
        return self._file()

    def _fill_slots(self, addresses: Words) -> tuple[Words, Words]:
        """Write the stubs. Returns the address of the slot of each symbol, and the target of calls of it."""
        slots, calls = np.zeros_like(addresses), addresses.copy()
        for symbol, number in self._slots.items():
            slots[symbol] = self._pieces[".got"].address + 8 * number
        architecture, text = self._architecture, self._pieces[TEXT]
        start = len(text.content) - len(self._imports) * architecture.stub_bytes
        content = bytearray(text.content)
        for position, symbol in enumerate(self._imports):
            stub = start + position * architecture.stub_bytes
            calls[symbol] = text.address + stub
            code = architecture.stub(int(slots[symbol]) - int(calls[symbol]))
            content[stub : stub + len(code)] = code
        text.content = content
        return slots, calls

    def _relocate(self, table: Fields, targets: Mapping[Refers, Words]) -> list[tuple[int, int, int]]:
        """Write the fields of a section. Returns those that need the address at which the library is loaded."""
        piece = self._pieces[table.section]
        content = np.frombuffer(piece.content, np.uint8)
        loaded: list[tuple[int, int, int]] = []
        for type in sorted(set(table.type.tolist())):
            chosen = table.type == type
            place, symbol, addend = piece.address + table.offset[chosen], table.symbol[chosen], table.addend[chosen]
            if type == self._architecture.address:
                loaded += zip(place.tolist(), symbol.tolist(), addend.tolist(), strict=True)
                continue
            relocation = self._relocation(type)
            self._check(relocation, symbol)
            where = table.offset[chosen][:, None] + np.arange(relocation.width)
            dtype = _FIELDS[relocation.width]
            old = content[where].view(dtype)[:, 0].astype(np.int64)
            try:
                new = relocation.encode(old, place, targets[relocation.refers][symbol] + addend)
            except RelocationError as error:
                raise LinkError(f"{relocation.name} in section {table.section!r}: {error}") from None
            content[where] = new.astype(dtype)[:, None].view(np.uint8)
        return loaded

    def _check(self, relocation: Relocation, symbols: Words) -> None:
        if relocation.is_narrow_address:
            raise LinkError(f"{relocation.name}: the code cannot run at any address")
        if relocation.refers is not Refers.SYMBOL:
            return
        for i in range(len(symbols)):
            symbol = self._merged.symbols[int(symbols[i])]
            if not symbol.section:
                raise LinkError(f"{relocation.name} refers to {symbol.name!r}, which is in another library")

    def _relocation_count(self) -> int:
        fields = sum(int((table.type == self._architecture.address).sum()) for table in self._merged.fields)
        return fields + len(self._slots)

    def _dynamic_relocations(self, fields: list[tuple[int, int, int]], addresses: Words, slots: Words) -> bytes:
        """The relocations that the system applies when it loads the library: first those of its own addresses."""
        imported = {symbol: 1 + number for number, symbol in enumerate(self._imports)}
        architecture = self._architecture
        own = [(at, architecture.loaded, 0, int(addresses[s]) + a) for at, s, a in fields if s not in imported]
        own += [(int(slots[s]), architecture.loaded, 0, int(addresses[s])) for s in self._slots if s not in imported]
        other = [(at, architecture.address, imported[s], a) for at, s, a in fields if s in imported]
        other += [(int(slots[s]), architecture.slot, imported[s], 0) for s in self._imports]
        self._own_relocations = len(own)
        return np.array([*sorted(own), *other], RELOCATION).tobytes()

    def _dynamic_symbols(self) -> bytes:
        table = np.zeros(1 + len(self._symbol_names), SYMBOL)
        numbers = {piece.name: 1 + i for i, piece in enumerate(self._listed())}
        for row, symbol in zip(table[1:], self._imports, strict=False):
            row["info"] = _WEAK if self._merged.symbols[symbol].is_weak else _GLOBAL
        for row, symbol in zip(table[1 + len(self._imports) :], self._exports.values(), strict=True):
            row["info"] = _GLOBAL | (_FUNCTION if symbol.section == TEXT else _OBJECT)
            row["section"] = numbers[symbol.section]
            row["value"] = self._pieces[symbol.section].address + symbol.offset
        table["name"][1:] = self._symbol_names
        return table.tobytes()

    def _hash_table(self) -> bytes:
        names = self._dynamic_names
        buckets = max(1, len(names) // 2)
        table = [buckets, 1 + len(names), *([0] * (buckets + 1 + len(names)))]
        for number, name in enumerate(names, 1):
            bucket = 2 + _hash(name) % buckets
            table[2 + buckets + number], table[bucket] = table[bucket], number
        return np.array(table, "<u4").tobytes()

    def _dynamic_section(self, addresses: Mapping[str, int]) -> bytes:
        """The dynamic section. Without addresses only its size counts."""
        at = addresses.get
        rows = [
            *((_NEEDED, self._dynamic_name[library]) for library in self._needs),
            (_SONAME, self._dynamic_name[self._name]),
            (_HASH, at(".hash", 0)),
            (_STRTAB, at(".dynstr", 0)),
            (_SYMTAB, at(".dynsym", 0)),
            (_STRSZ, len(self._names)),
            (_SYMENT, SYMBOL.itemsize),
            (_RELA, at(".rela.dyn", 0)),
            (_RELASZ, self._relocation_count() * RELOCATION.itemsize),
            (_RELAENT, RELOCATION.itemsize),
            (_RELACOUNT, self._own_relocations),
            (_FLAGS, _BIND_NOW),
            (_FLAGS_1, _NOW),
            (0, 0),
        ]
        return np.array(rows, _DYNAMIC_ENTRY).tobytes()

    # --- the file

    def _listed(self) -> list[_Piece]:
        return [piece for segment in self._segments for piece in segment.pieces]

    def _file(self) -> list[Buffer]:
        parts: list[Buffer] = [self._header(), self._program_headers()]
        end = self._headers
        for piece in self._listed():
            parts += [bytes(piece.offset - end), piece.content]
            end = piece.offset + len(piece.content)
        titles = b"\0" + b"".join(piece.name.encode() + b"\0" for piece in self._listed()) + b".shstrtab\0"
        parts += [titles, bytes(-(end + len(titles)) % 8), self._section_table(titles, end)]
        self._sections_at = end + len(titles) + -(end + len(titles)) % 8
        parts[0] = self._header()
        return parts

    def _header(self) -> bytes:
        header = np.zeros((), HEADER)
        header["magic"], header["bits"], header["order"], header["type"] = b"\x7fELF", 2, 1, _SHARED
        header["ident"], header["machine"], header["version"] = b"\1", self._architecture.machine, 1
        header["phoff"], header["phentsize"] = HEADER.itemsize, _PROGRAM_HEADER.itemsize
        header["phnum"] = len(self._segments) + 3
        header["shoff"] = self._sections_at
        header["ehsize"], header["shentsize"] = HEADER.itemsize, SECTION.itemsize
        header["shnum"] = len(self._listed()) + 2
        header["shstrndx"] = len(self._listed()) + 1
        return header.tobytes()

    def _program_headers(self) -> bytes:
        rows: list[tuple[int, ...]] = []
        others: list[tuple[int, ...]] = []
        page = self._architecture.page
        for segment in self._segments:
            first, last = segment.pieces[0], segment.pieces[-1]
            offset, address = first.offset, first.address
            size = last.address + len(last.content) - address
            if segment is self._segments[0]:  # the headers are in it too
                offset, address, size = 0, 0, size + address
            bytes_in_memory = size
            if first.name == ".dynamic":  # whole pages can become read-only
                bytes_in_memory = _align(address + size, page) - address
                others.append((_RELRO, _READABLE, offset, address, address, size, bytes_in_memory, 1))
            rows.append((_LOAD, segment.flags, offset, address, address, size, bytes_in_memory, page))
        dynamic = self._pieces[".dynamic"]
        at, nbytes = dynamic.address, len(dynamic.content)
        others.append((_DYNAMIC, _READABLE | _WRITABLE, dynamic.offset, at, at, nbytes, nbytes, 8))
        others.append((_STACK, _READABLE | _WRITABLE, 0, 0, 0, 0, 0, 16))
        return np.array([*rows, *others], _PROGRAM_HEADER).tobytes()

    def _section_table(self, titles: bytes, titles_at: int) -> bytes:
        pieces = self._listed()
        numbers = {piece.name: 1 + i for i, piece in enumerate(pieces)}
        table = np.zeros(len(pieces) + 2, SECTION)
        for row, piece in zip(table[1:], pieces, strict=False):
            row["name"] = titles.index(b"\0" + piece.name.encode() + b"\0") + 1
            row["type"], row["flags"] = piece.type, piece.flags
            row["addr"], row["offset"], row["size"] = piece.address, piece.offset, len(piece.content)
            row["link"], row["info"] = numbers.get(piece.link, 0), piece.info
            row["align"], row["entsize"] = piece.align, piece.entry
        last = table[-1]
        last["name"], last["type"], last["align"] = titles.index(b"\0.shstrtab\0") + 1, 3, 1
        last["offset"], last["size"] = titles_at, len(titles)
        return table.tobytes()


def _hash(name: str) -> int:
    """The hash of a symbol's name (System V ABI, figure 5-13)."""
    value = 0
    for byte in name.encode():
        value = (value << 4) + byte
        high = value & 0xF0000000
        value = (value ^ high >> 24) & ~high & 0xFFFFFFFF
    return value


def _align(offset: int, alignment: int) -> int:
    return -(-offset // alignment) * alignment
