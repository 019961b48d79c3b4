"""The reports of commands that are not about one model in use: compile, cache and doctor."""

from __future__ import annotations

from typing import Literal

from ...ir.lazy_dataclass import dataclass
from .common import Gpu, Machine
from .record import Count, Real, Record, Seconds


@dataclass(frozen=True, kw_only=True)
class Rounding(Record):
    """What narrow weights change."""

    weights: str
    """Their dtype."""
    inputs: Literal["given", "random"]
    difference: Real
    """The largest difference from outputs with float32 weights, by the largest element."""


@dataclass(frozen=True, kw_only=True)
class CompileReport(Record):
    """The report of `mxforge compile --json`."""

    schema: Literal["compile/3"] = "compile/3"
    model: str
    folder: str
    target: Machine | Gpu
    seconds: Seconds
    launches: Count
    """Those of the first program."""
    bytes: Count
    programs: Count = 1
    """Programs that differ in more than numbers."""
    shapes: Count = 1
    """How many shapes of the inputs they take."""
    rounding: Rounding | None = None
    """null: weights are float32."""


@dataclass(frozen=True, kw_only=True)
class CacheReport(Record):
    """The report of `mxforge cache --json`."""

    schema: Literal["cache/1"] = "cache/1"
    folder: str
    entries: Count
    bytes: Count
    limit_bytes: Count


@dataclass(frozen=True, kw_only=True)
class Package(Record):
    """The installation of mxforge."""

    version: str
    folder: str


@dataclass(frozen=True, kw_only=True)
class Interpreter(Record):
    """The interpreter of Python."""

    version: str
    executable: str


@dataclass(frozen=True, kw_only=True)
class Cache(Record):
    """The folder of compiled programs."""

    enabled: bool
    folder: str | None
    """null: no folder can be used."""
    entries: Count
    bytes: Count
    limit_bytes: Count


@dataclass(frozen=True, kw_only=True)
class DoctorReport(Record):
    """The report of `mxforge doctor --json`."""

    schema: Literal["doctor/3"] = "doctor/3"
    mxforge: Package
    python: Interpreter
    system: str
    packages: dict[str, str | None]
    """The versions of the packages that mxforge needs; null: the package is not installed."""
    optional: dict[str, str | None]
    """The versions of the packages that some functions need."""
    processor: Machine | None
    """null: the processor is not supported."""
    settings: dict[str, str]
    """Variables of the environment that mxforge or MXNet reads."""
    cache: Cache
    gpus: tuple[str, ...]
    """The NVIDIA GPUs that can be used, with their targets and memory."""
    no_gpu: str | None
    """The reason why there is none, and what to install; null: there are GPUs."""
    self_test_seconds: Seconds | None
    """null: the self-test failed, or did not run because of problems."""
    gpu_test_seconds: Seconds | None
    """The same on the first GPU; null also: there is none."""
    problems: tuple[str, ...]
    """What is wrong; empty: everything works."""
