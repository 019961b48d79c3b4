"""The constants of a library: texts, arrays of numbers, and structures with addresses, which C code reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ...codegen.elf.relocations import Architecture
from ...codegen.elf.writer import CONSTANTS, RELOCATED, ObjectWriter


class Reference(NamedTuple):
    """An address: of a symbol, or of what a method of `ObjectData` returned, plus bytes."""

    symbol: str
    offset: int = 0


Word = int | Reference


class ObjectData:
    """Collects constants for an object. Equal ones are stored once."""

    def __init__(self, architecture: Architecture) -> None:
        self._writer = ObjectWriter(architecture)
        self._known: dict[tuple[str, bytes], Reference] = {}

    def text(self, text: str) -> Reference:
        """A text in UTF-8 that ends with 0."""
        return self._constant(text.encode() + b"\0")

    def bytes(self, content: bytes) -> Reference:
        """Bytes at a multiple of 64."""
        return self._constant(content)

    def numbers(self, values: Sequence[int]) -> Reference:
        """An array of numbers of 4 bytes."""
        return self._constant(np.array(values, "<u4").tobytes())

    def words(self, values: Sequence[Word]) -> Reference:
        """An array, or structures, of words of 8 bytes."""
        content = np.array([0 if isinstance(v, Reference) else v for v in values], "<i8").tobytes()
        if not any(isinstance(v, Reference) for v in values):
            return self._constant(content)
        offset = self._writer.add(RELOCATED, content)
        for i, value in enumerate(values):
            if isinstance(value, Reference):
                address = self._writer.architecture.address
                self._writer.refer(RELOCATED, offset + 8 * i, address, value.symbol, value.offset)
        return Reference(RELOCATED, offset)

    def _constant(self, content: bytes) -> Reference:
        key = CONSTANTS, content
        if key not in self._known:
            self._known[key] = Reference(CONSTANTS, self._writer.add(CONSTANTS, content))
        return self._known[key]

    def object(self, name: str, root: Reference) -> bytes:
        """The object, which defines the symbol `name` for `root`."""
        self._writer.define(name, root.symbol, root.offset)
        return self._writer.finish()
