"""Loads the thread pool, the native code that runs programs, and binds it to Python.

`codegen/llvm/support.py` emits the code and describes it. `support_object.py` finds its object file.
"""

from __future__ import annotations

import atexit
import ctypes
import mmap
import os
from collections.abc import Callable

from ...codegen.llvm.support import COPY, LARGEST_POOL, PIECES, RUN
from ...codegen.llvm.target import CpuTarget
from ..cache import DiskCache, default_cache
from .direct_calls import DirectCalls, resolve_python
from .loader import load_object, resolve_libc
from .machine import host_target
from .support_object import support_object

RECORD_BYTES = 32
SPIN_NANOSECONDS = 200_000
_MADV_WIPEONFORK = 18
_RUN_ARGUMENTS = (ctypes.c_void_p, ctypes.c_int64)


class ThreadPool:
    """Workers and the launch loop. `get_pool` returns the pool of the process.

    `run(records, n)` runs n launch records, four 8-byte slots each (kernel address, arguments address, count, grain),
    that start at the address `records`: in order, each finished before the next. The caller owns the memory of records
    and arguments, keeps it alive, and does not run the same program from two threads at once. Other Python threads
    continue meanwhile. `run_holding_gil` is the same for programs of a few microseconds: it does not release Python's
    lock, so all Python threads wait for it.

    `direct_calls` makes calls of short programs that take fewer steps.

    `kernels` are the addresses of the kernels that every process has (`codegen/llvm/support.py`).

    Both are ctypes functions. Prebuilt arguments (`ctypes.c_void_p(address)`, `ctypes.c_int64(n)`) make a call cheaper
    than ints.
    """

    run: Callable[[int | ctypes.c_void_p, int | ctypes.c_int64], None]
    run_holding_gil: Callable[[int | ctypes.c_void_p, int | ctypes.c_int64], None]

    def __init__(self, target: CpuTarget, cache: DiskCache) -> None:
        self._object = load_object(
            support_object(target, mmap.PAGESIZE, cache), lambda name: resolve_python(name) or resolve_libc(name)
        )
        self._object.keep_forever()  # daemon threads can run its code while the interpreter exits
        address = self._object.address
        _wipe_on_fork(address("mxf_state"))
        self._threads = ctypes.c_int32.from_address(address("mxf_threads"))
        self._threads.value = _checked_threads(target.threads)
        ctypes.c_int64.from_address(address("mxf_spin_ns")).value = SPIN_NANOSECONDS
        self.run_address = address(RUN)
        self.kernels = {name: address(name) for name in (PIECES, COPY)}
        self.run = ctypes.CFUNCTYPE(None, *_RUN_ARGUMENTS)(self.run_address)
        self.run_holding_gil = ctypes.PYFUNCTYPE(None, *_RUN_ARGUMENTS)(self.run_address)
        self.direct_calls = DirectCalls(address)
        self._resize = ctypes.CFUNCTYPE(None, ctypes.c_int32)(address("mxf_resize"))
        self._stop = ctypes.CFUNCTYPE(None)(address("mxf_stop"))
        self._closed = False

    def function(self, name: str) -> int:
        """The address of a function that programs call for their nested programs; 0 for any other name."""
        return self.run_address if name == RUN else 0

    @property
    def threads(self) -> int:
        """The number of threads that share a launch, including the caller's. Worker numbers are less than this."""
        return self._threads.value

    def resize(self, threads: int) -> None:
        """Use `threads` threads from the next launch on. Kernels must not call this."""
        if _checked_threads(threads) != self.threads:
            self._resize(threads)

    def close(self) -> None:
        """Stop the workers; later runs do without them. Called at exit, before the memory that workers use is freed."""
        if not self._closed:
            self._closed = True
            self._stop()


_pools: dict[str, ThreadPool] = {}


def get_pool() -> ThreadPool:
    """The pool of this process. Its threads start at the first launch that they can share, also in a forked child."""
    pool = _pools.get("cpu")
    return pool if pool is not None else _first_pool()


def _first_pool() -> ThreadPool:
    """Create the pool. If two threads do so at once, one pool is dropped unused. A lock could be held during a fork."""
    created = ThreadPool(host_target(), default_cache())
    pool = _pools.setdefault("cpu", created)
    if pool is created:
        atexit.register(pool.close)
    return pool


def set_num_threads(threads: int) -> None:
    """Use `threads` threads for kernels. ValueError for more than the process started with (MXFORGE_NUM_THREADS, else
    its cores), for which programs reserve memory."""
    most = host_target().threads
    if _checked_threads(threads) > most:
        raise ValueError(f"{threads} threads: programs are compiled for {most}; set MXFORGE_NUM_THREADS at the start")
    get_pool().resize(threads)


def get_num_threads() -> int:
    """The number of threads that kernels use."""
    return get_pool().threads


def _checked_threads(threads: int) -> int:
    if not 1 <= threads <= LARGEST_POOL:
        raise ValueError(f"{threads} threads: a pool has 1 to {LARGEST_POOL}")
    return threads


def _wipe_on_fork(address: int) -> None:
    """Make Linux (4.14 and later) zero the page in forked children, in which the workers do not exist."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    if libc.madvise(address, mmap.PAGESIZE, _MADV_WIPEONFORK):
        raise OSError(ctypes.get_errno(), f"madvise(MADV_WIPEONFORK): {os.strerror(ctypes.get_errno())}")
