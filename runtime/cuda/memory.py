"""The memory of one GPU: free lists over the driver's stream-ordered pool.

Blocks have the sizes of `PoolSettings.size`. A freed block is added to the free list of its class and serves
the next request of that class at once, since all work is in order on one stream. Finalizers run in any thread and while
any other code runs, so they make no call of the driver: they append to a list, which is atomic in CPython.
"""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

from ...ir.locks import ForkSafeLock
from .. import idle
from ..device import DeviceAddress
from ..errors import out_of_memory
from ..storage import DeviceStorage, Storage, size_of_block
from .driver import OUT_OF_MEMORY
from .pool_settings import PoolSettings

if TYPE_CHECKING:
    from .device import CudaDevice

_SMALLEST = 512  # the alignment of the driver's blocks
_SHOWN = 3  # buffers in the message of an allocation that fails


class _Block(DeviceStorage):
    """A buffer that returns to the free list `blocks`."""

    __slots__ = ("blocks",)

    def __init__(self, device: CudaDevice, address: DeviceAddress, nbytes: int, blocks: list[int]) -> None:
        self.device, self.address, self.nbytes, self.blocks = device, address, nbytes, blocks

    def __del__(self) -> None:
        self.blocks.append(self.address.value)


class DeviceMemory:
    """Implements `idle.CacheOfBlocks`."""

    def __init__(self, device: CudaDevice, settings: PoolSettings) -> None:
        self._device, self._settings = device, settings
        self._size = settings.size if settings.type else size_of_block
        self._free: dict[int, list[int]] = {}
        self._sizes: dict[int, int] = {}  # of all blocks of the driver, used or not, by address
        self._lock = ForkSafeLock()  # held while blocks are returned to the driver
        idle.caches_of_blocks.append(self)

    def allocate(self, nbytes: int) -> Storage:
        """See `Device.allocate`."""
        if nbytes < 0:
            raise ValueError(f"cannot allocate {nbytes} bytes")
        size = self._size(max(nbytes, _SMALLEST))
        try:
            free = self._free[size]
        except KeyError:
            free = self._free.setdefault(size, [])
        try:
            address = free.pop()
        except IndexError:
            address = self._new(size, nbytes)
        return _Block(self._device, DeviceAddress(self._device.name, address), nbytes, free)

    def _new(self, size: int, nbytes: int) -> int:
        """A block of the driver; what is idle is returned to it first if it has none."""
        self._keep_free(size)
        address = self._reserve(size)
        if address is None:
            gc.collect()
            idle.release_all()
            self.release_cached()
            self._device.synchronise()
            address = self._reserve(size)
        if address is None:
            raise out_of_memory(self._message(nbytes))
        self._sizes[address] = size
        return address

    def _keep_free(self, size: int) -> None:
        """Return what is cached before an allocation of `size` if other programs would find too little free memory."""
        if self._settings.reserve and self.cached_bytes():
            free, total = self._device.memory_info()
            if free - size < total * self._settings.reserve:
                self._device.release_cached()

    def _reserve(self, size: int) -> int | None:
        device = self._device
        device.enter()
        result = device.driver.cuMemAllocAsync(size, device.stream.handle)
        if result[0] == OUT_OF_MEMORY:
            return None
        device.check(result, f"an allocation of {size:,} bytes")
        return int(result[1])

    def _message(self, nbytes: int) -> str:
        free, total = self._device.memory_info()
        cached = {address for blocks in self._free.values() for address in tuple(blocks)}
        used = sorted((size for at, size in self._sizes.copy().items() if at not in cached), reverse=True)
        largest = ", ".join(f"{size:,}" for size in used[:_SHOWN]) or "none"
        return (
            f"cannot allocate {nbytes:,} bytes on {self._device.name}: {free:,} of {total:,} are free. This process "
            f"uses {sum(used):,} in {len(used)} buffers (the largest: {largest}), and caches {self.cached_bytes():,}"
        )

    def cached_bytes(self) -> int:
        """See `idle.CacheOfBlocks`."""
        return sum(size * len(blocks) for size, blocks in self._free.copy().items())

    def release_cached(self, limit: int = 0) -> None:
        """See `idle.CacheOfBlocks`. The largest blocks first; the driver frees them in the order of the stream. Nothing
        is done for a device that cannot be used: programs on the host call this too."""
        device = self._device
        if not device.is_usable:
            return
        with self._lock:
            excess = self.cached_bytes() - limit
            for size, blocks in sorted(self._free.items(), reverse=True):
                while blocks and excess > 0:
                    try:
                        address = blocks.pop()
                    except IndexError:  # another thread took it
                        break
                    del self._sizes[address]
                    excess -= size
                    device.enter()
                    device.check(device.driver.cuMemFreeAsync(address, device.stream.handle), "a free")

    def blocks_in_use(self) -> int:
        """How many blocks hold buffers."""
        return len(self._sizes) - sum(len(blocks) for blocks in self._free.copy().values())


class UnpooledMemory(DeviceMemory):
    """Memory whose freed blocks return to the driver before the next allocation."""

    def allocate(self, nbytes: int) -> Storage:
        """See `Device.allocate`."""
        self.release_cached()
        return super().allocate(nbytes)
