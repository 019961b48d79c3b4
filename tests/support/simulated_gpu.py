"""Simulated GPUs for tests: their memory is separate from the host's, and launches execute Triton's MLIR with NumPy.

Addresses belong to a separate address space (`simulated_memory.py`). An access outside of a pointer's block raises
OutOfBounds, one to an address that is not allocated BadAddress. Work is asynchronous (`simulated_stream.py`), so these
errors are raised when the host waits for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
from mxforge.codegen.records import COPY, FILL
from mxforge.codegen.triton.kernel_code import MOST_COUNTERS, KernelCode
from mxforge.codegen.triton.target import GpuTarget
from mxforge.runtime.device import DeviceAddress
from mxforge.runtime.errors import out_of_memory
from mxforge.runtime.launch_list import BoundLaunch
from mxforge.runtime.storage import DeviceStorage, Storage
from mxforge.runtime.streamed_device import StreamedDevice

from .simulated_memory import BadAddress, SimulatedMemory, rubbish
from .simulated_stream import SimulatedStream
from .ttir import TtirFunction

COUNT = 2
TARGET = GpuTarget(90, 227 << 10, 4, form="ttir")
_CAPACITY = 1 << 30
_MOST_FREED = 32 << 20  # bytes that were freed, but not yet in the order of the stream


class SimulatedGpu(StreamedDevice):
    """One device. `launched` counts the launches of kernels by name."""

    stream: SimulatedStream

    def __init__(self, number: int) -> None:
        super().__init__(f"gpu({number})", SimulatedStream(self))
        self.memory = SimulatedMemory()
        self.freed = 0
        self.launched: dict[str, int] = {}
        self._pinned: set[int] = set()
        self._counters = self.allocate_zeroed(4 * MOST_COUNTERS)

    @property
    def target(self) -> GpuTarget:
        return TARGET

    @property
    def used(self) -> int:
        """The bytes that are allocated."""
        return self.memory.used

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
        return DeviceStorage(self, DeviceAddress(self.name, self.memory.take(nbytes)), nbytes, self._free)

    def _free(self, address: DeviceAddress) -> None:
        self.freed += self.memory.blocks[address.value].nbytes
        self.stream.free(address.value)

    def release(self, start: int) -> None:
        """Free a block, now."""
        self.freed -= self.memory.release(start)

    def pinned(self, nbytes: int) -> np.ndarray[Any, Any]:
        block = rubbish(nbytes)
        self._pinned.add(block.__array_interface__["data"][0])
        return block

    def require_pinned(self, part: np.ndarray[Any, Any]) -> None:
        """BadAddress unless the bytes are the first of a block of pinned memory."""
        if part.__array_interface__["data"][0] not in self._pinned:
            raise BadAddress("memory of the host that is not pinned")

    def release_cached(self) -> None:
        """Nothing to do: no memory is kept."""

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
            self.memory.store(arguments[0], self.memory.bytes_at(arguments[1], size).copy())
        elif kernel == FILL:
            self.memory.bytes_at(arguments[0], size)[:] = 0
        else:
            code, function = kernel
            if code.counters:
                arguments = [*arguments, self._counters.address.value]
            assert len(arguments) == len(code.parameters), f"{len(arguments)} arguments for {code.parameters}"
            self.launched[code.name] = self.launched.get(code.name, 0) + 1
            self.memory.launch(function, size, arguments)


def device_count() -> int:
    return COUNT


@cache
def open_device(number: int) -> SimulatedGpu:
    return SimulatedGpu(number)
