"""Links ELF and Mach-O objects into one Mach-O object, which Apple's linker takes.

A reference to a place in the object names a symbol of its own there: relocations of instructions have no addends that
all linkers take. Such names begin with l, so linkers drop them. Nothing in code depends on its address.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from ..elf.merge import ALIGNMENT, SECTIONS, Fields, Merged, merge_files
from ..elf.reader import LARGEST_SECTION, LinkError
from ..elf.relocations import AARCH64
from ..elf.writer import CONSTANTS, DATA, RELOCATED, TEXT
from . import format as macho
from .reader import read_any

_PLACES = {
    TEXT: ("__TEXT", "__text", macho.INSTRUCTIONS),
    CONSTANTS: ("__TEXT", "__const", 0),
    RELOCATED: ("__DATA", "__const", 0),
    DATA: ("__DATA", "__data", 0),
}
"""The segment, the name and the flags of each section."""

_ALL = 7  # protections of a segment in an object: the linker decides


def link_macho(
    objects: Sequence[bytes],
    exports: Mapping[str, str],
    external: Mapping[str, str] = MappingProxyType({}),
    provided: Callable[[str], bool] = lambda name: True,
) -> bytes:
    """One object of several for AArch64, as `codegen.elf.merge.link_object`; LinkError for other processors too."""
    merged = merge_files([read_any(data) for data in objects])
    merged.require(lambda name: name in external or provided(name))
    if merged.architecture is not AARCH64:
        raise LinkError(f"objects for {merged.architecture.name} cannot be linked for macOS on AArch64")
    for name, content in merged.contents.items():
        if len(content) > LARGEST_SECTION:
            raise LinkError(f"section {name} has {len(content)} bytes, too many for an object")
    return _Writer(merged, exports, external).file()


class _Writer:
    def __init__(self, merged: Merged, exports: Mapping[str, str], external: Mapping[str, str]) -> None:
        self._merged, self._external = merged, external
        self._exports = dict(merged.exported(exports))
        self._starts: dict[str, int] = {}
        self._end = 0
        for name in SECTIONS:
            self._starts[name] = self._end
            self._end += -(-len(merged.contents[name]) // ALIGNMENT) * ALIGNMENT
        self._labels: dict[tuple[str, int], int] = {}
        self._imports: dict[int, int] = {}  # external symbols that are named, by their number in `merged`
        self._fields = [(each, i) for each in merged.fields for i in range(len(each.offset))]
        for field in self._fields:
            self._name(*field)
        self._first_import = len(self._labels) + len(self._exports)

    def _name(self, each: Fields, i: int) -> None:
        """Give a place that a field refers to, and one that its distance is counted from, a symbol."""
        number = int(each.symbol[i])
        symbol = self._merged.symbols[number]
        if symbol.section:
            self._labels.setdefault((symbol.section, symbol.offset + int(each.addend[i])), len(self._labels))
        else:
            self._imports.setdefault(number, len(self._imports))
        if int(each.type[i]) in macho.DISTANCES:
            self._labels.setdefault((each.section, int(each.offset[i])), len(self._labels))

    def _target(self, each: Fields, i: int) -> tuple[int, int]:
        """The symbol that a field refers to, and the addend."""
        number, addend = int(each.symbol[i]), int(each.addend[i])
        symbol = self._merged.symbols[number]
        if symbol.section:
            return self._labels[symbol.section, symbol.offset + addend], 0
        return self._first_import + self._imports[number], addend

    def _relocations(self, section: str) -> np.ndarray:
        """The relocations of a section; addends of addresses and distances are written into its content."""
        rows = [row for each, i in self._fields if each.section == section for row in self._rows(each, i)]
        return np.array(rows, macho.RELOCATION)

    def _rows(self, each: Fields, i: int) -> Iterator[tuple[int, int]]:
        offset, type = int(each.offset[i]), int(each.type[i])
        target, addend = self._target(each, i)
        if type == macho.ABSOLUTE:
            self._store(each.section, offset, addend, 8)
            yield offset, macho.what(target, macho.UNSIGNED, 3)
        elif type in macho.DISTANCES:
            width = macho.DISTANCES[type]
            self._store(each.section, offset, addend, 1 << width)
            yield offset, macho.what(self._labels[each.section, offset], macho.SUBTRACTOR, width)
            yield offset, macho.what(target, macho.UNSIGNED, width)
        elif type in macho.TYPES:
            if addend:
                yield offset, macho.what(addend & 0xFFFFFF, macho.ADDEND, is_symbol=False)
            yield offset, macho.what(target, macho.TYPES[type])
        else:
            raise LinkError(f"relocation type {type} has no equivalent for macOS")

    def _store(self, section: str, offset: int, value: int, width: int) -> None:
        self._merged.contents[section][offset : offset + width] = value.to_bytes(width, "little", signed=True)

    def _symbols(self) -> tuple[np.ndarray, bytes]:
        """The symbol table and its names: places in the object, exported symbols, symbols of others."""
        numbers = {name: number for number, name in enumerate(SECTIONS, 1)}
        rows = [
            (f"l{k}", macho.IN_SECTION, numbers[section], 0, self._starts[section] + offset)
            for k, (section, offset) in enumerate(self._labels)
        ]
        for name, symbol in self._exports.items():
            value = self._starts[symbol.section] + symbol.offset
            rows.append((f"_{name}", macho.IN_SECTION | macho.EXTERNAL, numbers[symbol.section], 0, value))
        for number in self._imports:
            symbol = self._merged.symbols[number]
            name = self._external.get(symbol.name, symbol.name)
            rows.append((f"_{name}", macho.EXTERNAL, 0, macho.WEAK if symbol.is_weak else 0, 0))
        names = [row[0].encode() + b"\0" for row in rows]
        table = np.zeros(len(rows), macho.SYMBOL)
        ends = np.cumsum([1, *map(len, names)])
        for entry, offset, row in zip(table, ends.tolist(), rows, strict=False):
            entry["name"], (entry["type"], entry["section"], entry["flags"], entry["value"]) = offset, row[1:]
        return table, b"\0" + b"".join(names)

    def file(self) -> bytes:
        """The bytes of the object."""
        relocations = [self._relocations(name) for name in SECTIONS]
        sizes = [len(self._merged.contents[name]) for name in SECTIONS]
        table, strings = self._symbols()
        commands = (
            macho.SEGMENT_COMMAND.itemsize + len(SECTIONS) * macho.SECTION.itemsize,
            macho.VERSION_COMMAND.itemsize,
            macho.SYMBOL_COMMAND.itemsize,
            macho.DYNAMIC_COMMAND.itemsize,
        )
        start = -(-(macho.HEADER.itemsize + sum(commands)) // ALIGNMENT) * ALIGNMENT
        at = start + self._end  # of the first relocation
        sections = np.zeros(len(SECTIONS), macho.SECTION)
        for row, name, size, entries in zip(sections, SECTIONS, sizes, relocations, strict=True):
            segment, title, flags = _PLACES[name]
            address = self._starts[name]
            row["name"], row["segment"], row["address"], row["size"] = title, segment, address, size
            row["offset"], row["align"], row["flags"] = start + address, ALIGNMENT.bit_length() - 1, flags
            row["relocations"], row["relocated"] = at if len(entries) else 0, len(entries)
            at += entries.nbytes
        head = [_row(macho.HEADER, macho.MAGIC, macho.ARM64, 0, macho.OBJECT, len(commands), sum(commands), 0, 0)]
        head.append(
            _row(
                macho.SEGMENT_COMMAND,
                *(macho.SEGMENT, commands[0], b"", 0, self._end, start, self._end, _ALL, _ALL, len(SECTIONS), 0),
            )
        )
        head.append(sections.tobytes())
        version = macho.BUILD_VERSION, commands[1], macho.MACOS, macho.OLDEST_MACOS, macho.OLDEST_MACOS, 0
        head.append(_row(macho.VERSION_COMMAND, *version))
        symbols = macho.SYMBOL_TABLE, commands[2], at, len(table), at + table.nbytes, len(strings)
        head.append(_row(macho.SYMBOL_COMMAND, *symbols))
        first, count = len(self._labels), len(self._exports)
        ranges = 0, first, first, count, first + count, len(table) - first - count
        head.append(_row(macho.DYNAMIC_COMMAND, macho.DYNAMIC_SYMBOL_TABLE, commands[3], ranges, (0,) * 12))
        data = bytearray(b"".join(head))
        for name in SECTIONS:
            data.extend(bytes(start + self._starts[name] - len(data)))
            data.extend(self._merged.contents[name])
        data.extend(bytes(start + self._end - len(data)))
        return b"".join([bytes(data), *(entries.tobytes() for entries in relocations), table.tobytes(), strings])


def _row(dtype: np.dtype[np.void], *values: object) -> bytes:
    return np.array([values], dtype).tobytes()
