"""Measures workers in alternation and computes figures from the samples."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from ..errors import ToolError
from ..progress import Progress
from .process import Worker

SAMPLES = 3
"""The number of samples in one turn of a worker."""
SAMPLE_SECONDS = 2e-3
"""The time of a sample: a short workload is called as often as fits this time."""
_LONGEST = 1 << 16


@dataclass
class Figures:
    """The measurements of one program. Times are in seconds, memory in bytes.

    `cold` and `warm` are the times from the imported framework to the first result; `warm` is that of mxforge with a
    filled disk cache. `difference` is the largest difference from the outputs of mxforge, relative to the largest
    element of these outputs.
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
    samples: list[float] = field(default_factory=list[float])

    @property
    def least(self) -> float:
        return min(self.samples)

    @property
    def median(self) -> float:
        return median(self.samples)


@dataclass(frozen=True)
class Participant:
    """A program to measure: the framework, its interpreter, and the `spec` that its engine loads."""

    engine: str
    python: str
    spec: Mapping[str, Any]


def measure(
    participants: Sequence[Participant], arrays: Sequence[np.ndarray], repeat: int, threads: int, progress: Progress
) -> list[Figures]:
    """The figures of each participant, in order; the first one is mxforge.

    All load the same arrays. Then they are measured in `repeat` rounds, in which each has a turn. WorkerError names a
    framework that fails.
    """
    with tempfile.TemporaryDirectory(prefix="mxforge-bench-") as name:
        folder = Path(name)
        paths = [_saved(folder / f"input{i}.npy", array) for i, array in enumerate(arrays)]
        workers: list[Worker] = []
        try:
            figures = [_admit(p, paths, threads, folder, workers, progress) for p in participants]
            _compare(workers, figures, folder)
            _take_turns(workers, figures, repeat, progress)
            for worker, found in zip(workers, figures, strict=True):
                found.peak = worker.ask("memory")["peak"]
        finally:
            for worker in workers:
                worker.close()
    return figures


def _saved(path: Path, array: np.ndarray) -> str:
    np.save(path, array, allow_pickle=False)
    return str(path)


def _admit(
    who: Participant, paths: Sequence[str], threads: int, folder: Path, workers: list[Worker], progress: Progress
) -> Figures:
    """Start a worker and load its program. mxforge is started twice: with an empty cache, then with the filled
    cache."""
    progress.step(f"loading with {who.engine}")
    if who.engine != "mxforge":
        return _load(who, paths, threads, {}, workers)
    cache = {"MXFORGE_CACHE_DIR": str(folder / f"cache{len(workers)}"), "MXFORGE_CACHE": "1"}
    first: list[Worker] = []
    try:
        cold = _load(who, paths, threads, cache, first)
        cold_peak = first[0].ask("memory")["peak"]
    finally:
        for worker in first:
            worker.close()
    warm = _load(who, paths, threads, cache, workers)
    warm.warm, warm.cold, warm.cold_peak = warm.cold, cold.cold, cold_peak
    return warm


def _load(
    who: Participant, paths: Sequence[str], threads: int, environment: Mapping[str, str], workers: list[Worker]
) -> Figures:
    worker = Worker(who.engine, who.python, threads, environment)
    workers.append(worker)
    loaded = worker.ask("load", spec=dict(who.spec), arrays=list(paths))
    start = worker.started
    return Figures(who.engine, start["version"], start["python"], start["seconds"], loaded["load"] + loaded["first"])


def _compare(workers: Sequence[Worker], figures: Sequence[Figures], folder: Path) -> None:
    """Set the differences from the outputs of mxforge."""
    results = [_outputs(worker, folder / f"outputs{i}") for i, worker in enumerate(workers)]
    for worker, found, result in zip(workers[1:], figures[1:], results[1:], strict=True):
        found.difference = difference(results[0], result, worker.engine)


def _outputs(worker: Worker, folder: Path) -> list[np.ndarray]:
    folder.mkdir()
    return [np.load(path, allow_pickle=False) for path in worker.ask("outputs", folder=str(folder))["files"]]


def difference(ours: Sequence[np.ndarray], theirs: Sequence[np.ndarray], engine: str) -> float:
    """The largest difference of any element, relative to the output's largest element; infinite if an element is finite
    on only one side. ToolError if the shapes of the outputs differ.
    """
    if [a.shape for a in ours] != [a.shape for a in theirs]:
        raise ToolError(
            f"{engine}: outputs have shapes {[a.shape for a in theirs]}, those of mxforge {[a.shape for a in ours]}"
        )
    return max((_difference(a, b) for a, b in zip(ours, theirs, strict=True)), default=0.0)


def _difference(ours: np.ndarray, theirs: np.ndarray) -> float:
    if not ours.size:
        return 0.0
    a, b = ours.astype(np.float64), theirs.astype(np.float64)
    odd = ~(np.isfinite(a) & np.isfinite(b))
    if not np.array_equal(a[odd], b[odd], equal_nan=True):
        return float("inf")
    a, b = np.where(odd, 0, a), np.where(odd, 0, b)
    scale = float(np.abs(b).max())
    worst = float(np.abs(a - b).max())
    return worst / scale if scale else worst


def _take_turns(workers: Sequence[Worker], figures: Sequence[Figures], repeat: int, progress: Progress) -> None:
    calls = [_calls(worker) for worker in workers]
    for turn in range(repeat):
        for worker, found, n in zip(workers, figures, calls, strict=True):
            progress.step(f"round {turn + 1} of {repeat}: {worker.engine}")
            found.samples += worker.ask("time", calls=n, samples=SAMPLES)["seconds"]


def _calls(worker: Worker) -> int:
    """The number of calls in a sample."""
    n = 1
    while n < _LONGEST:
        least = min(worker.ask("time", calls=n, samples=2)["seconds"])
        if least * n >= SAMPLE_SECONDS:
            break
        n = min(max(2 * n, int(SAMPLE_SECONDS / max(least, 1e-9)) + 1), _LONGEST)
    return n
