"""A CUDA driver for tests: the functions of `cuda.bindings.driver` that mxforge calls, on simulated memory.

    FakeCuda    the module; `errors` are codes that the next calls of a function return
    live()      what was made and not destroyed

Kernels are Triton's MLIR, executed with NumPy. Work of a stream is queued and done as late as possible: when the host
waits for it, or for an event after it. Wrong work is error 700 (an illegal address), after which every call returns it.
A call is refused in a thread whose current context is another, and in a forked child. A wrong handle, a double free, a
parameter array of another length and memory of the host that is not pinned are error 1.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections import Counter, deque
from collections.abc import Callable
from enum import IntEnum
from functools import wraps
from types import SimpleNamespace
from typing import Any

import numpy as np

from .simulated_memory import SimulatedMemory
from .ttir import TtirFunction

ELF = b"\x7fELF"
_WINDOW = 0x0100_0000_0000  # between the memories of two devices


class CUresult(IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_INVALID_VALUE = 1
    CUDA_ERROR_OUT_OF_MEMORY = 2
    CUDA_ERROR_NOT_INITIALIZED = 3
    CUDA_ERROR_NO_DEVICE = 100
    CUDA_ERROR_INVALID_DEVICE = 101
    CUDA_ERROR_INVALID_IMAGE = 200
    CUDA_ERROR_INVALID_CONTEXT = 201
    CUDA_ERROR_NOT_FOUND = 500
    CUDA_ERROR_NOT_READY = 600
    CUDA_ERROR_ILLEGAL_ADDRESS = 700


class CUdevice_attribute(IntEnum):
    CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76
    CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97


class CUmemPool_attribute(IntEnum):
    CU_MEMPOOL_ATTR_RELEASE_THRESHOLD = 4


class CUfunction_attribute(IntEnum):
    CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8


class CUmemorytype(IntEnum):
    CU_MEMORYTYPE_DEVICE = 2


class CUmemLocationType(IntEnum):
    CU_MEM_LOCATION_TYPE_DEVICE = 1


class CUmemAccess_flags(IntEnum):
    CU_MEM_ACCESS_FLAGS_PROT_READWRITE = 3


_ATTRIBUTES = {16: 4, 75: 9, 76: 0, 97: 227 << 10}

Work = Callable[[], None]


class Refused(Exception):
    """A call returns an error."""

    def __init__(self, code: int) -> None:
        self.code = code


class _Struct(SimpleNamespace):
    """A structure of parameters."""


class _Handle:
    """An object of the driver. `kind` is in `live()` until it is destroyed."""

    def __init__(self, kind: str, context: _Context, **fields: Any) -> None:
        self.kind, self.context, self.is_live = kind, context, True
        self.__dict__.update(fields)
        context.live[kind] += 1

    def destroy(self, kind: str) -> None:
        require(self.kind == kind and self.is_live)
        self.is_live = False
        self.context.live[kind] -= 1


class _Context:
    """The primary context of a device."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.memory = SimulatedMemory(0x7000_0000_0000 + number * _WINDOW)
        self.freed: set[int] = set()  # blocks whose free is queued
        self.live: Counter[str] = Counter()


class _Stream(_Handle):
    """The queue of a stream."""

    def __init__(self, context: _Context) -> None:
        super().__init__("stream", context)
        self.queue: deque[tuple[Work, Any]] = deque()  # with an object that the work marks as reached

    def start(self, work: Work, marker: _Marker | None = None) -> None:
        self.queue.append((work, marker))


class _Marker:
    """A point in the work of a stream."""

    def __init__(self, stream: _Stream) -> None:
        self.stream, self.reached = stream, False


def require(condition: object, code: int = CUresult.CUDA_ERROR_INVALID_VALUE) -> None:
    if not condition:
        raise Refused(code)


def driver_call(function: Callable[..., Any]) -> Callable[..., tuple[Any, ...]]:
    """A function of the driver, from one that returns its results and raises Refused."""
    name = function.__name__

    @wraps(function)
    def called(self: FakeCuda, *arguments: Any) -> tuple[Any, ...]:
        with self.lock:
            try:
                self.begin(name, arguments)
                result = function(self, *arguments)
            except Refused as refused:
                return CUresult(refused.code), None
        results = result if isinstance(result, tuple) else () if result is None else (result,)
        return (CUresult(0), *results)

    return called


