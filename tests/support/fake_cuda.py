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
from collections import Counter
from typing import Any

import numpy as np

from .fake_cuda_graphs import FakeGraphs
from .fake_cuda_native import NATIVE
from .fake_cuda_objects import (
    ATTRIBUTES,
    Context,
    CUdevice_attribute,
    CUfunction_attribute,
    CUmemAccess_flags,
    CUmemLocationType,
    CUmemorytype,
    CUmemPool_attribute,
    CUresult,
    Function,
    Handle,
    Marker,
    Refused,
    Stream,
    Struct,
    Work,
    copying,
    driver_call,
    filling,
    parameter_values,
    require,
    storing,
)
from .ttir import TtirFunction

ELF = b"\x7fELF"


class FakeCuda(FakeGraphs):
    """Two devices of `capacity` bytes. `calls` counts calls by the name of the function."""

    CUresult, CUdevice_attribute, CUmemPool_attribute = CUresult, CUdevice_attribute, CUmemPool_attribute
    CUfunction_attribute, CUmemorytype = CUfunction_attribute, CUmemorytype
    CUmemLocationType, CUmemAccess_flags = CUmemLocationType, CUmemAccess_flags
    CUDA_KERNEL_NODE_PARAMS = CUDA_MEMCPY3D = CUDA_MEMSET_NODE_PARAMS = Struct
    CUdeviceptr = cuuint64_t = int

    def __init__(self, devices: int = 2, version: int = 13000, capacity: int = 1 << 30) -> None:
        self.version, self.capacity = version, capacity
        self.contexts = [Context(number) for number in range(devices)]
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
        self._native: list[Any] = []  # keeps native functions

    def CUmemAccessDesc(self) -> Struct:
        return Struct(location=Struct(type=0, id=-1), flags=0)

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
            if isinstance(argument, Handle):
                require(argument.is_live)
            if isinstance(argument, Stream):
                require(argument.context is self.context, CUresult.CUDA_ERROR_INVALID_CONTEXT)

    @property
    def context(self) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The current context of this thread."""
        return getattr(self._current, "context", None)

    def cuGetProcAddress(self, symbol: bytes, cudaVersion: int, flags: int) -> tuple[Any, ...]:
        """The address of a native function that calls the one of this class."""
        name = symbol.decode()
        prototype, convert = NATIVE[name]

        def called(*arguments: int) -> int:
            return int(getattr(self, name)(*convert(*arguments))[0])

        self._native.append(function := prototype(called))
        return CUresult(0), ctypes.cast(function, ctypes.c_void_p).value, 0

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
        return ATTRIBUTES[attrib]

    @driver_call
    def cuDevicePrimaryCtxRetain(self, dev: int) -> Context:
        return self.contexts[dev]

    @driver_call
    def cuCtxSetCurrent(self, ctx: Context) -> None:
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
    def cuMemPoolSetAccess(self, pool: int, map: list[Struct], count: int) -> None:
        self.peers |= {(pool, access.location.id) for access in map}

    @driver_call
    def cuMemPoolTrimTo(self, pool: int, minBytesToKeep: int) -> None:
        pass

    @driver_call
    def cuMemAllocAsync(self, bytesize: int, hStream: Stream) -> int:
        memory = self.context.memory
        require(memory.used + bytesize <= self.capacity, CUresult.CUDA_ERROR_OUT_OF_MEMORY)
        return memory.take(bytesize)

    @driver_call
    def cuMemFreeAsync(self, dptr: int, hStream: Stream) -> None:
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
    def cuMemcpyHtoDAsync(self, dstDevice: int, srcHost: int, ByteCount: int, hStream: Stream) -> None:
        memory, source = hStream.context.memory, self._host(srcHost, ByteCount)
        hStream.start(lambda: memory.store(dstDevice, source))

    @driver_call
    def cuMemcpyDtoHAsync(self, dstHost: int, srcDevice: int, ByteCount: int, hStream: Stream) -> None:
        memory, into = hStream.context.memory, self._host(dstHost, ByteCount)

        def download() -> None:
            into[:] = memory.bytes_at(srcDevice, ByteCount)

        hStream.start(download)

    @driver_call
    def cuMemcpyDtoDAsync(self, dstDevice: int, srcDevice: int, ByteCount: int, hStream: Stream) -> None:
        hStream.start(copying(hStream.context, dstDevice, hStream.context, srcDevice, ByteCount))

    @driver_call
    def cuMemcpyPeerAsync(
        self,
        dstDevice: int,
        dstContext: Context,
        srcDevice: int,
        srcContext: Context,
        ByteCount: int,
        hStream: Stream,
    ) -> None:
        hStream.start(copying(dstContext, dstDevice, srcContext, srcDevice, ByteCount))

    @driver_call
    def cuMemsetD8Async(self, dstDevice: int, uc: int, N: int, hStream: Stream) -> None:
        hStream.start(filling(hStream.context, dstDevice, uc, N))

    @driver_call
    def cuMemsetD16Async(self, dstDevice: int, us: int, N: int, hStream: Stream) -> None:
        require(dstDevice % 2 == 0)
        hStream.start(storing(hStream.context, dstDevice, us.to_bytes(2, "little") * N))

    @driver_call
    def cuMemsetD32Async(self, dstDevice: int, ui: int, N: int, hStream: Stream) -> None:
        require(dstDevice % 4 == 0)
        hStream.start(storing(hStream.context, dstDevice, ui.to_bytes(4, "little") * N))

    @driver_call
    def cuMemsetD2D32Async(
        self, dstDevice: int, dstPitch: int, ui: int, Width: int, Height: int, hStream: Stream
    ) -> None:
        require(dstDevice % 4 == dstPitch % 4 == 0 and dstPitch >= 4 * Width)
        for row in range(Height):
            hStream.start(storing(hStream.context, dstDevice + row * dstPitch, ui.to_bytes(4, "little") * Width))

    # -- streams and events

    @driver_call
    def cuStreamCreate(self, Flags: int) -> Stream:
        return Stream(self.context)

    @driver_call
    def cuStreamSynchronize(self, hStream: Stream) -> None:
        self.work_until(self.mark(hStream))
        require(not self.lost, self.lost)

    @driver_call
    def cuStreamWaitEvent(self, hStream: Stream, hEvent: Any, Flags: int) -> None:
        marker = hEvent.marker
        hStream.start(lambda: self.work_until(marker))

    @driver_call
    def cuEventCreate(self, Flags: int) -> Any:
        return Handle("event", self.context, marker=None)

    @driver_call
    def cuEventRecord(self, hEvent: Any, hStream: Stream) -> None:
        require(hEvent.context is hStream.context)
        hEvent.marker = self.mark(hStream)

    @driver_call
    def cuEventElapsedTime(self, hStart: Any, hEnd: Any) -> float:
        """Milliseconds: a microsecond for each piece of work between the events."""
        require(hStart.marker.reached and hEnd.marker.reached)
        return 1e-3 * (hEnd.marker.number - hStart.marker.number)

    @driver_call
    def cuEventDestroy(self, hEvent: Any) -> None:
        hEvent.destroy("event")

    @driver_call
    def cuEventQuery(self, hEvent: Any) -> None:
        require(hEvent.marker.reached, CUresult.CUDA_ERROR_NOT_READY)

    @driver_call
    def cuEventSynchronize(self, hEvent: Any) -> None:
        self.work_until(hEvent.marker)
        require(not self.lost, self.lost)

    @staticmethod
    def mark(stream: Stream) -> Marker:
        marker = Marker(stream)
        stream.start(lambda: setattr(marker, "reached", True), marker)
        return marker

    def work_until(self, marker: Marker) -> None:
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
        return Handle("module", self.context, function=TtirFunction(image.decode()) if text else None)

    @driver_call
    def cuModuleUnload(self, hmod: Any) -> None:
        hmod.destroy("module")

    @driver_call
    def cuModuleGetFunction(self, hmod: Any, name: bytes) -> Any:
        require(isinstance(name, bytes), CUresult.CUDA_ERROR_NOT_FOUND)
        return Function(name=name.decode(), module=hmod, function=hmod.function, shared=48 << 10)

    @driver_call
    def cuFuncSetAttribute(self, hfunc: Any, attrib: CUfunction_attribute, value: int) -> None:
        require(value <= ATTRIBUTES[97])
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
        hStream: Stream,
        kernelParams: int,
        extra: int,
    ) -> None:
        require((gridDimY, gridDimZ, blockDimY, blockDimZ, extra) == (1, 1, 1, 1, 0))
        hStream.start(self.kernel(hStream.context, f, gridDimX, blockDimX, sharedMemBytes, kernelParams))

    def kernel(self, context: Context, f: Any, grid: int, block: int, shared: int, parameters: int) -> Work:
        """The work of a kernel. Its parameters are read now."""
        require(grid > 0 and block % 32 == 0 and 0 < block <= 1024 and shared <= f.shared)
        require(f.module.is_live and f.module.context is context)
        values = parameter_values(f.function, parameters)

        def work() -> None:
            require(f.module.is_live)
            self.launched[f.name] += 1
            context.memory.launch(f.function, grid, values)

        return work
