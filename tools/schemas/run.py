"""The report of `mxforge run`."""

from __future__ import annotations

from typing import Literal

from ...ir.lazy_dataclass import dataclass
from .record import Amount, Count, Real, Record, Seconds


@dataclass(frozen=True, kw_only=True)
class Class(Record):
    """A class with its score."""

    class_: Count
    """The number of the class."""
    label: str | Count
    """Its name in --labels, else its number."""
    value: Real
    """The value of the output, or the probability with --softmax."""


@dataclass(frozen=True, kw_only=True)
class Row(Record):
    """A row of class scores."""

    nan: Count
    """The values that are NaN; if there are any, no classes are listed."""
    classes: tuple[Class, ...]
    """The classes with the largest values, the largest first."""


@dataclass(frozen=True, kw_only=True)
class Output(Record):
    """An output of the model."""

    name: str
    dtype: str
    shape: tuple[Count, ...]
    min: float | None = None
    """null, as mean and max: the output is empty, not all values are finite, or they are no numbers."""
    mean: Real | None = None
    max: float | None = None
    not_finite: Count = 0
    """The values that are infinite or NaN."""
    rows: tuple[Row, ...] | None = None
    """The best classes of each row; null: the output does not look like class scores."""


@dataclass(frozen=True, kw_only=True)
class RunTimes(Record):
    """The distribution of the times of runs."""

    min: Seconds
    mean: Seconds
    p50: Seconds
    p90: Seconds
    p99: Seconds


@dataclass(frozen=True, kw_only=True)
class RunReport(Record):
    """The report of `mxforge run --json`. Times are in seconds."""

    schema: Literal["run/1"] = "run/1"
    model: str
    target: str
    outputs: tuple[Output, ...]
    first_seconds: Seconds
    """The time of the first run."""
    runs: Count = 0
    """The runs that were measured after that; without any, the following fields are null."""
    seconds: RunTimes | None = None
    samples: tuple[Seconds, ...] | None = None
    """The time of each run."""
    batch: Count | None = None
    """The elements that a run computes: the first extent of the first input."""
    per_second: Amount | None = None
    """Elements per second."""
