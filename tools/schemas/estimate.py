"""The report of `mxforge profile --estimate`."""

from __future__ import annotations

from typing import Literal

from ...ir.lazy_dataclass import dataclass
from .common import Argument, Gpu
from .record import Amount, Count, Record, Seconds


@dataclass(frozen=True, kw_only=True)
class EstimatedLaunch(Record):
    """A launch or a copy of the program. What is not known is null."""

    name: str
    """The layers."""
    kind: str
    kernel: str
    times: Count
    """How often a run does it."""
    programs: Count
    """Programs of the launch."""
    seconds: Seconds | None
    """All of them; null: the host computes it."""
    bound: Literal["memory", "cache", "tensor cores", "arithmetic", "latency"] | None
    """What limits it: the memory, the L2 cache, units of the multiprocessors, or waits of few programs."""
    bytes: Amount
    """Read and written once."""
    memory_bytes: Amount
    """Those of them that are not in the L2 cache."""


@dataclass(frozen=True, kw_only=True)
class EstimateReport(Record):
    """The report of `mxforge profile --estimate --json`. Times are in seconds, sizes in bytes; all are estimates."""

    schema: Literal["estimate/1"] = "estimate/1"
    model: str
    inputs: tuple[Argument, ...]
    gpu: str
    target: Gpu
    seconds: Seconds
    """A run that follows another one, as a CUDA graph."""
    by_bound: dict[str, float]
    """The seconds of launches by what limits them."""
    launches: tuple[EstimatedLaunch, ...]
