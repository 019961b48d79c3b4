"""Loads the thread pool, the native code that runs programs, and binds it to Python.

`native/pool.c` is the code and describes it. `native_objects.py` finds its object file.
"""

from __future__ import annotations

import atexit
import ctypes
import os
from collections.abc import Callable

from ...codegen.llvm.pool import LARGEST_POOL, RUN
from ...codegen.records import COPIED, COPY, KERNELS, RECORD_WORDS
from .direct_calls import DirectCalls, resolve_python
from .loader import load_object, load_objects, resolve_libc
from .machine import host_target
from .native_objects import POOL, PYTHON_CALLS, machine_of, native_object

RECORD_BYTES = 8 * RECORD_WORDS
SPIN_NANOSECONDS = 200_000
_RUN_ARGUMENTS = (ctypes.c_void_p, ctypes.c_int64)


class ThreadPool:
    """Workers and the launch loop. `get_pool` returns the pool of the process.

    `run(records, n)` runs n launch records, four 8-byte slots each (kernel address, arguments address, count, grain),
    that start at the address `records`: in order, each finished before the next. The caller owns the memory of records
    and arguments, keeps it alive, and does not run the same program from two threads at once. Other Python threads
    continue meanwhile. `run_holding_gil` is the same for programs of a few microseconds: it does not release Python's
    lock, so all Python threads wait for it.

    `direct_calls` makes calls of short programs that take fewer steps.

    `kernels` are the addresses of the kernels that every process has (`native/pool.h`).

    Both are ctypes functions. Prebuilt arguments (`ctypes.c_void_p(address)`, `ctypes.c_int64(n)`) make a call cheaper
    than ints.
    """

    run: Callable[[int | ctypes.c_void_p, int | ctypes.c_int64], None]
    run_holding_gil: Callable[[int | ctypes.c_void_p, int | ctypes.c_int64], None]

    def __init__(self, threads: int, pool: bytes, python_calls: bytes) -> None:
        """`pool` and `python_calls` are the objects of `native_objects.py`. ValueError for an impossible number of
        threads, OSError if the system refuses memory that forks clear."""
        loaded = load_object(pool, resolve_libc)
        calls = load_objects((python_calls,), resolve_python, (loaded,))[0]
        for each in (loaded, calls):
            each.keep_forever()  # daemon threads can run its code while the interpreter exits
        address = loaded.address
        open_pool = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32, ctypes.c_int64)(address("mxf_open"))
        if error := open_pool(_checked_threads(threads), SPIN_NANOSECONDS):
            raise OSError(error, f"memory of the thread pool: {os.strerror(error)}")
        self._threads = ctypes.c_int32.from_address(address("mxf_threads"))
        self.run_address = address(RUN)
        self.kernels = {name: address(name) for name in KERNELS}
        self.run = ctypes.CFUNCTYPE(None, *_RUN_ARGUMENTS)(self.run_address)
        self.run_holding_gil = ctypes.PYFUNCTYPE(None, *_RUN_ARGUMENTS)(self.run_address)
        self.direct_calls = DirectCalls(calls.address)
        self._resize = ctypes.CFUNCTYPE(None, ctypes.c_int32)(address("mxf_resize"))
        self._stop = ctypes.CFUNCTYPE(None)(address("mxf_stop"))
        self._closed = False

    @property
    def threads(self) -> int:
        """The number of threads that share a launch, including the caller's. Worker numbers are less than this."""
        return self._threads.value

    def resize(self, threads: int) -> None:
        """Use `threads` threads from the next launch on. Kernels must not call this."""
        if _checked_threads(threads) != self.threads:
            self._resize(threads)

    def copy(self, target: int, source: int, nbytes: int) -> None:
        """Copy memory that does not overlap, on all threads."""
        words = (ctypes.c_int64 * 6)(self.kernels[COPY], 0, nbytes, COPIED, target, source)
        address = ctypes.addressof(words)
        words[1] = address + 4 * ctypes.sizeof(ctypes.c_int64)
        self.run(address, 1)

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
    target = host_target()
    machine = machine_of(target.triple)
    created = ThreadPool(target.threads, native_object(POOL, machine), native_object(PYTHON_CALLS, machine))
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
