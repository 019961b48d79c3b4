"""Blocks of memory that a worker process shares with the process of its loader.

A worker creates a block as an anonymous file and sends the descriptor. Both map it and close the descriptor: blocks
have no names, use no space in /dev/shm, and are freed with the last process that maps them. A worker uses a block again
when neither its own arrays nor those of the loader's process need it.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import tempfile
from collections import deque
from functools import cache
from typing import Any

from .....runtime.storage import Storage, size_of_block
from ....base import MXNetError
from ....tracebacks import cause_of

_FEW_BLOCKS = 16


class Mapping:
    """A file that is mapped into this process, until this object is freed."""

    __slots__ = ("__weakref__", "_unmap", "address", "nbytes")

    def __init__(self, descriptor: int, nbytes: int) -> None:
        libc = _libc()
        self._unmap = libc.munmap
        self.nbytes = nbytes
        self.address = libc.mmap(None, nbytes, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED, descriptor, 0)
        if self.address == ctypes.c_void_p(-1).value:
            self.address = 0
            raise MXNetError(f"cannot map {nbytes:,} bytes of shared memory: {os.strerror(ctypes.get_errno())}")

    def __del__(self) -> None:
        if getattr(self, "address", 0):
            self._unmap(self.address, self.nbytes)


class ReceivedStorage(Storage):
    """Memory of a worker that this process uses. When it is freed, the number of the block is added to `freed`."""

    __slots__ = ("_freed", "_mapping", "_number")

    def __init__(self, mapping: Mapping, number: int, nbytes: int, freed: deque[int]) -> None:
        self.address, self.nbytes = mapping.address, nbytes
        self._mapping, self._number, self._freed = mapping, number, freed

    def __del__(self) -> None:
        self._freed.append(self._number)


class Block:
    """A block of this worker. `users` counts its storage here, and the loader's process while that needs it."""

    __slots__ = ("mapping", "number", "users")

    def __init__(self, number: int, mapping: Mapping) -> None:
        self.number, self.mapping, self.users = number, mapping, 0


class BlockStorage(Storage):
    """The memory of a block in the worker that owns it."""

    __slots__ = ("_arena", "block")

    def __init__(self, arena: Arena, block: Block, nbytes: int) -> None:
        self.address, self.nbytes = block.mapping.address, nbytes
        self._arena, self.block = arena, block

    def __del__(self) -> None:
        self._arena.unuse(self.block)


class Arena:
    """The blocks of a worker. `created` are the numbers, sizes and descriptors of blocks that are not announced yet,
    `dropped` the numbers of blocks that no longer exist."""

    def __init__(self) -> None:
        self.created: list[tuple[int, int, int]] = []
        self.dropped: list[int] = []
        self._blocks: dict[int, Block] = {}  # all: otherwise one could be garbage together with its last storage, whose
        self._idle: list[Block] = []  # finalizer adds it here after its memory has been unmapped
        self._count = 0

    def allocate(self, nbytes: int) -> BlockStorage:
        """Memory for `nbytes`: the smallest idle block that is large enough, or else a new one in place of the largest
        idle one."""
        self._idle.sort(key=lambda block: block.mapping.nbytes)
        fitting = (i for i, block in enumerate(self._idle) if block.mapping.nbytes >= nbytes)
        position = next(fitting, None)
        if position is not None:
            block = self._idle.pop(position)
        else:
            if self._idle:
                self._drop(self._idle.pop())
            block = self._create(nbytes)
        self._trim()
        block.users = 1
        return BlockStorage(self, block, nbytes)

    def _trim(self) -> None:
        """Drop the smallest idle blocks if most blocks are idle: the loader's process used more batches at once."""
        used = len(self._blocks) - len(self._idle)
        for _ in range(len(self._idle) - max(_FEW_BLOCKS, 2 * used)):
            self._drop(self._idle.pop(0))

    def _create(self, nbytes: int) -> Block:
        size = -(-size_of_block(nbytes) // mmap.PAGESIZE) * mmap.PAGESIZE
        descriptor = _anonymous_file(size)
        try:
            block = Block(self._count, Mapping(descriptor, size))
        except BaseException:
            os.close(descriptor)
            raise
        self._blocks[block.number] = block
        self._count += 1
        self.created.append((block.number, size, descriptor))
        return block

    def _drop(self, block: Block) -> None:
        del self._blocks[block.number]
        self.dropped.append(block.number)

    def lend(self, block: Block) -> int:
        """Keep the block for the loader's process. Returns its number."""
        block.users += 1
        return block.number

    def take_back(self, number: int) -> None:
        """The loader's process does not need the block any more."""
        self.unuse(self._blocks[number])

    def unuse(self, block: Block) -> None:
        """One user of the block less."""
        block.users -= 1
        if not block.users:
            self._idle.append(block)


def _anonymous_file(nbytes: int) -> int:
    """The descriptor of a file of `nbytes` without a name, in memory where the system can do that. MXNetError if there
    is no space."""
    descriptor = _memory_file()
    try:
        if descriptor is None:
            descriptor = _temporary_file()
        os.posix_fallocate(descriptor, 0, nbytes)
    except OSError as error:
        if descriptor is not None:
            os.close(descriptor)
        raise MXNetError(
            f"a DataLoader's worker cannot get {nbytes:,} bytes of shared memory for a batch: {error.strerror}. Use "
            "fewer workers (num_workers), a smaller prefetch or a smaller batch"
        ) from cause_of(error)
    return descriptor


def _memory_file() -> int | None:
    """A file in memory; None on systems that have no such files."""
    try:
        return os.memfd_create("mxforge-batch", os.MFD_CLOEXEC)
    except (AttributeError, OSError):
        return None


def _temporary_file() -> int:
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


@cache
def _libc() -> Any:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long)
    libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    return libc
