"""Records the launches that loops and branches of a program make while it runs."""

from __future__ import annotations

import ctypes
import time
from functools import cache

from ...ir.lazy_dataclass import dataclass
from ...runtime.host.threads import RECORD_BYTES, get_pool

_ROUNDS = 1000


@dataclass(frozen=True)
class Nested:
    """A launch of `count` units in chunks of at least `grain`, which started at `begin` (as `perf_counter_ns`) and took
    so many nanoseconds."""

    begin: int
    nanoseconds: int
    count: int
    grain: int


class NestedLaunches:
    """Replaces the native function that loops call to launch the kernels of a step: it runs each launch alone and
    appends it to `found`. Programs that are loaded between `install` and `remove` call it."""

    def __init__(self) -> None:
        self.found: list[Nested] = []
        self._pool = get_pool()
        self._callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(self._launch)
        self._native = self._pool.run_address
        self._overhead = 0

    def install(self) -> None:
        """Let programs that are loaded from now on call this."""
        self._overhead = self._measure()
        self._pool.run_address = ctypes.cast(self._callback, ctypes.c_void_p).value or 0

    def remove(self) -> None:
        """Let programs that are loaded from now on call the native function."""
        self._pool.run_address = self._native

    def _measure(self) -> int:
        """The nanoseconds of a call that launches nothing."""
        nothing = (ctypes.c_int64 * (RECORD_BYTES // 8))()
        best = 1 << 60
        for _ in range(_ROUNDS):
            begin = time.perf_counter_ns()
            self._pool.run(ctypes.addressof(nothing), 1)
            best = min(best, time.perf_counter_ns() - begin)
        return best

    def _launch(self, records: int, number: int) -> None:
        for address in range(records, records + number * RECORD_BYTES, RECORD_BYTES):
            inside = len(self.found)
            begin = time.perf_counter_ns()
            self._pool.run(address, 1)
            spent = time.perf_counter_ns() - begin
            if len(self.found) == inside:  # otherwise a loop, whose own launches were recorded
                _, _, count, grain = (ctypes.c_int64 * (RECORD_BYTES // 8)).from_address(address)
                self.found.append(Nested(begin, max(0, spent - self._overhead), count, grain))


@cache
def nested_launches() -> NestedLaunches:
    """The recorder of this process. It lives as long as the process, because loaded programs call it."""
    return NestedLaunches()
