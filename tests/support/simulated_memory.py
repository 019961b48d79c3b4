"""The memory of simulated GPUs: an address space of its own with gaps between blocks. New blocks contain garbage.

An access to an address that is not allocated raises BadAddress, and so does an operand without the alignment that the
kernel was compiled for.
"""

from __future__ import annotations

import bisect
from typing import Any

import numpy as np
from mxforge.ir.locks import ForkSafeLock

from .ttir import TtirFunction

_START = 0x7F00_0000_0000
_ALIGNMENT = 256
_GAP = 4096
_RUBBISH = 0xA5


class BadAddress(Exception):
    """An address that is not allocated or not aligned."""


class SimulatedMemory:
    """`used` counts the bytes of all blocks."""

    def __init__(self, start: int = _START) -> None:
        self.blocks: dict[int, np.ndarray[Any, Any]] = {}
        self.starts: list[int] = []  # of the blocks, in order
        self.top = start
        self.used = 0
        self._lock = ForkSafeLock()

    def take(self, nbytes: int) -> int:
        """The address of a new block."""
        with self._lock:
            start, self.used = self.top, self.used + nbytes
            self.top += -(-nbytes // _ALIGNMENT) * _ALIGNMENT + _GAP
            self.blocks[start] = rubbish(nbytes)
            self.starts.append(start)
        return start

    def release(self, start: int) -> int:
        """Free a block, now; returns its size."""
        with self._lock:
            block = self.blocks.pop(start)
            self.used -= block.nbytes
            del self.starts[bisect.bisect_left(self.starts, start)]
        return block.nbytes

    def block(self, address: int, nbytes: int = 0) -> tuple[np.ndarray[Any, Any], int]:
        """The block of an address, and the offset in it. BadAddress unless `nbytes` are allocated there."""
        with self._lock:
            place = bisect.bisect_right(self.starts, address) - 1
            start = self.starts[place] if place >= 0 else 0
            found = self.blocks.get(start)
        if found is None or address - start + nbytes > found.nbytes:
            raise BadAddress(f"{nbytes} bytes at {address:#x} are not allocated")
        return found, address - start

    def bytes_at(self, address: int, nbytes: int) -> np.ndarray[Any, Any]:
        """The bytes at an address."""
        block, offset = self.block(address, nbytes)
        return block[offset : offset + nbytes]

    def store(self, address: int, content: np.ndarray[Any, Any]) -> None:
        """Write bytes to an address."""
        self.bytes_at(address, content.size)[:] = content

    def launch(self, function: TtirFunction, size: int, arguments: list[int]) -> None:
        """Run a kernel on addresses of this memory and other integers."""
        function.run(size, [self._argument(function, i, value) for i, value in enumerate(arguments)])

    def _argument(self, function: TtirFunction, position: int, value: int) -> Any:
        argument = function.arguments[position]
        promised = int(argument.divisibility or 1)
        if value % promised:
            raise BadAddress(f"{argument.name} is {value:#x}, not a multiple of {promised}")
        return function.pointer(position, *self.block(value)) if argument.is_pointer else value


def rubbish(nbytes: int) -> np.ndarray[Any, Any]:
    """Bytes of arbitrary content."""
    return np.full(nbytes, _RUBBISH, np.uint8)
