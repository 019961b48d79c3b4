"""Measures workers in alternation and computes figures from the samples."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from ...ir.lazy_dataclass import dataclass
from ..differences import difference
from ..errors import ToolError
from ..progress import Progress
from .process import Worker

SAMPLES = 3
"""The least number of samples in one turn of a worker."""
SAMPLE_SECONDS = 2e-3
"""The least time of a sample of several calls. A turn takes at least `SAMPLES` times this."""
SINGLE_SECONDS = 1e-4
"""A sample is one call for programs whose call takes at least this time, else the mean of several calls."""
_LONGEST = 1 << 16


@dataclass
class Figures:
    """The measurements of one program. Times are in seconds, memory in bytes.

    `cold` and `warm` are the times from the imported framework to the first result; `warm` is that of mxforge with a
    filled disk cache. `difference` is the largest difference from the outputs of mxforge, relative to the largest
    element of these outputs. A sample is the mean time of `calls` calls.
    """

    engine: str
    version: str
    python: str
    imported: float
    cold: float
    warm: float | None = None
    peak: int = 0
    cold_peak: int = 0
    difference: float | None = None
    calls: int = 1
    samples: list[float] = field(default_factory=list[float])

    @property
    def least(self) -> float:
        return min(self.samples)

    @property
    def median(self) -> float:
        return self.percentile(50)

    def percentile(self, percent: float) -> float:
        """The time that this share of the samples does not exceed, interpolated between two samples."""
        return float(np.percentile(self.samples, percent))

    def rate(self, elements: int) -> float:
        """Elements per second, for calls that compute so many, from the mean of all samples."""
        return elements * len(self.samples) / sum(self.samples)


@dataclass(frozen=True)
class Participant:
    """A program to measure: the framework, its interpreter, and the `spec` that its engine loads."""

    engine: str
    python: str
    spec: Mapping[str, Any]
    context: str = "cpu"


@dataclass(frozen=True)
class Failure:
    """A peer that could not be measured. The reason begins with its name."""

    engine: str
    reason: str


@dataclass(frozen=True)
class Outcome:
    """The figures of the programs that were measured, of which mxforge is the first, and the peers that failed."""

    figures: Sequence[Figures]
    failures: Sequence[Failure]


def measure(
    participants: Sequence[Participant], arrays: Sequence[np.ndarray], repeat: int, threads: int, progress: Progress
) -> Outcome:
    """The figures of the participants, in order; the first one is mxforge.

    All load the same arrays. Then they are measured in `repeat` rounds, in which each has a turn. A peer that fails is
    not measured further. ToolError if mxforge fails.
    """
    with tempfile.TemporaryDirectory(prefix="mxforge-bench-") as name, _Race() as race:
        folder = Path(name)
        paths = [_saved(folder / f"input{i}.npy", array) for i, array in enumerate(arrays)]
        for number, who in enumerate(participants):
            progress.step(f"loading with {who.engine}")
            cache = folder / f"cache{number}"
            race.admit(who.engine, lambda who=who, cache=cache: _load(who, paths, threads, cache))
        progress.step("comparing results")
        _compare(race, folder)
        race.each(_plan)
        for turn in range(repeat):
            race.each(lambda program, turn=turn: _take_turn(program, f"round {turn + 1} of {repeat}", progress))
        race.each(_set_peak)
        return Outcome([program.figures for program in race.programs], race.failures)


@dataclass
class _Program:
    """A worker that has loaded its program. In a turn it measures so many `samples`."""

    worker: Worker
    figures: Figures
    samples: int = SAMPLES


class _Race:
    """The programs that take part, of which mxforge is the first. A peer that fails leaves; mxforge's errors are
    raised."""

    def __init__(self) -> None:
        self.programs: list[_Program] = []
        self.failures: list[Failure] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for program in self.programs:
            program.worker.close()

    def admit(self, engine: str, load: Callable[[], _Program]) -> None:
        """Add the program that `load` returns."""
        try:
            self.programs.append(load())
        except ToolError as error:
            if not self.programs:
                raise
            self.failures.append(Failure(engine, str(error)))

    def each(self, step: Callable[[_Program], None]) -> None:
        """Apply a step to each program in turn."""
        for program in list(self.programs):
            try:
                step(program)
            except ToolError as error:
                if program is self.programs[0]:
                    raise
                self.programs.remove(program)
                program.worker.close()
                self.failures.append(Failure(program.figures.engine, str(error)))


def _saved(path: Path, array: np.ndarray) -> str:
    np.save(path, array, allow_pickle=False)
    return str(path)


def _load(who: Participant, paths: Sequence[str], threads: int, cache: Path) -> _Program:
    """Start a worker and load its program. mxforge is started twice: with an empty cache, then with the filled
    cache."""
    if who.engine != "mxforge":
        return _load_once(who, paths, threads, {})
    environment = {"MXFORGE_CACHE_DIR": str(cache), "MXFORGE_CACHE": "1"}
    first = _load_once(who, paths, threads, environment)
    with first.worker:
        cold_peak = first.worker.ask("memory")["peak"]
    program = _load_once(who, paths, threads, environment)
    figures = program.figures
    figures.warm, figures.cold, figures.cold_peak = figures.cold, first.figures.cold, cold_peak
    return program


def _load_once(who: Participant, paths: Sequence[str], threads: int, environment: Mapping[str, str]) -> _Program:
    worker = Worker(who.engine, who.python, threads, environment, who.context)
    try:
        loaded = worker.ask("load", spec={**who.spec, "threads": threads}, arrays=list(paths))
    except BaseException:
        worker.close()
        raise
    start, first = worker.started, loaded["load"] + loaded["first"]
    return _Program(worker, Figures(who.engine, start["version"], start["python"], start["seconds"], first))


# --- results ----------------------------------------------------------------------------------------------------------


def _compare(race: _Race, folder: Path) -> None:
    """Set the differences from the outputs of mxforge."""
    ours: list[np.ndarray] = []

    def compare(program: _Program) -> None:
        outputs = _outputs(program.worker, Path(tempfile.mkdtemp(dir=folder)))
        if program is race.programs[0]:
            ours.extend(outputs)
        else:
            program.figures.difference = difference(ours, outputs, program.figures.engine)

    race.each(compare)


def _outputs(worker: Worker, folder: Path) -> list[np.ndarray]:
    return [np.load(path, allow_pickle=False) for path in worker.ask("outputs", folder=str(folder))["files"]]


# --- turns ------------------------------------------------------------------------------------------------------------


def _take_turn(program: _Program, which: str, progress: Progress) -> None:
    progress.step(f"{which}: {program.figures.engine}")
    figures = program.figures
    figures.samples += program.worker.ask("time", calls=figures.calls, samples=program.samples)["seconds"]


def _plan(program: _Program) -> None:
    program.figures.calls, program.samples = sample_plan(program.worker)


def sample_plan(worker: Worker) -> tuple[int, int]:
    """(the calls of a sample, the samples of a turn) for the program that the worker has loaded."""
    calls, seconds = _estimate(worker)
    return (calls, SAMPLES) if seconds < SINGLE_SECONDS else (1, max(SAMPLES, int(SAMPLES * SAMPLE_SECONDS / seconds)))


def _estimate(worker: Worker) -> tuple[int, float]:
    """(the number of calls that fill the time of a sample, the time of a call)."""
    n = 1
    while True:
        least = min(worker.ask("time", calls=n, samples=2)["seconds"])
        if least * n >= SAMPLE_SECONDS or n == _LONGEST:
            return n, least
        n = min(max(2 * n, int(SAMPLE_SECONDS / max(least, 1e-9)) + 1), _LONGEST)


def _set_peak(program: _Program) -> None:
    program.figures.peak = program.worker.ask("memory")["peak"]
