"""Loads a relocatable ELF object from bytes and makes its functions callable, without a linker and without LLVM.

The image of an object has three parts, each of whole pages: code with the stubs of its external calls, constants with
the global offset table (GOT), and data. The whole image is written while it is writable; then code becomes executable
and constants read-only, so that no page is ever both writable and executable. On AArch64 the change to executable also
makes Linux update the instruction cache.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import platform
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import TYPE_CHECKING

import numpy as np

from ...codegen.elf.reader import LinkError, ObjectFile, Relocations, Section, read_object
from ...codegen.elf.relocations import AARCH64, X86_64, Refers, Relocation, RelocationError, Words
from ...ir.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["LinkError", "LoadedObject", "load_object", "resolve_libc"]

Resolve = Callable[[str], int]

_HOST_ARCHITECTURES = {"x86_64": X86_64, "aarch64": AARCH64, "arm64": AARCH64}
_LIBRARIES = ("libc.so.6", "libm.so.6", "libpthread.so.0")
_CODE, _CONSTANTS, _DATA = range(3)
_PROTECTIONS = (mmap.PROT_READ | mmap.PROT_EXEC, mmap.PROT_READ, mmap.PROT_READ | mmap.PROT_WRITE)
_FIELDS = {4: np.dtype("<u4"), 8: np.dtype("<i8")}


@dataclass(slots=True, weakref_slot=True, eq=False)
class LoadedObject:
    """Code and data of one object, unmapped with the last reference to this. Addresses do not keep it alive. `needs`
    are the objects that it calls."""

    symbols: dict[str, int]
    memory: mmap.mmap = field(repr=False)
    needs: Sequence[LoadedObject] = field(default=(), repr=False)

    def address(self, name: str) -> int:
        """The address of the global symbol `name`. KeyError if the object does not define it."""
        try:
            return self.symbols[name]
        except KeyError:
            raise KeyError(f"no symbol {name!r} in this object, which defines {sorted(self.symbols)}") from None

    def keep_forever(self) -> None:
        """Never unmap the memory: for code that threads can still run while the interpreter exits."""
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self.memory))


def load_object(data: bytes, resolve: Resolve | None = None) -> LoadedObject:
    """`load_objects` of one object."""
    return load_objects((data,), resolve)[0]


def load_objects(
    objects: Sequence[bytes], resolve: Resolve | None = None, others: Sequence[LoadedObject] = ()
) -> list[LoadedObject]:
    """Link objects for this machine's architecture and make them executable.

    External symbols are those of `others`, or of the other objects. `resolve(name)` returns the address of a symbol
    that they lack, or 0 if it is unknown; the default is `resolve_libc`.
    LinkError for a damaged object, an unknown symbol or an unknown relocation.
    """
    images = [Image(_for_this_machine(data)) for data in objects]
    loaded = [LoadedObject(image.exported(), image.memory) for image in images]
    for image, own in zip(images, loaded, strict=True):
        needs: dict[LoadedObject, None] = {}

        def address_of(name: str, needs: dict[LoadedObject, None] = needs) -> int:
            owner = next((other for other in (*others, *loaded) if name in other.symbols), None)
            if owner is None:
                return (resolve or resolve_libc)(name)
            needs[owner] = None
            return owner.symbols[name]

        image.link(address_of)
        image.protect()
        own.needs = tuple(needs)
    return loaded


def _for_this_machine(data: bytes) -> ObjectFile:
    object_file = read_object(data)
    if _HOST_ARCHITECTURES.get(platform.machine()) is not object_file.architecture:
        raise LinkError(f"the object is for {object_file.architecture.name}, this machine is {platform.machine()}")
    return object_file


class Image:
    """The memory of an object during linking. `start` is its address; other positions are offsets from `start`."""

    def __init__(self, object_file: ObjectFile) -> None:
        self.file = object_file
        symbols = object_file.symbols
        self.external = self._external_symbols()
        self.global_symbols = np.flatnonzero(~symbols.is_local)
        self._lay_out()
        self.memory = mmap.mmap(-1, max(self.bounds[-1], mmap.PAGESIZE), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.bytes = np.frombuffer(self.memory, np.uint8)
        self.start = int(self.bytes.ctypes.data)
        for index, offset in self.offsets.items():
            content = object_file.sections[index].content
            if content is not None:
                self.bytes[offset : offset + content.size] = content
        self.addresses = self._symbol_addresses()

    def _external_symbols(self) -> list[int]:
        used = np.zeros(len(self.file.symbols), np.bool_)
        for table in self.file.relocations:
            used[table.symbol] = True
        used[:1] = False  # means "no symbol"
        return np.flatnonzero(used & (self.file.symbols.section == 0)).tolist()

    def _lay_out(self) -> None:
        """Lay out the sections part by part: sets `offsets` by section, `bounds` of the parts, `stubs` and `got`."""
        parts: list[list[int]] = [[], [], []]
        for index, section in self.file.sections.items():
            parts[_part(section)].append(index)
        self.offsets: dict[int, int] = {}
        self.bounds = [0]
        end = self._place(parts[_CODE], 0)
        self.stubs = _align(end, 16)
        self.bounds.append(_align(self.stubs + len(self.external) * self.file.architecture.stub_bytes, mmap.PAGESIZE))
        end = self._place(parts[_CONSTANTS], self.bounds[-1])
        self.got = _align(end, 16)
        self.bounds.append(_align(self.got + 8 * self.global_symbols.size, mmap.PAGESIZE))
        self.bounds.append(_align(self._place(parts[_DATA], self.bounds[-1]), mmap.PAGESIZE))

    def _place(self, sections: list[int], end: int) -> int:
        for index in sections:
            section = self.file.sections[index]
            if section.align > mmap.PAGESIZE:
                raise LinkError(f"section {section.name!r} requires alignment {section.align}, more than a page")
            self.offsets[index] = _align(end, section.align)
            end = self.offsets[index] + section.size
        return end

    def _symbol_addresses(self) -> Words:
        """The address of each symbol; 0 for external symbols and symbols in sections that are not loaded."""
        symbols = self.file.symbols
        bases = np.zeros(
            max((int(symbols.section.max()), *self.offsets)) + 2, np.int64
        )  # the last element is for absolute symbols, whose section is -1
        for index, offset in self.offsets.items():
            bases[index] = self.start + offset
        self.is_known = (bases[symbols.section] != 0) | (symbols.section <= 0)
        return np.where(self.is_known, bases[symbols.section] + symbols.value, 0)

    def link(self, resolve: Resolve) -> None:
        """Resolve external symbols, fill the GOT, write the stubs and apply every relocation."""
        self._resolve_external(resolve)
        slots = self._fill_got()
        targets = {Refers.SYMBOL: self.addresses, Refers.GOT: slots, Refers.CALL: self._write_stubs(slots)}
        for table in self.file.relocations:
            for type in sorted(set(table.type.tolist())):  # np.unique would import numpy.ma, 10 ms
                if type:  # 0 is "none" on both architectures
                    self._relocate(table, table.type == type, self._relocation(type), targets)

    def _resolve_external(self, resolve: Resolve) -> None:
        symbols = self.file.symbols
        unknown: list[str] = []
        for index in self.external:
            self.addresses[index] = address = resolve(symbols.name(index))
            if not address and not symbols.is_weak[index]:
                unknown.append(symbols.name(index))
        if unknown:
            raise LinkError(f"the object calls {', '.join(unknown)}, which nothing provides")

    def _fill_got(self) -> Words:
        """Fill the GOT. Returns the address of each symbol's slot; 0 for local symbols, which are always within reach
        and have none."""
        chosen = self.global_symbols
        slots = np.zeros_like(self.addresses)
        slots[chosen] = self.start + self.got + 8 * np.arange(chosen.size)
        self.bytes[self.got : self.got + 8 * chosen.size].view("<i8")[:] = self.addresses[chosen]
        return slots

    def _write_stubs(self, slots: Words) -> Words:
        """Write the stubs. Returns the target of calls of each symbol: the symbol itself, or a stub within reach if it
        is external."""
        calls = self.addresses.copy()
        architecture = self.file.architecture
        for position, index in enumerate(self.external):
            stub = self.stubs + position * architecture.stub_bytes
            calls[index] = self.start + stub
            code = architecture.stub(int(slots[index] - calls[index]))
            self.bytes[stub : stub + len(code)] = np.frombuffer(code, np.uint8)
        return calls

    def _relocation(self, type: int) -> Relocation:
        try:
            return self.file.architecture.relocations[type]
        except KeyError:
            raise LinkError(f"unknown {self.file.architecture.name} relocation type {type}") from None

    def _relocate(
        self, table: Relocations, chosen: npt.NDArray[np.bool_], relocation: Relocation, targets: dict[Refers, Words]
    ) -> None:
        section = self.file.sections[table.section]
        offset, symbol = table.offset[chosen], table.symbol[chosen]
        self._check(section, offset, symbol, relocation)
        place = offset + self.offsets[table.section]
        value = targets[relocation.refers][symbol] + table.addend[chosen]
        where = place[:, None] + np.arange(relocation.width)
        dtype = _FIELDS[relocation.width]
        old = self.bytes[where].view(dtype)[:, 0].astype(np.int64)
        try:
            new = relocation.encode(old, place + self.start, value)
        except RelocationError as error:
            raise LinkError(f"{relocation.name} in section {section.name!r}: {error}") from None
        self.bytes[where] = new.astype(dtype)[:, None].view(np.uint8)

    def _check(self, section: Section, offset: Words, symbol: Words, relocation: Relocation) -> None:
        if int(offset.max()) + relocation.width > section.size:
            raise LinkError(f"{relocation.name} is outside its section {section.name!r}")
        missing = symbol[~self.is_known[symbol]]
        if missing.size:
            name = self.file.symbols.name(int(missing[0]))
            raise LinkError(f"{relocation.name} in section {section.name!r} refers to {name!r}, which is not loaded")

    def protect(self) -> None:
        """Make code readable and executable, constants readable, data readable and writable."""
        for part, protection in enumerate(_PROTECTIONS):
            begin, end = self.bounds[part], self.bounds[part + 1]
            if end > begin and _libc().mprotect(self.start + begin, end - begin, protection):
                raise OSError(ctypes.get_errno(), "the system refuses to make compiled code executable (mprotect)")

    def exported(self) -> dict[str, int]:
        """Addresses of the symbols that are not local to the object."""
        symbols = self.file.symbols
        return {symbols.name(i): int(self.addresses[i]) for i in self.global_symbols.tolist() if symbols.section[i] > 0}


def resolve_libc(name: str) -> int:
    """The address of a function of the C library, its math library or its thread library; 0 for any other name."""
    for library in _libraries():
        try:
            return ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0
        except AttributeError:
            continue
    return 0


@functools.cache
def _libraries() -> tuple[ctypes.CDLL, ...]:
    """The C libraries that exist: since glibc 2.34 libc includes the thread library."""
    libraries: list[ctypes.CDLL] = []
    for name in _LIBRARIES:
        try:
            libraries.append(ctypes.CDLL(name))
        except OSError:
            continue
    return tuple(libraries)


@functools.cache
def _libc() -> ctypes.CDLL:
    library = ctypes.CDLL(None, use_errno=True)
    library.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return library


def _part(section: Section) -> int:
    if section.is_code:
        return _CODE
    return _DATA if section.is_data else _CONSTANTS


def _align(offset: int, alignment: int) -> int:
    return -(-offset // alignment) * alignment
