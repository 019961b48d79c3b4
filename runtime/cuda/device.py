"""NVIDIA GPUs as devices: memory, copies and programs, all in order on one stream for each GPU.

device_count()       the number of GPUs that can be used
unavailable()        the reason why there is none
open_device(number)  a GPU
TARGETS              the targets to compile for without a GPU, by name
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ...codegen.triton.cubin import read_resources
from ...codegen.triton.kernel_code import MOST_COUNTERS, KernelCode
from ...codegen.triton.target import TARGETS, GpuTarget
from ...ir.locks import ForkSafeLock
from ...ir.settings import settings
from ..errors import device_failed
from ..storage import Storage
from ..streamed_device import StreamedDevice
from . import driver as cuda
from .launches import CudaKernel
from .memory import DeviceMemory, UnpooledMemory
from .native import driver_functions
from .pool_settings import read_pool_settings
from .stream import CudaStream

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["TARGETS", "CudaDevice", "device_count", "open_device", "unavailable"]

_KEPT = 1 << 62  # bytes that the driver's pool keeps: all
_PORTABLE = 1  # CU_MEMHOSTALLOC_PORTABLE: pinned for all GPUs
_PINNED = 1 << 20  # bytes that are pinned together
_SHARED = 48 << 10  # bytes of shared memory that every kernel can have
_READ_AND_WRITE = "CU_MEM_ACCESS_FLAGS_PROT_READWRITE"


class CudaDevice(StreamedDevice):
    """The GPU with the number `ordinal` in the driver; implements `Launcher`.

    `unused` are (function of the driver, handle) of what finalizers no longer need; it is destroyed when the host waits
    for the stream. `lost` is the error after which the driver refuses all calls.
    """

    stream: CudaStream

    def __init__(self, number: int, ordinal: int | None = None) -> None:
        self.name = f"gpu({number})"
        pooling = read_pool_settings()
        self.driver = cuda.start()
        self.lost = ""
        self.idle_events: list[Any] = []
        self.unused: list[tuple[str, Any]] = []
        self._pinning, self._counting = ForkSafeLock(), ForkSafeLock()
        self._counters: Storage | None = None
        self._pinned_free: npt.NDArray[Any] = np.empty(0, np.uint8)
        self.ordinal = cuda.ok(self.driver.cuDeviceGet(number if ordinal is None else ordinal))
        self.context = cuda.ok(self.driver.cuDevicePrimaryCtxRetain(self.ordinal))
        self._target = self._make_target()
        self._tuned: tuple[object, GpuTarget] | None = None
        self._pool = self._make_pool(_KEPT if pooling.is_pooled else 0)
        self.memory = (DeviceMemory if pooling.is_pooled else UnpooledMemory)(self, pooling)
        self.functions = driver_functions(self.driver)
        super().__init__(self.name, self._make_stream())

    def _make_target(self) -> GpuTarget:
        attribute, of = self.driver.CUdevice_attribute, self._attribute
        major = of(attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)
        minor = of(attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)
        shared = of(attribute.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)
        return GpuTarget(10 * major + minor, shared, of(attribute.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT))

    def _make_stream(self) -> CudaStream:
        return CudaStream(self)

    def _attribute(self, which: Any) -> int:
        return int(self.call("cuDeviceGetAttribute", which, self.ordinal))

    def _make_pool(self, kept: int) -> Any:
        """The driver's pool of this GPU. It keeps so many bytes of what is freed, and all GPUs that can may access
        it."""
        driver = self.driver
        pool = self.call("cuDeviceGetDefaultMemPool", self.ordinal)
        threshold = driver.CUmemPool_attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
        self.call("cuMemPoolSetAttribute", pool, threshold, driver.cuuint64_t(kept))
        for other in range(int(self.call("cuDeviceGetCount"))):
            if other != int(self.ordinal) and self.call("cuDeviceCanAccessPeer", other, self.ordinal):
                access = driver.CUmemAccessDesc()
                access.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
                access.location.id = other
                access.flags = getattr(driver.CUmemAccess_flags, _READ_AND_WRITE)
                self.call("cuMemPoolSetAccess", pool, [access], 1)
        return pool

    @property
    def target(self) -> GpuTarget:
        """The target of this GPU, with its tuned schedules."""
        tuning = settings().tuning
        if self._tuned is None or self._tuned[0] != tuning:
            from ..host.tuning import tuned_target

            self._tuned = tuning, tuned_target(self._target)
        return self._tuned[1]

    def refresh(self) -> None:
        """Read the target again when it is next used: its tuned schedules have changed."""
        self._tuned = None

    # -- calls of the driver

    @property
    def is_usable(self) -> bool:
        """False after an error that ends the use of this device, and in a forked child."""
        return not self.lost and not cuda.is_forked()

    def enter(self) -> None:
        """Prepare this thread for calls of the driver."""
        cuda.enter(self.context)

    def call(self, function: str, *arguments: Any) -> Any:
        """The result of a function of the driver; see `check`."""
        cuda.enter(self.context)
        result = getattr(self.driver, function)(*arguments)
        if result[0]:
            self.check(result, function)
        return result[1] if len(result) > 1 else None

    def check(self, result: tuple[Any, ...], doing: str = "") -> None:
        """Raise the error of `errors.device_failed` if a call failed. Work that was started before can be the cause."""
        if not result[0]:
            return
        if self.lost:
            raise device_failed(self.lost)
        text = cuda.describe(result[0], self.driver)
        recent = ", ".join(dict.fromkeys(self.stream.recent)) if hasattr(self, "stream") else ""
        message = f"{self.name}: {text}" + (f" ({doing})" if doing else "")
        if int(result[0]) in cuda.LOST:
            cause = f", in one of the programs that were started last: {recent}" if recent else ""
            message = self.lost = f"{message}{cause}. This process cannot use {self.name} any more: start it again"
        raise device_failed(message)

    def take_unused(self) -> list[tuple[str, Any]]:
        """What finalizers have left since the last call."""
        unused = [self.unused.pop() for _ in range(len(self.unused))]
        return unused[::-1]

    # -- memory

    def allocate(self, nbytes: int) -> Storage:
        """See `Device`."""
        return self.memory.allocate(nbytes)

    def pinned(self, nbytes: int) -> npt.NDArray[Any]:
        """See `StreamedDevice`. Small blocks are parts of larger ones; none is ever freed."""
        with self._pinning:
            if self._pinned_free.size < nbytes:
                size = max(nbytes, _PINNED)
                address = int(self.call("cuMemHostAlloc", size, _PORTABLE))
                block: Any = (ctypes.c_char * size).from_address(address)
                self._pinned_free = np.frombuffer(block, np.uint8)
            block, self._pinned_free = self._pinned_free[:nbytes], self._pinned_free[nbytes:]
            return block

    def memory_info(self) -> tuple[int, int]:
        """See `Device`. Memory that this process caches is not free."""
        self.enter()
        free, total = cuda.ok(self.driver.cuMemGetInfo())
        return int(free), int(total)

    def release_cached(self) -> None:
        """Return idle memory to the system."""
        self.memory.release_cached()
        self.synchronise()
        self.call("cuMemPoolTrimTo", self._pool, 0)

    # -- programs

    @property
    def counters(self) -> int:
        """The address of the counters that kernels take (`KernelCode.counters`)."""
        with self._counting:
            if self._counters is None:
                self._counters = self.allocate_zeroed(4 * MOST_COUNTERS)
            return self._counters.address.value

    def load_code(self, code: bytes) -> Mapping[str, CudaKernel]:
        """See `Launcher`."""
        kernel = KernelCode.from_bytes(code)
        if kernel.form != self.target.form:
            raise ValueError(f"kernel {kernel.name} is {kernel.form}: {self.name} loads {self.target.form}")
        parameters = self.parameters_of(kernel)
        self.enter()
        loaded = self.driver.cuModuleLoadData(kernel.code)
        self.check(loaded, f"loading kernel {kernel.name}")
        module = _Module(self, loaded[1])
        function = self.call("cuModuleGetFunction", module.handle, kernel.name.encode())
        if kernel.shared > _SHARED:
            most = self.driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            self.call("cuFuncSetAttribute", function, most, kernel.shared)
        threads, called = 32 * kernel.num_warps, (kernel.name, function)
        return {kernel.name: CudaKernel(*called, threads, kernel.shared, parameters, module, kernel.counters)}

    def parameters_of(self, kernel: KernelCode) -> int:
        """The number of parameters of the compiled kernel: its own, and those that Triton adds. ValueError if they are
        not passed in 8 bytes each or less."""
        sizes = [size for _, size in read_resources(kernel.code, kernel.name).parameters]
        if len(sizes) < len(kernel.parameters) or any(size > 8 for size in sizes):
            raise ValueError(f"kernel {kernel.name} takes {kernel.parameters}, but its cubin {sizes} bytes")
        return len(sizes)


class _Module:
    """A module of the driver, unloaded after its last kernel."""

    def __init__(self, device: CudaDevice, handle: Any) -> None:
        self._device, self.handle = device, handle

    def __del__(self) -> None:
        self._device.unused.append(("cuModuleUnload", self.handle))


@cache
def _found() -> tuple[int, str]:
    """(the number of GPUs, why there is none)."""
    try:
        return int(cuda.ok(cuda.start().cuDeviceGetCount())), ""
    except (cuda.NoCuda, cuda.CudaError) as error:
        return 0, str(error)


def device_count() -> int:
    """The number of GPUs that can be used."""
    return _found()[0]


def unavailable() -> str:
    """Why there is no GPU, and what to install."""
    return _found()[1]


def open_device(number: int) -> CudaDevice:
    """A GPU. Called once for each number (`runtime/devices.py`)."""
    return CudaDevice(number)
