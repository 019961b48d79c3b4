"""Merges relocatable objects into one: the first half of what a linker does.

Sections of one kind become one section, and references are resolved among the objects. `link_object` writes the result
as an object, `shared.py` as a shared library.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from types import MappingProxyType

import numpy as np

from ...ir.lazy_dataclass import dataclass
from .reader import LinkError, ObjectFile, Relocations, Section, read_object
from .relocations import Architecture, Words
from .writer import CONSTANTS, DATA, RELOCATED, TEXT, ObjectWriter

ALIGNMENT = 64
SECTIONS = (TEXT, CONSTANTS, RELOCATED, DATA)
"""The sections of what is merged."""


@dataclass(frozen=True, slots=True)
class MergedSymbol:
    """What references name: a place in a section, or, without a section, a symbol of another file."""

    name: str
    section: str = ""
    offset: int = 0
    is_weak: bool = False


@dataclass(frozen=True, slots=True)
class Fields:
    """The relocations of a merged section, by columns; `symbol` are positions in `Merged.symbols`."""

    section: str
    offset: Words
    type: Words
    symbol: Words
    addend: Words


@dataclass(slots=True, eq=False)
class Merged:
    """Objects as one. `defined` are the positions in `symbols` of those that all objects see, by name."""

    architecture: Architecture
    contents: dict[str, bytearray] = field(default_factory=lambda: {name: bytearray() for name in SECTIONS})
    symbols: list[MergedSymbol] = field(default_factory=list[MergedSymbol])
    fields: list[Fields] = field(default_factory=list[Fields])
    defined: dict[str, int] = field(default_factory=dict[str, int])

    def exported(self, exports: Mapping[str, str]) -> Iterator[tuple[str, MergedSymbol]]:
        """The symbols to export by their new names; `exports` has the new names by the old ones. LinkError for one that
        no object defines."""
        for own, name in exports.items():
            if own not in self.defined:
                raise LinkError(f"no object defines {own!r}")
            yield name, self.symbols[self.defined[own]]

    def require(self, provided: Callable[[str], bool]) -> None:
        """LinkError for symbols that no object defines and that are not `provided` by others."""
        missing = [s.name for s in self.symbols if not s.section and not s.is_weak and not provided(s.name)]
        if missing:
            raise LinkError(f"the objects refer to {', '.join(missing)}, which nothing defines")


def merge_objects(objects: Sequence[bytes]) -> Merged:
    """`merge_files` of ELF objects. LinkError for damaged objects too."""
    return merge_files([read_object(data) for data in objects])


def merge_files(files: Sequence[ObjectFile]) -> Merged:
    """The objects as one. If several define a symbol, the first definition counts. LinkError for objects of several
    architectures."""
    merged = Merged(files[0].architecture)
    if any(file.architecture is not merged.architecture for file in files):
        raise LinkError("objects of several architectures cannot be merged")
    parts = [_Part(merged, file) for file in files]
    for part in parts:
        part.define()
    external: dict[str, int] = {}
    for part in parts:
        part.refer(external)
    return merged


class _Part:
    """An object that is merged."""

    def __init__(self, merged: Merged, file: ObjectFile) -> None:
        self._merged, self._file = merged, file
        self._starts: dict[int, tuple[str, int]] = {}  # the section, and the offset in it
        absolute = {t.section for t in file.relocations if (t.type == merged.architecture.address).any()}
        for number, section in file.sections.items():
            if section.align > ALIGNMENT:
                raise LinkError(f"section {section.name!r} requires alignment {section.align}, more than {ALIGNMENT}")
            name = _kind(section, number in absolute)
            content = merged.contents[name]
            content.extend(bytes(-len(content) % section.align))
            self._starts[number] = name, len(content)
            content.extend(bytes(section.size) if section.content is None else section.content.tobytes())
        self._numbers = np.full(len(file.symbols), -1, np.int64)  # of symbols in the merged object

    def define(self) -> None:
        """Add the definitions that other objects see."""
        symbols = self._file.symbols
        for i in np.flatnonzero(~symbols.is_local & (symbols.section > 0)).tolist():
            name = symbols.name(i)
            if name not in self._merged.defined:
                self._merged.defined[name] = self._add(self._symbol(i))

    def _symbol(self, number: int) -> MergedSymbol:
        symbols = self._file.symbols
        start = self._starts.get(int(symbols.section[number]))
        if start is None:
            raise LinkError(f"a reference to {symbols.name(number)!r}, which is not in a section that is loaded")
        return MergedSymbol(symbols.name(number), start[0], start[1] + int(symbols.value[number]))

    def _add(self, symbol: MergedSymbol) -> int:
        self._merged.symbols.append(symbol)
        return len(self._merged.symbols) - 1

    def refer(self, external: dict[str, int]) -> None:
        """Add the references. `external` are the symbols that no object defines, by name."""
        for table in self._file.relocations:
            kept = table.type != 0
            numbers = [self._number(i, external) for i in table.symbol[kept].tolist()]
            self._merged.fields.append(self._fields(table, kept, np.array(numbers, np.int64)))

    def _fields(self, table: Relocations, kept: np.ndarray, numbers: Words) -> Fields:
        section, start = self._starts[table.section]
        return Fields(section, table.offset[kept] + start, table.type[kept], numbers, table.addend[kept])

    def _number(self, symbol: int, external: dict[str, int]) -> int:
        """The merged symbol that a symbol of the object is."""
        if self._numbers[symbol] < 0:
            self._numbers[symbol] = self._resolved(symbol, external)
        return int(self._numbers[symbol])

    def _resolved(self, symbol: int, external: dict[str, int]) -> int:
        symbols = self._file.symbols
        if symbols.is_local[symbol]:
            return self._add(self._symbol(symbol))
        name = symbols.name(symbol)
        if name in self._merged.defined:
            return self._merged.defined[name]
        if name not in external:
            external[name] = self._add(MergedSymbol(name, is_weak=bool(symbols.is_weak[symbol])))
        return external[name]


def _kind(section: Section, has_addresses: bool) -> str:
    """The merged section that takes a section: one with addresses is written when it is loaded."""
    if section.is_code:
        return TEXT
    if section.is_data:
        return DATA
    return RELOCATED if has_addresses or section.name.startswith(RELOCATED) else CONSTANTS


def self_contained(objects: list[bytes]) -> list[bytes]:
    """The objects, of which none refers to another: as one if any does."""
    if len(objects) < 2:
        return objects
    files = [read_object(data) for data in objects]
    defined, external = set[str](), set[str]()
    for file in files:
        symbols = file.symbols
        for i in np.flatnonzero(~symbols.is_local).tolist():
            (defined if symbols.section[i] else external).add(symbols.name(i))
    return [link_object(objects, {name: name for name in defined})] if defined & external else objects


def link_object(
    objects: Sequence[bytes],
    exports: Mapping[str, str],
    external: Mapping[str, str] = MappingProxyType({}),
    provided: Callable[[str], bool] = lambda name: True,
) -> bytes:
    """One object of several, with these symbols under new names; others that the objects define are local to it.
    `external` has new names of symbols that no object defines. LinkError for damaged objects, and for symbols that are
    neither defined nor `provided` by others."""
    merged = merge_objects(objects)
    merged.require(lambda name: name in external or provided(name))
    writer = ObjectWriter(merged.architecture)
    for name, content in merged.contents.items():
        writer.add(name, content)
    names: list[str] = []
    for i, symbol in enumerate(merged.symbols):
        local = f"{symbol.name or 'part'}.{i}"
        names.append(local if symbol.section else external.get(symbol.name, symbol.name))
        if symbol.section:
            writer.define(local, symbol.section, symbol.offset, is_local=True)
    for name, symbol in merged.exported(exports):
        writer.define(name, symbol.section, symbol.offset)
    for each in merged.fields:
        for i in range(len(each.offset)):
            name = names[int(each.symbol[i])]
            writer.refer(each.section, int(each.offset[i]), int(each.type[i]), name, int(each.addend[i]))
    return writer.finish()
