"""Machine code of single functions, without an object around it: taken from objects, and put into one.

The code of a kernel is position independent and complete: its instructions, then the functions that they call and the
constants that they read. The first byte is the entry, and the start needs an alignment of `ALIGNMENT` bytes. So kernels
can be stored one by one, and any set of them is an object without relocations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ...ir.lazy_dataclass import dataclass
from .reader import ObjectFile, Relocations, read_object
from .relocations import Architecture, RelocationError, Words
from .writer import CONSTANTS, RELOCATED, TEXT, ObjectWriter

ALIGNMENT = 64
"""Bytes: a cache line, and the largest constant."""
_FUNCTION_ALIGNMENT = 16


def split_kernels(data: bytes) -> dict[str, bytes | None]:
    """The code of each global function of an object, with the global functions that it calls; None for a function that
    refers to anything else but constants. Code for AArch64 finds constants by their distance instead of their page. A
    call of a local function leaves no trace in an object: there must be none. LinkError for a damaged object."""
    file = read_object(data)
    symbols = file.symbols
    codes: dict[str, bytes | None] = {}
    for index in np.flatnonzero(~symbols.is_local & (symbols.section > 0)).tolist():
        section = file.sections.get(int(symbols.section[index]))
        if section is not None and section.is_code:
            codes[symbols.name(index)] = _Extract(file, index).code()
    return codes


def function_names(data: bytes) -> list[str]:
    """The names of the functions that an object defines for others. LinkError for a damaged object."""
    symbols = read_object(data).symbols
    return [symbols.name(i) for i in np.flatnonzero(~symbols.is_local & (symbols.section > 0)).tolist()]


class _Referred(NamedTuple):
    """What a field refers to."""

    type: int
    symbol: int
    addend: int


class _Extract:
    """Takes one function out of an object."""

    def __init__(self, file: ObjectFile, symbol: int) -> None:
        self._file = file
        self._code = bytearray()
        self._constants: dict[bytes, int] = {}
        self._functions: dict[int, int] = {}  # the place of each
        self._waiting: list[int] = []  # functions whose fields are not relocated yet
        self._add_function(symbol)

    def code(self) -> bytes | None:
        while self._waiting:
            if not self._relocate_all(self._waiting.pop(0)):
                return None
        return bytes(self._code)

    def _add_function(self, symbol: int) -> int:
        """The place of a function, which is added if the code does not have it."""
        if symbol not in self._functions:
            symbols = self._file.symbols
            content = self._file.sections[int(symbols.section[symbol])].content
            assert content is not None, "a section of code has content"
            start = int(symbols.value[symbol])
            self._code.extend(bytes(-len(self._code) % _FUNCTION_ALIGNMENT))
            self._functions[symbol] = len(self._code)
            self._waiting.append(symbol)
            self._code.extend(content[start : start + int(symbols.size[symbol])].tobytes())
        return self._functions[symbol]

    def _relocate_all(self, symbol: int) -> bool:
        """Let the fields of a function refer to this code. False if they refer to something else."""
        symbols = self._file.symbols
        section, start = int(symbols.section[symbol]), int(symbols.value[symbol])
        end, moved = start + int(symbols.size[symbol]), self._functions[symbol] - start
        for table in self._file.relocations:
            if table.section == section:
                inside = np.flatnonzero((table.offset >= start) & (table.offset < end)).tolist()
                known = {_Referred(int(table.type[n]), int(table.symbol[n]), int(table.addend[n])) for n in inside}
                if not all(self._relocate(table, number, moved, known) for number in inside):
                    return False
        return True

    def _relocate(self, table: Relocations, number: int, moved: int, known: set[_Referred]) -> bool:
        """Let a field refer to a constant or a function after the code. False if it refers to something else. `known`
        is what the fields of the function refer to."""
        referred = _Referred(int(table.type[number]), int(table.symbol[number]), int(table.addend[number]))
        nearby = self._file.architecture.nearby.get(referred.type)
        if nearby is None or (nearby.with_type and referred._replace(type=nearby.with_type) not in known):
            return False
        target = self._target(referred.symbol)
        if target is None:
            return False
        width = self._file.architecture.relocations[referred.type].width
        field = int(table.offset[number]) + moved
        old = int.from_bytes(self._code[field : field + width], "little")
        try:
            value = int(nearby.encode(_word(old), _word(field), _word(target + referred.addend))[0])
        except RelocationError:
            return False
        self._code[field : field + width] = (value & ((1 << 8 * width) - 1)).to_bytes(width, "little")
        return True

    def _target(self, symbol: int) -> int | None:
        """The place of what a symbol names; None for a symbol outside of the object and of its constants."""
        symbols = self._file.symbols
        section = self._file.sections.get(int(symbols.section[symbol]))
        if section is not None and section.is_code:
            return None if symbols.is_local[symbol] else self._add_function(symbol)
        block = self._block(symbol)
        return None if block is None else self._place(*block[:2]) + block[2]

    def _block(self, symbol: int) -> tuple[bytes, int, int] | None:
        """Constants, their alignment, and the offset of a symbol in them: the constant that a label names if all
        constants of its section have one size, else the section. None for a symbol outside of constant sections."""
        symbols = self._file.symbols
        number, value = int(symbols.section[symbol]), int(symbols.value[symbol])
        section = self._file.sections.get(number)
        if section is None or section.content is None or section.is_code or section.is_data:
            return None
        if section.align > ALIGNMENT or any(table.section == number for table in self._file.relocations):
            return None
        if section.entry and symbols.name(symbol):
            return section.content[value : value + section.entry].tobytes(), section.entry, 0
        return section.content.tobytes(), section.align, value

    def _place(self, constants: bytes, align: int) -> int:
        """The offset of constants, which are added if the code does not have them."""
        if constants not in self._constants:
            self._code.extend(bytes(-len(self._code) % align))
            self._constants[constants] = len(self._code)
            self._code.extend(constants)
        return self._constants[constants]


def _word(value: int) -> Words:
    return np.array([value], np.int64)


@dataclass(frozen=True, slots=True)
class Thunk:
    """A function that calls `kernel` with its four arguments and, as the fifth, the address of a table of `numbers`:
    integers, names of functions, and names of constants. Without numbers it passes on all arguments as they are."""

    kernel: str
    numbers: tuple[int | str, ...]


def link_kernels(
    kernels: Mapping[str, bytes],
    thunks: Mapping[str, Thunk],
    constants: Mapping[str, bytes],
    architecture: Architecture,
) -> bytes:
    """An object that defines a function for each kernel and each thunk. A thunk without numbers is another name of its
    kernel. Functions that the object lacks are in others."""
    writer = ObjectWriter(architecture)
    places = {name: writer.add(CONSTANTS, content) for name, content in constants.items()}
    for name, code in kernels.items():
        writer.function(name, code)
    for name, thunk in thunks.items():
        if not thunk.numbers and thunk.kernel in kernels:
            writer.alias(name, thunk.kernel)
        else:
            _add_thunk(writer, name, thunk, places)
    return writer.finish()


def _add_thunk(writer: ObjectWriter, name: str, thunk: Thunk, constants: Mapping[str, int]) -> None:
    architecture = writer.architecture
    skipped = 0 if thunk.numbers else architecture.jump_start
    start = writer.function(name, architecture.thunk[skipped:]) - skipped
    if thunk.numbers:
        table = _add_numbers(writer, thunk.numbers, constants)
        for offset, type, addend in architecture.thunk_table:
            writer.refer(TEXT, start + offset, type, RELOCATED, table + addend)
    offset, type, addend = architecture.thunk_jump
    writer.refer(TEXT, start + offset, type, thunk.kernel, addend)


def _add_numbers(writer: ObjectWriter, numbers: Sequence[int | str], constants: Mapping[str, int]) -> int:
    words = [n if isinstance(n, int) else 0 for n in numbers]
    table = writer.add(RELOCATED, np.array(words, "<i8").tobytes())
    for k, name in enumerate(numbers):
        if isinstance(name, str):
            place = constants.get(name)
            symbol, addend = (name, 0) if place is None else (CONSTANTS, place)
            writer.refer(RELOCATED, table + 8 * k, writer.architecture.address, symbol, addend)
    return table
