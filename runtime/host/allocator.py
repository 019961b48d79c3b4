"""Allocates memory of the host. It reuses blocks, because new pages cost as much as computing their content.

Blocks have size classes: multiples of 64 bytes up to 1 KiB, then four classes per doubling. A freed block is added to
the free list of its class and serves the next request of that class. Blocks up to 32 KiB are cut from shared regions
and never unmapped. Larger blocks are mapped one by one, from 2 MiB on at huge-page boundaries, and unmapped when too
many bytes are idle.

To allocate and free a small block takes two list operations, which are atomic in CPython, and no lock. The content of a
block is arbitrary unless the caller zeroes it.
"""

from __future__ import annotations

import ctypes
import gc
import mmap
from dataclasses import field

from ...ir.lazy_dataclass import dataclass
from ...ir.locks import ForkSafeLock
from ..errors import out_of_memory
from ..idle import caches_of_blocks
from ..memory_limit import physical_memory, require_memory
from ..storage import Storage, size_of_block

_LARGEST_SMALL = 32 << 10
_HUGE_PAGE = 2 << 20
_REGION = 2 << 20
_REFILL = 64 << 10
_TURNOVER = 4
"""How often the mapped bytes must be freed before blocks that were idle all this time are unmapped."""
_FEW_BYTES = 16 << 20


class _SmallStorage(Storage):
    __slots__ = ("_free",)

    _free: list[int]

    def __del__(self) -> None:
        self._free.append(self.address)


class _LargeStorage(Storage):
    __slots__ = ("_size_class",)

    _size_class: _LargeClass

    def __del__(self) -> None:
        self._size_class.release(self.address)


@dataclass(frozen=True, slots=True)
class MemoryStatistics:
    """Sizes in bytes, of whole blocks. `peak` is the maximum that was mapped at any time, idle blocks included."""

    in_use: int
    cached: int
    peak: int