class FakeCuda:
    """Two devices of `capacity` bytes. `calls` counts calls by the name of the function."""

    CUresult, CUdevice_attribute, CUmemPool_attribute = CUresult, CUdevice_attribute, CUmemPool_attribute
    CUfunction_attribute, CUmemorytype = CUfunction_attribute, CUmemorytype
    CUmemLocationType, CUmemAccess_flags = CUmemLocationType, CUmemAccess_flags
    CUDA_KERNEL_NODE_PARAMS = CUDA_MEMCPY3D = CUDA_MEMSET_NODE_PARAMS = _Struct
    CUdeviceptr = cuuint64_t = int

    def __init__(self, devices: int = 2, version: int = 13000, capacity: int = 1 << 30) -> None:
        self.version, self.capacity = version, capacity
        self.contexts = [_Context(number) for number in range(devices)]
        self.lock = threading.RLock()
        self.calls: Counter[str] = Counter()
        self.launched: Counter[str] = Counter()  # by kernel, those that were executed
        self.errors: dict[str, list[int]] = {}
        self.lost = 0
        self.why = ""  # the first error of work
        self.peers: set[tuple[int, int]] = set()
        self._current = threading.local()
        self._process = 0
        self._pinned: dict[int, Any] = {}

    def CUmemAccessDesc(self) -> _Struct:
        return _Struct(location=_Struct(type=0, id=-1), flags=0)

    def begin(self, name: str, arguments: tuple[Any, ...]) -> None:
        """Check whether a call is allowed."""
        self.calls[name] += 1
        if self.errors.get(name):
            code = self.errors[name].pop(0)
            require(not code, code)
        if name.startswith(("cuInit", "cuGetError", "cuDriver")):
            return
        require(self._process == os.getpid(), CUresult.CUDA_ERROR_NOT_INITIALIZED)
        require(not self.lost, self.lost)
        if name not in ("cuDeviceGet", "cuDeviceGetCount", "cuDevicePrimaryCtxRetain", "cuCtxSetCurrent"):
            require(self.context is not None, CUresult.CUDA_ERROR_INVALID_CONTEXT)
        for argument in arguments:
            if isinstance(argument, _Handle):
                require(argument.is_live)
            if isinstance(argument, _Stream):
                require(argument.context is self.context, CUresult.CUDA_ERROR_INVALID_CONTEXT)

    @property
    def context(self) -> Any:
        """The current context of this thread."""
        return getattr(self._current, "context", None)

    def live(self, number: int = 0) -> dict[str, int]:
        """The number of handles of each kind that exist, and of blocks."""
        context = self.contexts[number]
        return {**+context.live, "block": len(context.memory.blocks)}

    # -- the driver, devices, contexts

    @driver_call
    def cuInit(self, Flags: int) -> None:
        require(self.contexts, CUresult.CUDA_ERROR_NO_DEVICE)
        self._process = os.getpid()

    @driver_call
    def cuDriverGetVersion(self) -> int:
        return self.version

    def cuGetErrorName(self, error: CUresult) -> tuple[Any, ...]:
        return CUresult(0), error.name.encode()

    def cuGetErrorString(self, error: CUresult) -> tuple[Any, ...]:
        return CUresult(0), f"{error.name.removeprefix('CUDA_ERROR_').replace('_', ' ').lower()}".encode()

    @driver_call
    def cuDeviceGetCount(self) -> int:
        return len(self.contexts)

    @driver_call
    def cuDeviceGet(self, ordinal: int) -> int:
        require(0 <= ordinal < len(self.contexts), CUresult.CUDA_ERROR_INVALID_DEVICE)
        return ordinal

    @driver_call
    def cuDeviceGetAttribute(self, attrib: CUdevice_attribute, dev: int) -> int:
        return _ATTRIBUTES[attrib]

    @driver_call
    def cuDevicePrimaryCtxRetain(self, dev: int) -> _Context:
        return self.contexts[dev]

    @driver_call
    def cuCtxSetCurrent(self, ctx: _Context) -> None:
        self._current.context = ctx

    @driver_call
    def cuDeviceCanAccessPeer(self, dev: int, peerDev: int) -> int:
        return 1

    # -- memory

    @driver_call
    def cuDeviceGetDefaultMemPool(self, dev: int) -> int:
        return dev

    @driver_call
    def cuMemPoolSetAttribute(self, pool: int, attr: CUmemPool_attribute, value: int) -> None:
        pass

    @driver_call
    def cuMemPoolSetAccess(self, pool: int, map: list[_Struct], count: int) -> None:
        self.peers |= {(pool, access.location.id) for access in map}

    @driver_call
    def cuMemPoolTrimTo(self, pool: int, minBytesToKeep: int) -> None:
        pass

    @driver_call
    def cuMemAllocAsync(self, bytesize: int, hStream: _Stream) -> int:
        memory = self.context.memory
        require(memory.used + bytesize <= self.capacity, CUresult.CUDA_ERROR_OUT_OF_MEMORY)
        return memory.take(bytesize)

    @driver_call
    def cuMemFreeAsync(self, dptr: int, hStream: _Stream) -> None:
        context = self.context
        require(dptr in context.memory.blocks and dptr not in context.freed)
        context.freed.add(dptr)

        def free() -> None:
            context.freed.discard(dptr)
            context.memory.release(dptr)

        hStream.start(free)

    @driver_call
    def cuMemGetInfo(self) -> tuple[int, int]:
        return self.capacity - self.context.memory.used, self.capacity

    @driver_call
    def cuMemHostAlloc(self, bytesize: int, Flags: int) -> int:
        block = (ctypes.c_char * bytesize)()
        self._pinned[ctypes.addressof(block)] = block
        return ctypes.addressof(block)

    def _host(self, address: int, nbytes: int) -> np.ndarray[Any, Any]:
        """The bytes of pinned memory."""
        for start, block in self._pinned.items():
            if start <= address and address + nbytes <= start + len(block):
                return np.frombuffer(block, np.uint8, nbytes, address - start)
        raise Refused(CUresult.CUDA_ERROR_INVALID_VALUE)

    @driver_call
    def cuMemcpyHtoDAsync(self, dstDevice: int, srcHost: int, ByteCount: int, hStream: _Stream) -> None:
        memory, source = hStream.context.memory, self._host(srcHost, ByteCount)
        hStream.start(lambda: memory.store(dstDevice, source))

    @driver_call
    def cuMemcpyDtoHAsync(self, dstHost: int, srcDevice: int, ByteCount: int, hStream: _Stream) -> None:
        memory, into = hStream.context.memory, self._host(dstHost, ByteCount)

        def download() -> None:
            into[:] = memory.bytes_at(srcDevice, ByteCount)

        hStream.start(download)

    @driver_call
    def cuMemcpyDtoDAsync(self, dstDevice: int, srcDevice: int, ByteCount: int, hStream: _Stream) -> None:
        hStream.start(copying(hStream.context, dstDevice, hStream.context, srcDevice, ByteCount))

    @driver_call
    def cuMemcpyPeerAsync(
        self,
        dstDevice: int,
        dstContext: _Context,
        srcDevice: int,
        srcContext: _Context,
        ByteCount: int,
        hStream: _Stream,
    ) -> None:
        hStream.start(copying(dstContext, dstDevice, srcContext, srcDevice, ByteCount))

    @driver_call
    def cuMemsetD8Async(self, dstDevice: int, uc: int, N: int, hStream: _Stream) -> None:
        hStream.start(filling(hStream.context, dstDevice, uc, N))

    # -- streams and events

    @driver_call
    def cuStreamCreate(self, Flags: int) -> _Stream:
        return _Stream(self.context)

    @driver_call
    def cuStreamSynchronize(self, hStream: _Stream) -> None:
        self.work_until(self.mark(hStream))
        require(not self.lost, self.lost)

    @driver_call
    def cuStreamWaitEvent(self, hStream: _Stream, hEvent: Any, Flags: int) -> None:
        marker = hEvent.marker
        hStream.start(lambda: self.work_until(marker))

    @driver_call
    def cuEventCreate(self, Flags: int) -> Any:
        return _Handle("event", self.context, marker=None)

    @driver_call
    def cuEventRecord(self, hEvent: Any, hStream: _Stream) -> None:
        require(hEvent.context is hStream.context)
        hEvent.marker = self.mark(hStream)

    @driver_call
    def cuEventQuery(self, hEvent: Any) -> None:
        require(hEvent.marker.reached, CUresult.CUDA_ERROR_NOT_READY)

    @driver_call
    def cuEventSynchronize(self, hEvent: Any) -> None:
        self.work_until(hEvent.marker)
        require(not self.lost, self.lost)

    @staticmethod
    def mark(stream: _Stream) -> _Marker:
        marker = _Marker(stream)
        stream.start(lambda: setattr(marker, "reached", True))
        return marker

    def work_until(self, marker: _Marker) -> None:
        """Do the work of a stream before a marker."""
        while not marker.reached and not self.lost:
            work, _ = marker.stream.queue.popleft()
            try:
                work()
            except Exception as error:  # whatever is wrong with an address
                self.lost, self.why = CUresult.CUDA_ERROR_ILLEGAL_ADDRESS, f"{type(error).__name__}: {error}"

    # -- kernels

    @driver_call
    def cuModuleLoadData(self, image: bytes) -> Any:
        text = image.startswith(b"#") or b"tt.func" in image
        require(text or image.startswith(ELF), CUresult.CUDA_ERROR_INVALID_IMAGE)
        return _Handle("module", self.context, function=TtirFunction(image.decode()) if text else None)

    @driver_call
    def cuModuleUnload(self, hmod: Any) -> None:
        hmod.destroy("module")

    @driver_call
    def cuModuleGetFunction(self, hmod: Any, name: bytes) -> Any:
        require(isinstance(name, bytes), CUresult.CUDA_ERROR_NOT_FOUND)
        return SimpleNamespace(name=name.decode(), module=hmod, function=hmod.function, shared=48 << 10)

    @driver_call
    def cuFuncSetAttribute(self, hfunc: Any, attrib: CUfunction_attribute, value: int) -> None:
        require(value <= _ATTRIBUTES[97])
        hfunc.shared = value

    @driver_call
    def cuLaunchKernel(
        self,
        f: Any,
        gridDimX: int,
        gridDimY: int,
        gridDimZ: int,
        blockDimX: int,
        blockDimY: int,
        blockDimZ: int,
        sharedMemBytes: int,
        hStream: _Stream,
        kernelParams: int,
        extra: int,
    ) -> None:
        require((gridDimY, gridDimZ, blockDimY, blockDimZ, extra) == (1, 1, 1, 1, 0))
        hStream.start(self.kernel(hStream.context, f, gridDimX, blockDimX, sharedMemBytes, kernelParams))

    def kernel(self, context: _Context, f: Any, grid: int, block: int, shared: int, parameters: int) -> Work:
        """The work of a kernel. Its parameters are read now."""
        require(grid > 0 and block % 32 == 0 and 0 < block <= 1024 and shared <= f.shared)
        require(f.module.is_live and f.module.context is context)
        values = parameter_values(f.function, parameters)

        def work() -> None:
            require(f.module.is_live)
            self.launched[f.name] += 1
            context.memory.launch(f.function, grid, values)

        return work

    # -- graphs

    @driver_call
    def cuGraphCreate(self, flags: int) -> Any:
        return _Handle("graph", self.context, nodes={})

    @driver_call
    def cuGraphDestroy(self, hGraph: Any) -> None:
        hGraph.destroy("graph")

    def _add(self, graph: Any, dependencies: list[Any], count: int, work: Work) -> object:
        require(len(dependencies) == count and all(node in graph.nodes for node in dependencies))
        node = object()
        graph.nodes[node] = (work, tuple(dependencies))
        return node

    def _of(self, params: Any) -> Work:
        """The work of a node, with the parameters of this moment."""
        fields = vars(params)
        if "func" in fields:
            require([fields[f"{a}Dim{b}"] for a in ("grid", "block") for b in "YZ"] == [1] * 4)
            numbers = params.gridDimX, params.blockDimX, params.sharedMemBytes, params.kernelParams
            return self.kernel(self.context, params.func, *numbers)
        if "dstDevice" in fields:
            require((params.dstMemoryType, params.srcMemoryType, params.Height, params.Depth) == (2, 2, 1, 1))
            return copying(self.context, params.dstDevice, self.context, params.srcDevice, params.WidthInBytes)
        require((params.elementSize, params.height) == (1, 1))
        return filling(self.context, params.dst, params.value, params.width)

    @driver_call
    def cuGraphAddKernelNode(self, hGraph: Any, dependencies: list[Any], numDependencies: int, nodeParams: Any) -> Any:
        return self._add(hGraph, dependencies, numDependencies, self._of(nodeParams))

    @driver_call
    def cuGraphAddMemcpyNode(
        self, hGraph: Any, dependencies: list[Any], numDependencies: int, copyParams: Any, ctx: _Context
    ) -> Any:
        require(ctx is self.context)
        return self._add(hGraph, dependencies, numDependencies, self._of(copyParams))

    @driver_call
    def cuGraphAddMemsetNode(
        self, hGraph: Any, dependencies: list[Any], numDependencies: int, memsetParams: Any, ctx: _Context
    ) -> Any:
        require(ctx is self.context)
        return self._add(hGraph, dependencies, numDependencies, self._of(memsetParams))

    @driver_call
    def cuGraphInstantiate(self, hGraph: Any, flags: int) -> Any:
        return _Handle("executable graph", self.context, nodes=dict(hGraph.nodes), queued=0)

    @driver_call
    def cuGraphExecDestroy(self, hGraphExec: Any) -> None:
        require(not hGraphExec.queued)
        hGraphExec.destroy("executable graph")

    def _set(self, executable: Any, node: object, params: Any) -> None:
        _, dependencies = executable.nodes[node]
        executable.nodes[node] = (self._of(params), dependencies)

    @driver_call
    def cuGraphExecKernelNodeSetParams(self, hGraphExec: Any, hNode: object, nodeParams: Any) -> None:
        self._set(hGraphExec, hNode, nodeParams)

    @driver_call
    def cuGraphExecMemcpyNodeSetParams(self, hGraphExec: Any, hNode: object, copyParams: Any, ctx: _Context) -> None:
        self._set(hGraphExec, hNode, copyParams)

    @driver_call
    def cuGraphExecMemsetNodeSetParams(self, hGraphExec: Any, hNode: object, memsetParams: Any, ctx: _Context) -> None:
        self._set(hGraphExec, hNode, memsetParams)

    @driver_call
    def cuGraphLaunch(self, hGraphExec: Any, hStream: _Stream) -> None:
        nodes = dict(hGraphExec.nodes)
        hGraphExec.queued += 1

        def work() -> None:
            hGraphExec.queued -= 1
            done: set[object] = set()
            while len(done) < len(nodes):  # the last of those that can run: the order of a graph is that of its edges
                ready = [n for n, (_, before) in nodes.items() if n not in done and done.issuperset(before)]
                nodes[ready[-1]][0]()
                done.add(ready[-1])

        hStream.start(work)


def copying(to: _Context, target: int, source_context: _Context, source: int, nbytes: int) -> Work:
    return lambda: to.memory.store(target, source_context.memory.bytes_at(source, nbytes).copy())


def filling(context: _Context, target: int, value: int, nbytes: int) -> Work:
    def fill() -> None:
        context.memory.bytes_at(target, nbytes)[:] = value

    return fill


def parameter_values(function: TtirFunction, parameters: int) -> list[int]:
    """The values of a kernel's parameters. The two that Triton adds are null."""
    count = len(function.arguments)
    pointers = (ctypes.c_void_p * (count + 2)).from_address(parameters)
    require(all(pointers))
    sizes = [8 if argument.is_pointer else int(argument.type[1:]) // 8 for argument in function.arguments]
    values = [
        int.from_bytes(ctypes.string_at(at or 0, size), "little", signed=not argument.is_pointer)
        for at, size, argument in zip(pointers, sizes, function.arguments, strict=False)
    ]
    added = [ctypes.c_int64.from_address(at).value for at in pointers[count:]]
    require(added == [0, 0])
    return values
