"""The peaks of this machine, as measured: arithmetic, memory and the last cache."""

from __future__ import annotations

from ...ir.lazy_dataclass import dataclass
from ...runtime.host.machine import last_cache_bytes
from ...runtime.host.probes import peak_operations, read_bandwidth
from ...runtime.memory_limit import physical_memory

_LEAST_BYTES = 256 << 20
_CACHES = 4
"""The buffer of the memory's measurement is so many times the last cache."""


@dataclass(frozen=True)
class Peaks:
    """Of all threads of this process together.

    `operations` are float32 operations per second: independent multiply-adds on full vectors in registers, two
    operations each, the fastest of many runs of a few milliseconds. `bandwidth` are the bytes per second at which the
    threads read a buffer of four times the last cache and at least 256 MiB (and at most an eighth of the memory).
    `cache_bandwidth` is the same for a buffer of half the last cache; None if the system does not name its size.
    On a GPU, `operations` are those of a large matrix product and `bandwidth` that of a copy. `measured` states which.
    """

    operations: float
    bandwidth: float
    cache_bandwidth: float | None
    measured: str = "multiply-adds in registers, and reads"

    def least_seconds(self, operations: float, nbytes: float) -> float:
        """The time that this work takes at least, with data from memory."""
        return max(operations / self.operations, nbytes / self.bandwidth)

    def is_memory_bound(self, operations: float, nbytes: float) -> bool:
        """True if reading and writing takes longer than the arithmetic, each at its peak."""
        return nbytes / self.bandwidth > operations / self.operations


def measure_peaks() -> Peaks:
    """Measure the peaks, in about a second."""
    cache = last_cache_bytes()
    buffer = min(max(_LEAST_BYTES, _CACHES * cache), physical_memory() // 8)
    return Peaks(peak_operations(), read_bandwidth(buffer), read_bandwidth(cache // 2) if cache else None)
