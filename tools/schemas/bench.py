"""The report of `mxforge bench`."""

from __future__ import annotations

from typing import Literal

from ...ir.lazy_dataclass import dataclass
from .record import Amount, Count, Real, Record, Seconds


@dataclass(frozen=True, kw_only=True)
class Program(Record):
    """A program that was measured. Times are in seconds, memory in bytes."""

    engine: str
    """mxforge, or the name of a peer."""
    version: str
    python: str
    imported: Seconds
    """The time of the import."""
    cold: Seconds
    """From the imported framework to the first result, without caches."""
    warm: Seconds | None
    """The same with the disk cache filled; null for peers."""
    peak: Count
    """The largest memory of the process."""
    cold_peak: Count
    """That without caches; 0 for peers."""
    difference: Real | None
    """The largest difference from the outputs of mxforge, by the largest element of these; null for mxforge."""
    calls: Count
    """A sample is the mean time of so many calls."""
    samples: tuple[Seconds, ...]
    min: Seconds
    p50: Seconds
    p90: Seconds
    p99: Seconds
    min_ratio: Amount
    """The least time by that of mxforge."""
    p50_ratio: Amount
    per_second: Amount
    """Elements of batches per second."""


@dataclass(frozen=True, kw_only=True)
class Failure(Record):
    """A peer that could not be measured."""

    engine: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Measurement(Record):
    """A workload on one number of threads."""

    schema: Literal["bench/2"] = "bench/2"
    workload: str
    shapes: dict[str, tuple[Count, ...]]
    batch: Count
    """The elements that a call computes."""
    threads: Count
    repeat: Count
    """Rounds."""
    tolerance: Amount
    """The difference of results that is no error."""
    cpu: str
    gpu: str | None
    """null: programs run on the CPU."""
    programs: tuple[Program, ...]
    """mxforge is the first."""
    failures: tuple[Failure, ...]


BenchReport = Measurement | tuple[Measurement, ...]
"""The report of `mxforge bench --json`: a list if there are several measurements."""
