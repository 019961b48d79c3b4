"""The properties of an NVIDIA GPU from which schedules are derived."""

from __future__ import annotations

from ...ir.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Gpu:
    """`capability` is 90 for sm_90; `shared_bytes` is the shared memory of a block."""

    capability: int
    shared_bytes: int
    multiprocessors: int
