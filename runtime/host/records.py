"""The records of a program in the host's memory, which the thread pool runs (`codegen/records.py`)."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Mapping

from ...codegen.records import RECORD_WORDS, Layout

WORD = 8


class Records:
    """One block of the words of a layout. `words` is the block, `address` where it starts."""

    def __init__(self, layout: Layout, addresses: Mapping[str, int]) -> None:
        """`addresses` are those of all symbols. KeyError for one that is missing."""
        self._block = (ctypes.c_int64 * len(layout.words)).from_buffer_copy(layout.words)
        self.address = ctypes.addressof(self._block)
        self.words = memoryview(self._block).cast("B").cast("q")
        for word, symbol in layout.kernels:
            self.words[word] = addresses[symbol]
        for word, target in layout.links:
            self.words[word] = self.word(target)

    def word(self, number: int) -> int:
        """The address of a word."""
        return self.address + number * WORD

    def record(self, number: int) -> int:
        """The address of a record."""
        return self.word(number * RECORD_WORDS)

    def place(self, words: Iterable[tuple[int, int]], address: int) -> None:
        """Write addresses in a block of memory that begins at `address`: `words` are as in `Layout.memory`."""
        for word, offset in words:
            self.words[word] = address + offset