_SMALL_SIZES = tuple(size_of_block(i * 64) for i in range(_LARGEST_SMALL // 64 + 1))
_FREE_BY_SIZE: dict[int, list[int]] = {size: [] for size in _SMALL_SIZES}
_SMALL_FREE = tuple(_FREE_BY_SIZE[size] for size in _SMALL_SIZES)  # by (nbytes + 63) // 64


def allocate(nbytes: int) -> Storage:
    """A buffer of at least `nbytes`, 64-byte aligned, of arbitrary content.

    MemoryError (see `errors.raise_as`) if the memory is not available, ValueError for a negative size.
    """
    if nbytes < 0:
        raise ValueError(f"cannot allocate {nbytes} bytes")
    try:
        free = _SMALL_FREE[(nbytes + 63) >> 6]
    except IndexError:
        return _allocate_large(nbytes)
    try:
        address = free.pop()
    except IndexError:
        address = _system.refill(free, _SMALL_SIZES[(nbytes + 63) >> 6])
    storage = _SmallStorage()
    storage.address = address
    storage.nbytes = nbytes
    storage._free = free  # pyright: ignore[reportPrivateUsage]
    return storage


def _allocate_large(nbytes: int, zeroed: bool = False) -> Storage:
    size_class = _system.large_class(size_of_block(nbytes))
    address = size_class.take(nbytes if zeroed else 0)
    storage = _LargeStorage()
    storage._size_class = size_class  # pyright: ignore[reportPrivateUsage]
    storage.address, storage.nbytes = address, nbytes
    return storage


def allocate_zeroed(nbytes: int) -> Storage:
    """A buffer of zeros; see `allocate`. The system maps pages of new memory when they are first written, which takes
    longer than to write them and is best done by all threads."""
    if nbytes > _LARGEST_SMALL:
        return _allocate_large(nbytes, zeroed=True)
    storage = allocate(nbytes)
    ctypes.memset(storage.address, 0, nbytes)
    return storage


def statistics() -> MemoryStatistics:
    """The memory that this module has mapped; storages that wrap NumPy's memory do not count."""
    cached = _system.cached_bytes() + sum(size * len(free) for size, free in _FREE_BY_SIZE.items())
    return MemoryStatistics(_system.reserved - _system.uncut - cached, cached, _system.peak)


def release_cached(limit: int = 0) -> None:
    """Unmap idle blocks larger than 32 KiB until at most `limit` bytes of them are idle."""
    _system.release_cached(limit)


def set_cache_limit(nbytes: int) -> None:
    """Bound the idle bytes in blocks larger than 32 KiB; the default is a quarter of the machine's memory."""
    _system.limit = nbytes
    _system.release_cached(nbytes)


@dataclass(slots=True)
class _LargeClass:
    system: _System  # not the module's variable: blocks can be freed after the interpreter has cleared the module
    size: int
    free: list[int] = field(default_factory=list[int])
    unused: int = 0  # the fewest idle blocks since `_System.trim_unused`: the oldest ones, which were not taken

    def take(self, zeroed: int = 0) -> int:
        """A block of which the first `zeroed` bytes are zero; new ones are."""
        try:
            address = self.free.pop()
        except IndexError:
            self.unused = 0
            return self.system.reserve(self.size)
        if len(self.free) < self.unused:
            self.unused = len(self.free)
        if zeroed:
            ctypes.memset(address, 0, zeroed)
        return address

    def release(self, address: int) -> None:
        """Add a block to the free list. Finalizers call this at any point, so it takes a lock only to unmap blocks."""
        self.free.append(address)
        self.system.note_freed(self.size)


class _System:
    """The source of blocks: maps memory, and unmaps idle blocks beyond `limit`."""

    def __init__(self) -> None:
        self.limit = physical_memory() // 4
        self.reserved = self.peak = self.uncut = 0
        self._region = 0  # end address of the region that small blocks are cut from; its last `uncut` bytes are unused
        self._freed = 0  # bytes freed since idle bytes were last counted; races between threads can lose a few
        self._turnover = 0  # bytes freed since `trim_unused`
        self._large: dict[int, _LargeClass] = {}
        self._lock = ForkSafeLock()  # re-entrant, because finalizers can interrupt the thread that holds it
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._libc.mmap.restype = ctypes.c_void_p
        self._libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long)
        self._libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
        self._libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)

    def large_class(self, size: int) -> _LargeClass:
        known = self._large.get(size)
        return known if known is not None else self._large.setdefault(size, _LargeClass(self, size))

    def refill(self, free: list[int], size: int) -> int:
        """Cut several blocks: returns one and adds the others to `free`."""
        count = max(_REFILL // size, 1)
        with self._lock:
            if self.uncut < count * size:
                free.extend(range(self._region - self.uncut, self._region - size + 1, size))
                self._region, self.uncut = self.reserve(_REGION) + _REGION, _REGION
            first = self._region - self.uncut
            self.uncut -= count * size
        free.extend(range(first + size, first + count * size, size))
        return first

    def reserve(self, size: int) -> int:
        """Map `size` bytes of zeros. On failure, try again after unmapping idle blocks, then after collecting garbage.

        MemoryError at once for more than the machine's memory: Linux can grant it, and kill the process when it is
        written.
        """
        require_memory(size)
        for relief in (_nothing, self._trim_all, gc.collect, self._trim_all):
            relief()
            address = self._map(size)
            if address:
                with self._lock:
                    self.reserved += size
                    self.peak = max(self.peak, self.reserved)
                return address
        used = statistics().in_use
        raise out_of_memory(
            f"cannot allocate {size:,} bytes: {used:,} are in use, and no idle blocks are left to unmap"
        )

    def _map(self, size: int) -> int:
        """The address of page-aligned memory, or 0. Blocks of huge pages are mapped with a margin, which is unmapped to
        align them."""
        margin = _HUGE_PAGE if size >= _HUGE_PAGE else 0
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        start = self._libc.mmap(None, size + margin, mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0)
        if start == ctypes.c_void_p(-1).value:
            return 0
        if not margin:
            return start
        address = -(-start // margin) * margin
        pages_end = -(-(address + size) // mmap.PAGESIZE) * mmap.PAGESIZE
        self._unmap(start, address - start)
        self._unmap(pages_end, start + size + margin - pages_end)
        self._libc.madvise(address, size, mmap.MADV_HUGEPAGE)
        return address

    def _unmap(self, address: int, size: int) -> None:
        if size > 0:
            self._libc.munmap(address, size)

    def note_freed(self, size: int) -> None:
        self._freed += size
        if self._freed > self.limit >> 3:
            self.release_cached(self.limit)
        self._turnover += size
        if self._turnover > _TURNOVER * max(self.reserved, _FEW_BYTES):
            self.trim_unused()

    def cached_bytes(self) -> int:
        """The bytes of idle blocks larger than 32 KiB."""
        return sum(size * len(c.free) for size, c in list(self._large.items()))

    def release_cached(self, limit: int) -> None:
        """Unmap the oldest idle blocks, first of the classes with most idle bytes, until at most `limit` bytes are
        idle."""
        self._freed = 0
        excess = self.cached_bytes() - limit
        for size_class in sorted(self._large.values(), key=lambda c: c.size * len(c.free), reverse=True):
            while excess > 0 and size_class.free:
                excess -= self._drop(size_class)

    def trim_unused(self) -> None:
        """Unmap the blocks that were idle since the last time: other sizes are in use, for instance other shapes."""
        self._turnover = 0
        for size_class in list(self._large.values()):
            while size_class.unused > 0 and size_class.free:
                size_class.unused -= 1
                self._drop(size_class)
            size_class.unused = len(size_class.free)

    def _drop(self, size_class: _LargeClass) -> int:
        try:
            address = size_class.free.pop(0)
        except IndexError:  # another thread took it
            return 0
        self._unmap(address, size_class.size)
        with self._lock:
            self.reserved -= size_class.size
        return size_class.size

    def _trim_all(self) -> None:
        self.release_cached(0)


def _nothing() -> None:
    """Before the first attempt no memory has to be freed."""


_system = _System()
caches_of_blocks.append(_system)
