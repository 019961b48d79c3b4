"""What several reports contain."""

from __future__ import annotations

from ...ir.lazy_dataclass import dataclass
from .record import Count, Record


@dataclass(frozen=True, kw_only=True)
class Argument(Record):
    """An input or an output of a model."""

    name: str
    dtype: str | None
    """The name of the dtype in NumPy, or bfloat16; null: it is not known."""
    shape: tuple[Count | None, ...] | None
    """null: the rank is not known. An extent that is not known is null."""


@dataclass(frozen=True, kw_only=True)
class Machine(Record):
    """What code is compiled for."""

    cpu: str
    """The set of instructions."""
    vector_bits: Count
    threads: Count


@dataclass(frozen=True, kw_only=True)
class Gpu(Record):
    """What code for a GPU is compiled for."""

    gpu: str
    """The architecture, such as sm_90."""
    multiprocessors: Count
    """Those from which schedules were derived."""
    shared_bytes: Count
    """The shared memory of a block."""
