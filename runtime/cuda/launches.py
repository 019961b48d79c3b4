"""Runs lists of launches on a GPU: the first run launches kernels one by one, later ones replay a CUDA graph.

A launch takes its parameters from the words of its list, which stay at one place. The driver reads them when a kernel
is launched, and when a node of a graph is made or changed. A graph has one node for each launch, in a chain: with the
edges of the program alone, steps of networks took longer (docs/performance-notes.md). In a run that has other words
than the run before, such as addresses of new results, the nodes of these words are changed in place. Native code does
both (`native.py`).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...codegen.records import COPY, FILL
from . import native as native_code
from .native import functions, new_list

if TYPE_CHECKING:
    from ..launch_list import BoundLaunch, LaunchList
    from .device import CudaDevice

_FEWEST = 3
"""The fewest launches that are replayed as a graph: starting a graph takes about as long as one launch."""

_DEVICE_MEMORY = "CU_MEMORYTYPE_DEVICE"


class CudaKernel(NamedTuple):
    """A loaded kernel with this many parameters. `module` keeps it loaded. `counters`: see `KernelCode`."""

    name: str
    function: Any
    threads: int
    shared: int
    parameters: int
    module: object
    counters: bool = False


class Launches:
    """The launches of one list on one stream. It belongs to one run at a time, as the list does."""

    def __init__(self, device: CudaDevice, stream: Any, launches: LaunchList) -> None:
        self._device, self._stream, self._launch_kernel = device, stream, device.driver.cuLaunchKernel
        self._launches, self._program = launches.launches, launches.program.name
        self.words = np.frombuffer(launches.words, np.int64)
        self._null = ctypes.c_int64(0)  # the parameters that Triton adds: memory that no kernel of ours uses
        counted = any(isinstance(launch.kernel, CudaKernel) and launch.kernel.counters for launch in self._launches)
        self._counters = ctypes.c_int64(device.counters if counted else 0)
        self._pointers = [self._parameters(launch) for launch in self._launches]
        self.native, self.native_launches = new_list(len(self._launches))
        self._fill_native()
        self._start, self._replay = functions()
        self._address = ctypes.addressof(self.native)
        self._has_run = False
        self._graph: _Graph | None = None

    def _parameters(self, launch: BoundLaunch) -> Any:
        """The addresses of the parameters of a kernel; a word holds each of them. None for copies and fills."""
        if isinstance(launch.kernel, str):
            return None
        first = _address(self.words) + 8 * launch.first
        own = launch.end - launch.first
        added = [ctypes.addressof(self._null)] * (launch.kernel.parameters - own)
        if launch.kernel.counters:
            added[0] = ctypes.addressof(self._counters)
        return (ctypes.c_void_p * launch.kernel.parameters)(*(first + 8 * i for i in range(own)), *added)

    def _fill_native(self) -> None:
        """Describe the launches to the native code. A launch of kind 0 is a kernel."""
        native, device = self.native, self._device
        native.driver, native.stream = ctypes.addressof(device.functions), int(self._stream)
        native.context, native.words, native.launches = int(device.context), _address(self.words), len(self._launches)
        for native_launch, (launch, pointers) in zip(self.native_launches, self.steps(), strict=True):
            native_launch.size, native_launch.first, native_launch.end = launch.size, launch.first, launch.end
            kernel = launch.kernel
            if pointers is None:
                native_launch.kind = {COPY: native_code.COPY, FILL: native_code.FILL}[kernel]
            else:
                native_launch.function, native_launch.threads = int(kernel.function), kernel.threads
                native_launch.shared, native_launch.parameters = kernel.shared, ctypes.addressof(pointers)

    def run(self) -> None:
        """Start all launches, on the words of this moment."""
        if self._graph is None and self._has_run and len(self._launches) >= _FEWEST:
            self._graph = _Graph(self._device, self)
        self._has_run = True
        result = self._start(self._address) if self._graph is None else self._replay(self._address)
        if result:
            number = (result >> 32) - 1
            name = self.name_of(self._launches[number]) if number < len(self._launches) else self._program
            self._device.check((result & 0xFFFFFFFF,), name)

    def run_one_by_one(self, mark: Callable[[int], object]) -> None:
        """Start all launches without a graph; `mark` is called with 0 before the first one, and after each with its
        number from 1 on."""
        mark(0)
        for number, (launch, pointers) in enumerate(self.steps(), 1):
            result = self._move(launch) if pointers is None else self._launch(launch, ctypes.addressof(pointers))
            self._device.check(result, self.name_of(launch))
            mark(number)

    def _launch(self, launch: BoundLaunch, parameters: int) -> tuple[Any, ...]:
        kernel, size = launch.kernel, launch.size
        block = kernel.threads, 1, 1, kernel.shared
        return self._launch_kernel(kernel.function, size, 1, 1, *block, self._stream, parameters, 0)

    def _move(self, launch: BoundLaunch) -> tuple[Any, ...]:
        """Start a copy or a fill."""
        driver, size = self._device.driver, launch.size
        if launch.kernel == COPY:
            target, source = self.arguments(launch)
            return driver.cuMemcpyDtoDAsync(target, source, size, self._stream)
        assert launch.kernel == FILL
        return driver.cuMemsetD8Async(*self.arguments(launch), 0, size, self._stream)

    def arguments(self, launch: BoundLaunch) -> list[int]:
        """The words of a launch."""
        return self.words[launch.first : launch.end].tolist()

    def name_of(self, launch: BoundLaunch) -> str:
        """A launch in messages."""
        kernel = launch.kernel
        what = f"kernel {kernel.name}" if isinstance(kernel, CudaKernel) else f"{kernel} of {launch.size:,} bytes"
        return f"{what} of {self._program}"

    def steps(self) -> list[tuple[BoundLaunch, Any]]:
        """The launches with the addresses of their parameters."""
        return list(zip(self._launches, self._pointers, strict=True))


class _Graph:
    """An executable graph of the launches, which the native list has from then on. It does not run again after a run
    that failed, as the list does not: some nodes could have other words."""

    def __init__(self, device: CudaDevice, launches: Launches) -> None:
        self._device, self._launches = device, launches
        self._nodes: list[Any] = []
        self._parameters: list[Any] = []
        graph = device.call("cuGraphCreate", 0)
        try:
            for launch, pointers in launches.steps():
                self._nodes.append(self._add(graph, launch, pointers))
            self._executable = device.call("cuGraphInstantiate", graph, 0)
        except BaseException:
            device.call("cuGraphDestroy", graph)
            raise
        self._graph = graph
        self._seen = launches.words.copy()
        launches.native.executable, launches.native.seen = int(self._executable), _address(self._seen)
        for native, node, parameters in zip(launches.native_launches, self._nodes, self._parameters, strict=True):
            native.node, native.node_parameters = int(node), int(parameters.getPtr())

    def __del__(self) -> None:
        if hasattr(self, "_graph"):
            unused = self._device.unused
            unused += [("cuGraphExecDestroy", self._executable), ("cuGraphDestroy", self._graph)]

    def _add(self, graph: Any, launch: BoundLaunch, pointers: Any) -> Any:
        """A node for a launch, after the last one."""
        before, context = self._nodes[-1:], self._device.context
        place = graph, before, len(before)
        if pointers is not None:
            self._parameters.append(self._kernel(launch, pointers))
            return self._device.call("cuGraphAddKernelNode", *place, self._parameters[-1])
        if launch.kernel == COPY:
            self._parameters.append(self._copy(launch))
            return self._device.call("cuGraphAddMemcpyNode", *place, self._parameters[-1], context)
        assert launch.kernel == FILL
        self._parameters.append(self._fill(launch))
        return self._device.call("cuGraphAddMemsetNode", *place, self._parameters[-1], context)

    def _kernel(self, launch: BoundLaunch, pointers: Any) -> Any:
        kernel, parameters = launch.kernel, self._device.driver.CUDA_KERNEL_NODE_PARAMS()
        parameters.func = kernel.function
        parameters.gridDimX, parameters.gridDimY, parameters.gridDimZ = launch.size, 1, 1
        parameters.blockDimX, parameters.blockDimY, parameters.blockDimZ = kernel.threads, 1, 1
        parameters.sharedMemBytes = kernel.shared
        parameters.kernelParams = ctypes.addressof(pointers)
        return parameters

    def _copy(self, launch: BoundLaunch) -> Any:
        driver = self._device.driver
        parameters, memory = driver.CUDA_MEMCPY3D(), getattr(driver.CUmemorytype, _DEVICE_MEMORY)
        target, source = self._launches.arguments(launch)
        parameters.dstMemoryType = parameters.srcMemoryType = memory
        parameters.dstDevice, parameters.srcDevice = driver.CUdeviceptr(target), driver.CUdeviceptr(source)
        parameters.WidthInBytes, parameters.Height, parameters.Depth = launch.size, 1, 1
        return parameters

    def _fill(self, launch: BoundLaunch) -> Any:
        driver = self._device.driver
        parameters = driver.CUDA_MEMSET_NODE_PARAMS()
        (target,) = self._launches.arguments(launch)
        parameters.dst = driver.CUdeviceptr(target)
        parameters.value, parameters.elementSize = 0, 1
        parameters.width, parameters.height, parameters.pitch = launch.size, 1, 0
        return parameters


def _address(words: np.ndarray[Any, Any]) -> int:
    return words.__array_interface__["data"][0]
