"""Simulated GPUs for tests: their memory is separate from the host's, and launches execute Triton's MLIR with NumPy.

Addresses belong to a separate address space with gaps between blocks, and new blocks contain garbage. An access outside
of a pointer's block raises OutOfBounds. An access to an address that is not allocated raises BadAddress, and so does an
operand without the alignment that the kernel was compiled for. Work is asynchronous (`simulated_stream.py`), so these
errors are raised when the host waits for it.
"""

from __future__ import annotations

import bisect
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
from mxforge.codegen.records import COPY, FILL
from mxforge.codegen.triton.kernel_code import KernelCode
from mxforge.codegen.triton.target import GpuTarget
from mxforge.ir.locks import ForkSafeLock
from mxforge.runtime.device import DeviceAddress
from mxforge.runtime.errors import out_of_memory
from mxforge.runtime.launch_list import BoundLaunch
from mxforge.runtime.storage import DeviceStorage, Storage
from mxforge.runtime.streamed_device import StreamedDevice

from .simulated_stream import SimulatedStream
from .ttir import TtirFunction

COUNT = 2
TARGET = GpuTarget(90, 227 << 10, 4, form="ttir")
_START = 0x7F00_0000_0000
_ALIGNMENT = 256
_GAP = 4096
_RUBBISH = 0xA5
_CAPACITY = 1 << 30
_MOST_FREED = 32 << 20  # bytes that were freed, but not yet in the order of the stream


class BadAddress(Exception):
    """An address that is not allocated or not aligned."""


class SimulatedGpu(StreamedDevice):
    """One device. `launched` counts the launches of kernels by name."""

    stream: SimulatedStream

    def __init__(self, number: int) -> None:
        super().__init__(f"gpu({number})", SimulatedStream(self))
        self.blocks: dict[int, np.ndarray[Any, Any]] = {}
        self.starts: list[int] = []  # of the blocks, in order
        self.used = self.freed = 0
        self.top = _START
        self.launched: dict[str, int] = {}
        self._pinned: set[int] = set()
        self._lock = ForkSafeLock()

    @property
    def target(self) -> GpuTarget:
        return TARGET

    @property
    def lists(self) -> int:
        """How many lists of launches were started."""
        return self.stream.lists

    # -- memory

    def allocate(self, nbytes: int) -> Storage:
        if self.freed > _MOST_FREED or self.used + nbytes > _CAPACITY:
            self.synchronise()
        if self.used + nbytes > _CAPACITY:
            raise out_of_memory(f"cannot allocate {nbytes:,} bytes on {self.name}")
        with self._lock:
            start, self.used = self.top, self.used + nbytes
            self.top += -(-nbytes // _ALIGNMENT) * _ALIGNMENT + _GAP
            self.blocks[start] = np.full(nbytes, _RUBBISH, np.uint8)
            self.starts.append(start)
        return DeviceStorage(self, DeviceAddress(self.name, start), nbytes, self._free)

    def _free(self, address: DeviceAddress) -> None:
        self.freed += self.blocks[address.value].nbytes
        self.stream.free(address.value)

    def release(self, start: int) -> None:
        """Free a block, now."""
        with self._lock:
            block = self.blocks.pop(start)
            self.used -= block.nbytes
            self.freed -= block.nbytes
            del self.starts[bisect.bisect_left(self.starts, start)]

    def pinned(self, nbytes: int) -> np.ndarray[Any, Any]:
        block = np.full(nbytes, _RUBBISH, np.uint8)
        self._pinned.add(block.__array_interface__["data"][0])
        return block

    def require_pinned(self, part: np.ndarray[Any, Any]) -> None:
        """BadAddress unless the bytes are the first of a block of pinned memory."""
        if part.__array_interface__["data"][0] not in self._pinned:
            raise BadAddress("memory of the host that is not pinned")

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

    def memory_info(self) -> tuple[int, int]:
        return _CAPACITY - self.used + self.freed, _CAPACITY

    # -- programs

    def load_code(self, code: bytes) -> Mapping[str, Any]:
        kernel = KernelCode.from_bytes(code)
        assert kernel.form == "ttir"
        return {kernel.name: (kernel, TtirFunction(kernel.code.decode()))}

    def launch(self, launch: BoundLaunch, arguments: list[int]) -> None:
        """Do a launch."""
        kernel, size = launch.kernel, launch.size
        if kernel == COPY:
            self.store(arguments[0], self.bytes_at(arguments[1], size).copy())
        elif kernel == FILL:
            self.bytes_at(arguments[0], size)[:] = 0
        else:
            code, function = kernel
            assert len(arguments) == len(code.parameters), f"{len(arguments)} arguments for {code.parameters}"
            self.launched[code.name] = self.launched.get(code.name, 0) + 1
            function.run(size, [self._argument(function, i, value) for i, value in enumerate(arguments)])

    def _argument(self, function: TtirFunction, position: int, value: int) -> Any:
        argument = function.arguments[position]
        promised = int(argument.divisibility or 1)
        if value % promised:
            raise BadAddress(f"{argument.name} is {value:#x}, not a multiple of {promised}")
        return function.pointer(position, *self.block(value)) if argument.is_pointer else value


def device_count() -> int:
    return COUNT


@cache
def open_device(number: int) -> SimulatedGpu:
    return SimulatedGpu(number)
