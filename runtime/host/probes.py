"""Measures this machine with native kernels, and times the launches of a program during a run.

`codegen/llvm/probes.py` emits the kernels.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np

from ...codegen.llvm.probes import FMA, LINE, READ, READ_PAGE, SLOTS, TIMED, fma_operations, probe_module
from ...codegen.llvm.target import CpuTarget
from ...codegen.records import RECORD_WORDS
from ...ir.lazy_dataclass import dataclass
from ..storage import Storage
from .allocator import allocate, allocate_zeroed
from .executable import Executable
from .loader import LoadedObject, load_object
from .machine import host_target
from .threads import ThreadPool, get_pool

_WORD = 8
_HEADER_WORDS, _SLOT_WORDS = SLOTS // _WORD, LINE // _WORD
_SECONDS = 0.3
"""The duration of one measurement."""
_PAGES_AT_ONCE = 64
_ONE = ctypes.c_int64(1)


def _address(kernel: str) -> int:
    return _probes(host_target()).address(kernel)


@cache
def _probes(target: CpuTarget) -> LoadedObject:
    from ...codegen.llvm.compile import compile_object

    return load_object(compile_object(probe_module(target), target))


def peak_operations(duration: float | None = None) -> float:
    """Float32 operations per second of the thread pool: multiply-adds (two operations each) on full vectors in
    registers. The fastest of many short runs, which take `duration` seconds."""
    pool, sink = get_pool(), _sink(get_pool())
    arguments = (ctypes.c_int64 * 2)(0, sink.address)
    ctypes.memmove(arguments, np.array([0.5, 1.0], np.float32).ctypes.data, _WORD)
    units = 64 * pool.threads
    seconds = _fastest(pool, _record(FMA, arguments, units, 1), duration)
    return units * fma_operations(host_target()) / seconds


def read_bandwidth(nbytes: int, duration: float | None = None) -> float:
    """Bytes per second at which the thread pool reads a buffer of this size again and again. The fastest of many runs,
    which take `duration` seconds.

    The memory of a buffer much larger than all caches is limited by the memory; of a smaller one, by the cache in which
    it fits.
    """
    pool, sink = get_pool(), _sink(get_pool())
    pages = max(nbytes // READ_PAGE, 1)
    buffer = allocate(pages * READ_PAGE)
    ctypes.memset(buffer.address, 1, pages * READ_PAGE)  # untouched pages would all be one page of zeros
    arguments = (ctypes.c_int64 * 2)(buffer.address, sink.address)
    seconds = _fastest(pool, _record(READ, arguments, pages, _PAGES_AT_ONCE), duration)
    return pages * READ_PAGE / seconds


def sharing_seconds() -> tuple[float, float]:
    """(seconds in which two threads start and finish a launch, seconds for each further chunk of a thread): what equal
    work on two threads takes beyond the same on one. The fastest of many runs. The pool has two threads."""
    pool, sink = get_pool(), _sink(get_pool())
    arguments = (ctypes.c_int64 * 2)(0, sink.address)
    ctypes.memmove(arguments, np.array([0.5, 1.0], np.float32).ctypes.data, _WORD)
    chunks = 16
    alone, halves, many = (
        _fastest(pool, _record(FMA, arguments, units, grain))
        for units, grain in ((chunks // 2, chunks), (chunks, chunks // 2), (chunks, 1))
    )
    return max(0.0, halves - alone), max(0.0, (many - halves) / (chunks // 2 - 1))


def _sink(pool: ThreadPool) -> Storage:
    return allocate(LINE * pool.threads)


def _record(
    kernel: str, arguments: ctypes.Array[ctypes.c_int64], count: int, grain: int
) -> ctypes.Array[ctypes.c_int64]:
    return (ctypes.c_int64 * RECORD_WORDS)(_address(kernel), ctypes.addressof(arguments), count, grain)


def _fastest(pool: ThreadPool, record: ctypes.Array[ctypes.c_int64], duration: float | None = None) -> float:
    """The shortest time of one launch, in seconds."""
    address, best = ctypes.c_void_p(ctypes.addressof(record)), float("inf")
    end = time.perf_counter() + (_SECONDS if duration is None else duration)
    while (start := time.perf_counter()) < end:
        pool.run(address, _ONE)
        best = min(best, time.perf_counter() - start)
    return best


@dataclass(frozen=True, eq=False)
class RunTimes:
    """The times of one run, in nanoseconds of `time.perf_counter_ns`: `begin[i, w]` and `end[i, w]` of the part of
    launch i that worker w ran, both 0 if it ran none, and `busy[i, w]` without pauses between its chunks."""

    begin: np.ndarray
    end: np.ndarray
    busy: np.ndarray

    def launches(self) -> tuple[np.ndarray, np.ndarray]:
        """The begin and the end of each launch. A launch without work has no duration."""
        worked = self.begin > 0
        begin = np.where(worked, self.begin, np.iinfo(np.int64).max).min(axis=1)
        first = begin.min(initial=np.iinfo(np.int64).max) if worked.any() else 0
        end = np.maximum.accumulate(np.maximum(self.end.max(axis=1), first))
        return np.where(worked.any(axis=1), begin, end), end


class TimedRuns:
    """Runs a program on operands at fixed addresses and times its launches, in one native call as any run.

    Each chunk of a launch takes two readings of the clock more than otherwise. The program has no groups of launches.
    """

    def __init__(self, executable: Executable, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        self._executable, self._pool = executable, get_pool()
        self._call: Callable[[], None] = lambda: executable.run(inputs, outputs)
        self._call()  # prepares, and patches the addresses
        count = len(executable.program.computations)
        row = _HEADER_WORDS + _SLOT_WORDS * self._pool.threads
        self._memory = allocate_zeroed(_WORD * count * (row + RECORD_WORDS))
        words = np.ctypeslib.as_array(
            (ctypes.c_int64 * (count * (row + RECORD_WORDS))).from_address(self._memory.address)
        )
        self._tables, self._records = words[: count * row].reshape(count, row), words[count * row :]
        self._slots = self._tables[:, _HEADER_WORDS:].reshape(count, self._pool.threads, _SLOT_WORDS)
        self._fill()

    def _fill(self) -> None:
        """Write a record for each launch, which calls the launch's kernel through `mxf_timed`."""
        instance = self._executable.take_instance()
        own = self._records.reshape(-1, RECORD_WORDS)
        source = (ctypes.c_int64 * own.size).from_address(instance.records[0].value or 0) if own.size else ()
        own[:] = np.array(source, np.int64).reshape(own.shape)
        self._tables[:, :2] = own[:, :2]
        own[:, 0] = _address(TIMED)
        own[:, 1] = self._memory.address + self._tables.strides[0] * np.arange(len(own))
        self._executable.give_instance(instance)

    def plain(self) -> float:
        """Run the program as any caller does; returns the seconds."""
        start = time.perf_counter()
        self._call()
        return time.perf_counter() - start

    def timed(self) -> RunTimes:
        """Run the program and time its launches."""
        self._slots[:] = 0
        instance = self._executable.take_instance()  # the records point into its arena
        self._pool.run(self._records.ctypes.data, len(self._tables))
        self._executable.give_instance(instance)
        begin, end, busy = (self._slots[:, :, i].copy() for i in range(3))
        return RunTimes(begin, end, busy)
