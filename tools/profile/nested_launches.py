"""Records the launches that loops and branches of a program make while it runs."""

from __future__ import annotations

import ctypes
import time
from functools import cache

from ...codegen.records import BRANCH, LOOP, RECORD_WORDS
from ...ir.lazy_dataclass import dataclass
from ...runtime.host.records import WORD
from ...runtime.host.threads import RECORD_BYTES, get_pool

_ROUNDS = 1000
_KERNEL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int32)


@dataclass(frozen=True)
class Nested:
    """A launch of `count` units in chunks of at least `grain`, which started at `begin` (as `perf_counter_ns`) and took
    so many nanoseconds."""

    begin: int
    nanoseconds: int
    count: int
    grain: int


class NestedLaunches:
    """Replaces the kernels that run loops and branches: each launch in them runs alone and is appended to `launches`.
    Programs that are loaded between `install` and `remove` call it."""

    def __init__(self) -> None:
        self.launches: list[Nested] = []
        self._pool = get_pool()
        self._callbacks = {LOOP: _KERNEL(self._loop), BRANCH: _KERNEL(self._branch)}
        self._native = {name: self._pool.kernels[name] for name in self._callbacks}
        self._overhead = 0

    def install(self) -> None:
        """Let programs that are loaded from now on call this."""
        self._overhead = self._measure()
        for name, callback in self._callbacks.items():
            self._pool.kernels[name] = ctypes.cast(callback, ctypes.c_void_p).value or 0

    def remove(self) -> None:
        """Let programs that are loaded from now on call the native kernels."""
        self._pool.kernels.update(self._native)

    def _measure(self) -> int:
        """The nanoseconds of a call that launches nothing."""
        nothing = (ctypes.c_int64 * (RECORD_BYTES // 8))()
        best = 1 << 60
        for _ in range(_ROUNDS):
            begin = time.perf_counter_ns()
            self._pool.run(ctypes.addressof(nothing), 1)
            best = min(best, time.perf_counter_ns() - begin)
        return best

    def _loop(self, table: int, begin: int, end: int, worker: int) -> None:
        flag, count, records, number, moves = _words(table, 5)
        pairs = _words(table + 5 * WORD, 2 * moves)
        moving = [(ctypes.c_int64.from_address(w), step) for w, step in zip(pairs[::2], pairs[1::2], strict=True)]
        done = 0
        while done < count and (not flag or ctypes.c_uint8.from_address(flag).value):
            self._launch(records, number)
            for word, step in moving:
                word.value += step
            done += 1
        for word, step in moving:
            word.value -= done * step

    def _branch(self, table: int, begin: int, end: int, worker: int) -> None:
        flag, *lists = _words(table, 5)
        self._launch(*(lists[:2] if ctypes.c_uint8.from_address(flag).value else lists[2:]))

    def _launch(self, records: int, number: int) -> None:
        for address in range(records, records + number * RECORD_BYTES, RECORD_BYTES):
            inside = len(self.launches)
            begin = time.perf_counter_ns()
            self._pool.run(address, 1)
            spent = time.perf_counter_ns() - begin
            if len(self.launches) == inside:  # otherwise a loop, whose own launches were recorded
                _, _, count, grain = _words(address, RECORD_WORDS)
                self.launches.append(Nested(begin, max(0, spent - self._overhead), count, grain))


def _words(address: int, count: int) -> list[int]:
    """The words of a record or a table; see `codegen/records.py`."""
    return list((ctypes.c_int64 * count).from_address(address))


@cache
def nested_launches() -> NestedLaunches:
    """The recorder of this process. It lives as long as the process, because loaded programs call it."""
    return NestedLaunches()
