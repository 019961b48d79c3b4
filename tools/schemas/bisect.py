"""The report of `mxforge bisect`."""

from __future__ import annotations

from typing import Literal

from ...ir.lazy_dataclass import dataclass
from .record import Count, Real, Record


@dataclass(frozen=True, kw_only=True)
class Stage(Record):
    """A comparison. All fields after `step` are null for the reference of the stages after it."""

    graph: str
    """The model, or the forward or the backward graph of its training."""
    step: str
    """A pass, or what ran."""
    output: str | None = None
    dtype: str | None = None
    shape: tuple[Count, ...] | None = None
    largest: Real | None = None
    """The largest difference, in units of the largest element expected."""
    allowed: Real | None = None
    """The difference that counts as rounding."""
    wrong_elements: Count | None = None


@dataclass(frozen=True, kw_only=True)
class Difference(Record):
    """How the values of a tensor differ from those expected."""

    output: str
    dtype: str
    shape: tuple[Count, ...]
    largest: Real
    """In units of the largest element expected."""
    allowed: Real
    wrong_elements: Count
    index: tuple[Count, ...]
    """The first wrong element."""
    found: Real
    expected: Real


@dataclass(frozen=True, kw_only=True)
class Kernel(Record):
    """A kernel that is wrong."""

    layers: tuple[str, ...]
    operators: tuple[str, ...]
    launches: tuple[Count, ...]
    symbols: tuple[str, ...]
    schedule: tuple[str, ...]
    region: str
    """What it computes, as text."""


@dataclass(frozen=True, kw_only=True)
class Fault(Record):
    """The first wrong numbers."""

    kind: Literal["pass", "kernel", "memory", "program"]
    what: str
    """A sentence that names it."""
    graph: str
    differences: tuple[Difference, ...]
    kernel: Kernel | None


@dataclass(frozen=True, kw_only=True)
class BisectReport(Record):
    """The report of `mxforge bisect --json`. `programs`, `compared_runs` and `not_compared` are those of a script, and
    null for a model."""

    schema: Literal["bisect/1"] = "bisect/1"
    programs: Count | None = None
    compared_runs: Count | None = None
    not_compared: Count | None = None
    """Programs that call Python functions."""
    stages: tuple[Stage, ...]
    """In order, up to the fault."""
    kernels: Count
    """Kernels that were compared one by one."""
    fault: Fault | None
