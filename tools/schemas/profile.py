"""The reports of `mxforge profile`."""

from __future__ import annotations

from typing import Literal

from ...ir.lazy_dataclass import dataclass
from .common import Argument, Gpu, Machine
from .record import Amount, Count, Record, Seconds


@dataclass(frozen=True, kw_only=True)
class Peaks(Record):
    """What this machine can do, measured."""

    flop_per_second: Amount
    bytes_per_second: Amount
    """From memory."""
    cache_bytes_per_second: Amount | None
    """From the last cache; null: its size is not known."""
    measured: str
    """What was measured."""


@dataclass(frozen=True, kw_only=True)
class Times(Record):
    """The distribution of the times of whole runs."""

    min: Seconds
    p50: Seconds
    p90: Seconds


@dataclass(frozen=True, kw_only=True)
class Row(Record):
    """A launch, or the launches of layers that are computed together. What is not known is null."""

    name: str
    """The layers."""
    operators: tuple[str, ...]
    launches: tuple[Count, ...]
    """Positions of launches in the program."""
    kind: str
    kernel: str
    seconds: Seconds
    share: Amount | None
    """Of the time of all launches."""
    threads: Amount
    """The average number of threads that work."""
    multiply_adds: Count | None
    flop: Count | None
    """A multiply-add is two operations."""
    bytes: Count | None
    flop_per_second: Amount | None
    bytes_per_second: Amount | None
    flop_per_byte: Amount | None
    roof_share: Amount | None
    """The speed as a share of the lower of two limits: the peak of operations, and memory at this intensity."""
    bound: Literal["compute", "memory"] | None
    """Which limit that is."""
    winograd: bool
    """Fewer multiply-adds are done than are counted."""
    fallback: str | None
    """Why convolutions or products run as plain loops."""


@dataclass(frozen=True, kw_only=True)
class Parallelism(Record):
    """How much of the program could run at the same time, if each launch took as long as it does now."""

    dependences: Count
    """The fewest pairs of steps that order all steps."""
    work_seconds: Seconds
    """All launches."""
    span_seconds: Seconds
    """The critical path: the launches that take the most time one after the other."""
    parallelism: Amount | None
    """The work by the span."""
    critical_path: tuple[Count, ...]
    """Positions of launches in the program."""
    data_span_seconds: Seconds
    """The span if no step waited for memory that is used again."""
    data_parallelism: Amount | None


@dataclass(frozen=True, kw_only=True)
class ProfileReport(Record):
    """The report of `mxforge profile --json`. Times are in seconds, sizes in bytes."""

    schema: Literal["profile/4"] = "profile/4"
    model: str
    inputs: tuple[Argument, ...]
    machine: Machine | Gpu
    peaks: Peaks
    missing_parameters: Count
    """Parameters without values, which are inputs."""
    runs: Count
    seconds: Times
    """The times of whole runs."""
    launch_seconds: Seconds
    """The sum of the launches."""
    between_seconds: float
    """The time of a run between its launches."""
    layers: tuple[Row, ...]
    launches: tuple[Row, ...]
    total: Row
    """All work, in the time of a whole run."""
    parallelism: Parallelism


@dataclass(frozen=True, kw_only=True)
class PredictedLaunch(Record):
    """A launch on more threads."""

    name: str
    count: Count
    """Units of parallel work."""
    grain: Count
    chunks: Count
    work_seconds: Seconds
    """On one thread."""
    seconds: Seconds
    bytes: Count | None
    lost: dict[str, float]
    """Seconds beyond an even division of the work, by cause."""


@dataclass(frozen=True, kw_only=True)
class Prediction(Record):
    """The model compiled for so many threads."""

    threads: Count
    seconds: Seconds
    speed_up: Amount | None
    """Over the program for one thread."""
    work_seconds: Seconds
    """The sum of the launches on one thread."""
    lost: dict[str, float]
    """Seconds beyond an even division of the work, by cause."""
    span_seconds: Seconds
    """The critical path: the launches that take the most time one after the other."""
    together_seconds: Seconds
    """The time if launches that do not depend on each other shared the threads at the same time."""
    data_together_seconds: Seconds
    """The same if no launch waited for memory that is used again."""
    launches: tuple[PredictedLaunch, ...]


@dataclass(frozen=True, kw_only=True)
class SimulationReport(Record):
    """The report of `mxforge profile --simulate-threads --json`. Times are in seconds; they are predictions, except
    those on one thread."""

    schema: Literal["simulation/2"] = "simulation/2"
    model: str
    inputs: tuple[Argument, ...]
    launch_cost: Seconds
    """Assumed: two threads share a launch in this time."""
    chunk_cost: Seconds
    """Assumed: a thread takes a chunk of a launch in this time."""
    bytes_per_second: Amount
    """Assumed: all threads read so much from memory."""
    seconds: Seconds
    """On one thread."""
    threads: tuple[Prediction, ...]
