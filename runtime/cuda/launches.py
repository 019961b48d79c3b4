"""Runs lists of launches on a GPU: the first run launches kernels one by one, later ones replay a CUDA graph.

A launch takes its parameters from the words of its list, which stay at one place. The driver reads them when a kernel
is launched, and when a node of a graph is made or changed. A graph has one node for each launch, in a chain: with the
edges of the program alone, steps of networks took longer (docs/performance-notes.md). In a run
that has other words than the run before, such as addresses of new results, the nodes of these words are changed in
place.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...codegen.records import COPY, FILL

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
        self._words = np.frombuffer(launches.words, np.int64)
        self._begin = min((launch.first for launch in self._launches), default=0)
        self._end = max((launch.end for launch in self._launches), default=0)
        self._null = ctypes.c_int64(0)  # the parameters that Triton adds: memory that no kernel of ours uses
        counted = any(isinstance(launch.kernel, CudaKernel) and launch.kernel.counters for launch in self._launches)
        self._counters = ctypes.c_int64(device.counters if counted else 0)
        self._pointers = [self._parameters(launch) for launch in self._launches]
        self._calls = [self._call(launch, at) for launch, at in self.steps()]
        self._has_run = False
        self._graph: _Graph | None = None

    def _parameters(self, launch: BoundLaunch) -> Any:
        """The addresses of the parameters of a kernel; a word holds each of them. None for copies and fills."""
        if isinstance(launch.kernel, str):
            return None
        first = self._words.__array_interface__["data"][0] + 8 * launch.first
        own = launch.end - launch.first
        added = [ctypes.addressof(self._null)] * (launch.kernel.parameters - own)
        if launch.kernel.counters:
            added[0] = ctypes.addressof(self._counters)
        return (ctypes.c_void_p * launch.kernel.parameters)(*(first + 8 * i for i in range(own)), *added)

    def run(self) -> None:
        """Start all launches, on the words of this moment."""
        if self._graph is not None:
            self._graph.run()
        elif self._has_run and len(self._launches) >= _FEWEST:
            self._graph = _Graph(self._device, self)
            self._graph.run()
        else:
            self._has_run = True
            for launch, call in zip(self._launches, self._calls, strict=True):
                result = self._move(launch) if call is None else self._launch_kernel(*call)
                if result[0]:
                    self._device.check(result, self.name_of(launch))

    def run_one_by_one(self, mark: Callable[[int], object]) -> None:
        """Start all launches without a graph; `mark` is called with 0 before the first one, and after each with its
        number from 1 on."""
        mark(0)
        for number, (launch, call) in enumerate(zip(self._launches, self._calls, strict=True), 1):
            result = self._move(launch) if call is None else self._launch_kernel(*call)
            self._device.check(result, self.name_of(launch))
            mark(number)

    def _call(self, launch: BoundLaunch, pointers: Any) -> tuple[Any, ...] | None:
        """The arguments of `cuLaunchKernel`; None for copies and fills."""
        if pointers is None:
            return None
        kernel, where = launch.kernel, ctypes.addressof(pointers)
        return (kernel.function, launch.size, 1, 1, kernel.threads, 1, 1, kernel.shared, self._stream, where, 0)

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
        return self._words[launch.first : launch.end].tolist()

    def name_of(self, launch: BoundLaunch) -> str:
        """A launch in messages."""
        kernel = launch.kernel
        what = f"kernel {kernel.name}" if isinstance(kernel, CudaKernel) else f"{kernel} of {launch.size:,} bytes"
        return f"{what} of {self._program}"

    def current_words(self) -> np.ndarray[Any, Any]:
        """The words of all launches at this moment, and of what the program has between them."""
        return self._words[self._begin : self._end]

    def changed(self, before: bytes) -> list[int]:
        """The numbers of the launches whose words differ from those of `before`."""
        changed = np.concatenate([[0], np.cumsum(self.current_words() != np.frombuffer(before, np.int64))])
        ends = ((launch.first - self._begin, launch.end - self._begin) for launch in self._launches)
        return [number for number, (first, end) in enumerate(ends) if changed[first] != changed[end]]

    def steps(self) -> list[tuple[BoundLaunch, Any]]:
        """The launches with the addresses of their parameters."""
        return list(zip(self._launches, self._pointers, strict=True))

    def replay(self, executable: Any) -> None:
        """Start a graph."""
        self._device.check(self._device.driver.cuGraphLaunch(executable, self._stream), self._program)


class _Graph:
    """An executable graph of the launches, for the words `_made_for`. It does not run again after a run that failed, as
    the list does not: some nodes could have other words."""

    def __init__(self, device: CudaDevice, launches: Launches) -> None:
        self._device, self._launches = device, launches
        self._steps = launches.steps()
        self._kernels = [None if at is None else self._kernel(launch, at) for launch, at in self._steps]
        self._nodes: list[Any] = []
        graph = device.call("cuGraphCreate", 0)
        try:
            for number in range(len(self._steps)):
                self._nodes.append(self._add(graph, number))
            self._executable = device.call("cuGraphInstantiate", graph, 0)
        except BaseException:
            device.call("cuGraphDestroy", graph)
            raise
        self._graph = graph
        self._made_for = launches.current_words().tobytes()

    def __del__(self) -> None:
        if hasattr(self, "_graph"):
            unused = self._device.unused
            unused += [("cuGraphExecDestroy", self._executable), ("cuGraphDestroy", self._graph)]

    def run(self) -> None:
        """Start the graph on the words of this moment."""
        words = self._launches.current_words().tobytes()
        if words != self._made_for:
            for number in self._launches.changed(self._made_for):
                self._change(number)
            self._made_for = words
        self._launches.replay(self._executable)

    def _add(self, graph: Any, number: int) -> Any:
        """A node for a launch, after the last one."""
        before, context = self._nodes[-1:], self._device.context
        place, kernel, launch = (graph, before, len(before)), self._kernels[number], self._steps[number][0]
        if kernel is not None:
            return self._device.call("cuGraphAddKernelNode", *place, kernel)
        if launch.kernel == COPY:
            return self._device.call("cuGraphAddMemcpyNode", *place, self._copy(launch), context)
        assert launch.kernel == FILL
        return self._device.call("cuGraphAddMemsetNode", *place, self._fill(launch), context)

    def _change(self, number: int) -> None:
        """Give the node of a launch the parameters in the words."""
        place, context = (self._executable, self._nodes[number]), self._device.context
        kernel, launch = self._kernels[number], self._steps[number][0]
        if kernel is not None:
            self._device.call("cuGraphExecKernelNodeSetParams", *place, kernel)
        elif launch.kernel == COPY:
            self._device.call("cuGraphExecMemcpyNodeSetParams", *place, self._copy(launch), context)
        else:
            self._device.call("cuGraphExecMemsetNodeSetParams", *place, self._fill(launch), context)

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
