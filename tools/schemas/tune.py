"""The report of `mxforge tune`."""

from __future__ import annotations

from typing import Literal

from ...codegen.llvm.schedule.tuned import Value
from ...ir.lazy_dataclass import dataclass
from .record import Count, Real, Record, Seconds

Schedule = dict[str, Value]
"""An entry of a table of tuned schedules, see `mxforge schema tuning`."""


@dataclass(frozen=True, kw_only=True)
class TunedKernel(Record):
    """A kernel, with the schedules that were measured."""

    kernel: str
    """Its key in tables of tuned schedules."""
    layers: tuple[str, ...]
    launches: tuple[Count, ...]
    default_seconds: Seconds
    """The time with the schedule of the formulas; 0: it was not measured."""
    best_seconds: Seconds
    ratio: Real
    """The best time by the default one."""
    default: Schedule
    best: Schedule
    tried: Count
    """Other schedules that were measured."""
    left: Count
    """Schedules for which there was no time."""


@dataclass(frozen=True, kw_only=True)
class TuneReport(Record):
    """The report of `mxforge tune --json`. Times are in seconds."""

    schema: Literal["tune/1"] = "tune/1"
    model: str
    file: str
    """Where the schedules are stored."""
    rounds: Count
    interrupted: bool
    seconds_before: Seconds | None
    """The least time of a run; null: it was not measured."""
    seconds_after: Seconds | None
    kernels: tuple[TunedKernel, ...]
