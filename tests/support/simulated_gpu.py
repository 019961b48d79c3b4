"""Simulated GPUs for tests: their memory is separate from the host's, and launches execute Triton's MLIR with NumPy.

Addresses belong to a separate address space with gaps between blocks, and new blocks contain garbage. An access outside
of a pointer's block raises OutOfBounds. An access to an address that is not allocated raises BadAddress, and so does an
operand without the alignment that the kernel was compiled for.
"""

from __future__ import annotations

import bisect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from mxforge.codegen.records import COPY, FILL
from mxforge.codegen.triton.kernel_code import KernelCode
from mxforge.codegen.triton.target import GpuTarget
from mxforge.ir.program import Program
from mxforge.runtime.device import DeviceAddress
from mxforge.runtime.errors import out_of_memory
from mxforge.runtime.launch_list import LaunchList
from mxforge.runtime.launched_program import LaunchedProgram
from mxforge.runtime.prepared import PreparedPool
from mxforge.runtime.storage import DeviceStorage, Storage

from .ttir import TtirFunction

COUNT = 2
TARGET = GpuTarget(90, 227 << 10, 4, form="ttir")
_START = 0x7F00_0000_0000
_ALIGNMENT = 256
_GAP = 4096
_RUBBISH = 0xA5
_CAPACITY = 1 << 30


class BadAddress(Exception):
    """An address that is not allocated or not aligned."""


@dataclass(eq=False)
class SimulatedGpu:
    """One device; implements `Launcher`. `launched` counts the launches of kernels by name, `lists` calls of `run`."""

    number: int
    target: GpuTarget = TARGET
    blocks: dict[int, np.ndarray[Any, Any]] = field(default_factory=dict)
    starts: list[int] = field(default_factory=list)
    used: int = 0
    top: int = _START
    launched: dict[str, int] = field(default_factory=dict)
    lists: int = 0

    @property
    def name(self) -> str:
        return f"gpu({self.number})"

    # -- memory

    def allocate(self, nbytes: int) -> Storage:
        if self.used + nbytes > _CAPACITY:
            raise out_of_memory(f"cannot allocate {nbytes:,} bytes on {self.name}")
        start, self.used = self.top, self.used + nbytes
        self.top += -(-nbytes // _ALIGNMENT) * _ALIGNMENT + _GAP
        self.blocks[start] = np.full(nbytes, _RUBBISH, np.uint8)
        self.starts.append(start)  # in increasing order
        return DeviceStorage(self, DeviceAddress(self.name, start), nbytes, self.free)

    def allocate_zeroed(self, nbytes: int) -> Storage:
        buffer = self.allocate(nbytes)
        self.write(buffer.address, bytes(nbytes))
        return buffer

    def free(self, address: DeviceAddress) -> None:
        self.used -= self.blocks.pop(address.value).nbytes
        del self.starts[bisect.bisect_left(self.starts, address.value)]

    def block(self, address: DeviceAddress, nbytes: int = 0) -> tuple[np.ndarray[Any, Any], int]:
        """The block of an address, and the offset in it. BadAddress unless `nbytes` are allocated there."""
        if not isinstance(address, DeviceAddress) or address.device != self.name:
            raise BadAddress(f"{address} is not an address of {self.name}")
        place = bisect.bisect_right(self.starts, address.value) - 1
        start = self.starts[place] if place >= 0 else 0
        found = self.blocks.get(start)
        if found is None or address.value - start + nbytes > found.nbytes:
            raise BadAddress(f"{nbytes} bytes at {address} are not allocated")
        return found, address.value - start

    def _bytes(self, address: DeviceAddress, nbytes: int) -> np.ndarray[Any, Any]:
        block, offset = self.block(address, nbytes)
        return block[offset : offset + nbytes]

    def write(self, address: DeviceAddress, source: np.ndarray[Any, Any] | bytes) -> None:
        content = np.frombuffer(source, np.uint8) if isinstance(source, bytes) else source
        assert content.flags.c_contiguous
        self._bytes(address, content.nbytes)[:] = content.reshape(-1).view(np.uint8)

    def read(self, address: DeviceAddress, into: np.ndarray[Any, Any]) -> None:
        assert into.flags.c_contiguous
        into.reshape(-1).view(np.uint8)[:] = self._bytes(address, into.nbytes)

    def copy(self, target: DeviceAddress, source: DeviceAddress, nbytes: int) -> None:
        self._bytes(target, nbytes)[:] = self._bytes(source, nbytes).copy()

    def memory_info(self) -> tuple[int, int]:
        return _CAPACITY - self.used, _CAPACITY

    # -- programs

    def load(self, program: Program, prepared: PreparedPool | None = None) -> LaunchedProgram:
        return LaunchedProgram(program, self, prepared)

    def load_code(self, code: bytes) -> Mapping[str, Any]:
        kernel = KernelCode.from_bytes(code)
        assert kernel.form == "ttir"
        return {kernel.name: (kernel, TtirFunction(kernel.code.decode()))}

    def run(self, launches: LaunchList) -> None:
        self.lists += 1
        for kernel, size, first, end in launches.launches:
            arguments: list[int] = launches.words[first:end].tolist()
            if kernel == COPY:
                target, source = (DeviceAddress(self.name, value) for value in arguments)
                self.copy(target, source, size)
            elif kernel == FILL:
                self._bytes(DeviceAddress(self.name, arguments[0]), size)[:] = 0
            else:
                self._launch(kernel, size, arguments)

    def _launch(self, kernel: tuple[KernelCode, TtirFunction], size: int, arguments: Sequence[int]) -> None:
        code, function = kernel
        assert len(arguments) == len(code.parameters)
        self.launched[code.name] = self.launched.get(code.name, 0) + 1
        function.run(size, [self._argument(function, i, value) for i, value in enumerate(arguments)])

    def _argument(self, function: TtirFunction, position: int, value: int) -> Any:
        argument = function.arguments[position]
        promised = int(argument.divisibility or 1)
        if value % promised:
            raise BadAddress(f"{argument.name} is {value:#x}, not a multiple of {promised}")
        if not argument.is_pointer:
            return value
        return function.pointer(position, *self.block(DeviceAddress(self.name, value)))

    def synchronise(self) -> None:
        """Nothing to do: launches are finished when they return."""


def device_count() -> int:
    return COUNT


@cache
def open_device(number: int) -> SimulatedGpu:
    return SimulatedGpu(number)
