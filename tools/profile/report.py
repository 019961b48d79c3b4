"""The content of a profile: rows, peaks and totals."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.lazy_dataclass import dataclass
from ...runtime.host.probes import RunTimes
from ..schemas.common import Argument, Gpu, Machine
from ..schemas.profile import Parallelism, Times
from .peaks import Peaks
from .rows import Row


@dataclass(frozen=True)
class Profile:
    """`machine` is what the code is compiled for, and the number of threads that run it. `seconds` are the times of
    whole runs. `between_seconds` is the time of a run between
    its launches, in which threads wait for each other. `launches` and `layers` are rows with median times, `total`
    is all work in the time of a whole run. `timeline` are the times of one run, an average one.
    `missing` is the number of parameters without values, which are inputs."""

    model: str
    inputs: tuple[Argument, ...]
    machine: Machine | Gpu
    peaks: Peaks
    runs: int
    seconds: Times
    between_seconds: float
    layers: Sequence[Row]
    launches: Sequence[Row]
    total: Row
    timeline: RunTimes
    parallelism: Parallelism
    missing: int = 0

    @property
    def knows_work(self) -> bool:
        """True if the work of some launch is known."""
        return any(row.operations is not None for row in self.launches)

    @property
    def launch_seconds(self) -> float:
        """The sum of the launches."""
        return sum(row.seconds for row in self.launches)

    @property
    def fallbacks(self) -> list[Row]:
        """The launches that run as plain loops."""
        return [row for row in self.launches if row.fallback]
