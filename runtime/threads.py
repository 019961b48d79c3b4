"""The threads that run kernels, and the one native call that runs a program.

What happens inside of that call is written in `codegen/llvm/support.py`; here its module is compiled (or taken from the
disk cache), loaded, and bound to Python.
"""

from __future__ import annotations

import atexit
import ctypes
import hashlib
import mmap
import os
from collections.abc import Callable

from ..codegen.llvm.support import LARGEST_POOL, support_module
from ..codegen.llvm.target import CpuTarget
from .cache import DiskCache, default_cache
from .elf import load_object
from .host import host_target

RECORD_BYTES = 32
SPIN_NANOSECONDS = 200_000
_MADV_WIPEONFORK = 18
_RUN_ARGUMENTS = (ctypes.c_void_p, ctypes.c_int64)


class ThreadPool:
    """Workers and the launch loop. `get_pool` gives the process its one pool.

    `run(records, n)` runs n launch records, four 8-byte slots each (kernel address, arguments address, count, grain),
    that start at the address `records`: in order, each finished before the next. The memory of records and arguments is
    the caller's, who keeps it alive and does not run the same program from two threads at once. Other Python threads go
    on meanwhile. `run_holding_gil` is the same for programs of a few microseconds: it saves the release of Python's
    lock, and all Python threads wait for it.

    Both are plain ctypes functions. Prebuilt arguments (`ctypes.c_void_p(address)`, `ctypes.c_int64(n)`) make a call
    cheaper than ints do.
    """

    run: Callable[[int | ctypes.c_void_p, int | ctypes.c_int64], None]
    run_holding_gil: Callable[[int | ctypes.c_void_p, int | ctypes.c_int64], None]

    def __init__(self, target: CpuTarget, cache: DiskCache) -> None:
        self._object = load_object(_support_object(target, cache))
        self._object.keep_forever()  # daemon threads may be inside of it when the interpreter ends
        address = self._object.address
        _wipe_on_fork(address("mxf_state"))
        self._threads = ctypes.c_int32.from_address(address("mxf_threads"))
        self._threads.value = _checked_threads(target.threads)
        ctypes.c_int64.from_address(address("mxf_spin_ns")).value = SPIN_NANOSECONDS
        self.run_address = address("mxf_run")
        self.run = ctypes.CFUNCTYPE(None, *_RUN_ARGUMENTS)(self.run_address)
        self.run_holding_gil = ctypes.PYFUNCTYPE(None, *_RUN_ARGUMENTS)(self.run_address)
        self._resize = ctypes.CFUNCTYPE(None, ctypes.c_int32)(address("mxf_resize"))
        self._stop = ctypes.CFUNCTYPE(None)(address("mxf_stop"))
        self._closed = False

    @property
    def threads(self) -> int:
        """Threads that share a launch, the caller's among them. Worker numbers are less than this."""
        return self._threads.value

    def resize(self, threads: int) -> None:
        """Uses `threads` threads from the next launch on. Not to be called from a kernel."""
        if _checked_threads(threads) != self.threads:
            self._resize(threads)

    def close(self) -> None:
        """Ends the workers; later runs go on without them. Called at exit, before what the workers use goes away."""
        if not self._closed:
            self._closed = True
            self._stop()


_pools: dict[str, ThreadPool] = {}


def get_pool() -> ThreadPool:
    """This process's pool. Its threads start with the first launch that they can share, also in a forked child."""
    pool = _pools.get("cpu")
    return pool if pool is not None else _first_pool()


def _first_pool() -> ThreadPool:
    """Of two threads here at once one pool wins, the other is dropped unused. No lock that a fork could leave held."""
    made = ThreadPool(host_target(), default_cache())
    pool = _pools.setdefault("cpu", made)
    if pool is made:
        atexit.register(pool.close)
    return pool


def set_num_threads(threads: int) -> None:
    """Uses `threads` threads for kernels: at most those that the process began with (MXFORGE_NUM_THREADS, else its
    cores), for which programs set memory aside. ValueError for more."""
    most = host_target().threads
    if _checked_threads(threads) > most:
        raise ValueError(f"{threads} threads: programs are compiled for {most}; set MXFORGE_NUM_THREADS at the start")
    get_pool().resize(threads)


def get_num_threads() -> int:
    """Threads that kernels use."""
    return get_pool().threads


def _checked_threads(threads: int) -> int:
    if not 1 <= threads <= LARGEST_POOL:
        raise ValueError(f"{threads} threads: a pool has 1 to {LARGEST_POOL}")
    return threads


def _support_object(target: CpuTarget, cache: DiskCache) -> bytes:
    """The compiled support module. LLVM is imported only when the cache has none."""
    text = support_module(target.triple, mmap.PAGESIZE)
    identity = "\0".join(("support", target.triple, target.cpu, target.features, text))
    key = hashlib.sha256(identity.encode()).hexdigest()
    data = cache.get(key)
    if data is None:
        from ..codegen.llvm.compile import compile_object

        data = compile_object(text, target)
        cache.put(key, data)
    return data


def _wipe_on_fork(address: int) -> None:
    """Has the kernel (Linux 4.14 and later) zero the page in forked children, in which the workers do not exist."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    if libc.madvise(address, mmap.PAGESIZE, _MADV_WIPEONFORK):
        raise OSError(ctypes.get_errno(), f"madvise(MADV_WIPEONFORK): {os.strerror(ctypes.get_errno())}")
