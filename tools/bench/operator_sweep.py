"""Measures operators one by one, forward and with gradients, beside peers and beside the floors of this machine
(`--suite all-operators`).

The floor of a call is the time in which the machine reads the operands and writes the results, or makes the multiply-
adds if these take longer. Both rates are measured in the same process as mxforge.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from math import exp, inf, log
from pathlib import Path

import numpy as np

from ...ir.lazy_dataclass import dataclass
from ..differences import difference
from ..errors import ToolError
from ..progress import Progress
from .measure import sample_plan
from .operator_cases import CASES, Case
from .operator_programs import CALLS
from .process import Worker

TOLERANCE = 1e-3
"""Larger differences of results, by the largest element, are reported."""


@dataclass(frozen=True)
class Row:
    """The least times of a case in seconds, by framework, of which mxforge is the first, and its floor."""

    name: str
    times: Mapping[str, float]
    floor: float
    different: Mapping[str, float]
    failed: Mapping[str, str]

    @property
    def ours(self) -> float:
        return self.times["mxforge"]

    @property
    def by_floor(self) -> float:
        return self.ours / self.floor

    @property
    def best(self) -> str | None:
        """The fastest peer; None if none was measured."""
        return min((peer for peer in self.times if peer != "mxforge"), key=self.times.__getitem__, default=None)

    @property
    def ratio(self) -> float:
        """Our time by that of the fastest peer; 0 without a peer."""
        return self.ours / self.times[self.best] if self.best else 0.0


class Sweep:
    """Frameworks in processes of their own, which measure cases in alternation. Used as a context manager."""

    def __init__(self, pythons: Mapping[str, str], threads: int, repeat: int, clock: str = "perf_counter") -> None:
        """`pythons` are the interpreters of the peers, by name. The clock process_time, for one thread, does not count
        the time of other processes."""
        self._repeat, self._clock = repeat, clock
        with ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="mxforge-bench-"))
            cache = {"MXFORGE_CACHE_DIR": f"{folder}/cache", "MXFORGE_CACHE": "1"}
            self._folder = Path(folder)
            self._workers = {"mxforge": stack.enter_context(Worker("mxforge", sys.executable, threads, cache))}
            for peer, python in pythons.items():
                self._workers[peer] = stack.enter_context(Worker(peer, python, threads))
            self._rates = self._workers["mxforge"].ask("rates")
            self._stack = stack.pop_all()

    def __enter__(self) -> Sweep:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def versions(self) -> dict[str, str]:
        return {name: worker.started["version"] for name, worker in self._workers.items()}

    def row(self, name: str, gradients: bool) -> Row:
        """Measure a case. ToolError if mxforge fails."""
        case = CASES[name]
        arrays = case.arrays()
        paths = [self._save(f"operand{i}.npy", array) for i, array in enumerate(arrays)]
        spec = {"operator": name, "gradients": list(case.gradients) * gradients, "indices": list(case.indices)}
        plans: dict[str, tuple[int, int]] = {}
        results: dict[str, list[np.ndarray]] = {}
        failed: dict[str, str] = {}
        for peer in self._peers(name, gradients):
            try:
                self._workers[peer].ask("load", spec={**spec, "framework": peer}, arrays=paths)
                results[peer] = self._results(peer)
                plans[peer] = sample_plan(self._workers[peer])
            except ToolError as error:
                if peer == "mxforge":
                    raise
                failed[peer] = str(error)
        times = dict.fromkeys(plans, inf)
        for _ in range(self._repeat):
            for peer, (calls, samples) in plans.items():
                seconds = self._workers[peer].ask("time", calls=calls, samples=samples, clock=self._clock)["seconds"]
                times[peer] = min(times[peer], *seconds)
        floor = self._floor(case, arrays, results["mxforge"], gradients)
        return Row(name + " +gradients" * gradients, times, floor, self._differences(case, results), failed)

    def _peers(self, name: str, gradients: bool) -> list[str]:
        """The frameworks that have the case."""
        return [p for p in self._workers if name in CALLS[p].programs and (CALLS[p].differentiable or not gradients)]

    def _save(self, name: str, array: np.ndarray) -> str:
        path = self._folder / name
        np.save(path, array, allow_pickle=False)
        return str(path)

    def _results(self, peer: str) -> list[np.ndarray]:
        files = self._workers[peer].ask("outputs", folder=str(self._folder))["files"]
        return [np.load(path, allow_pickle=False) for path in files]

    def _differences(self, case: Case, results: Mapping[str, Sequence[np.ndarray]]) -> dict[str, float]:
        """The differences of peers from our results above the tolerance."""
        ours, peers = results["mxforge"], [peer for peer in results if peer != "mxforge" and not case.free]
        differences = {peer: _difference(ours, results[peer], peer) for peer in peers}
        return {peer: value for peer, value in differences.items() if not value <= TOLERANCE}

    def _floor(
        self, case: Case, operands: Sequence[np.ndarray], results: Sequence[np.ndarray], gradients: bool
    ) -> float:
        """The floor in seconds. A backward pass reads the operands and writes their gradients, which `results` has too;
        it makes as many multiply-adds as the forward pass for each gradient."""
        moved = sum(a.nbytes for a in (*operands, *results)) + gradients * sum(a.nbytes for a in operands)
        operations = case.operations * (1 + gradients * len(case.gradients))
        return max(moved / _bandwidth(self._rates["bandwidths"], moved), operations / self._rates["operations"])


def _difference(ours: Sequence[np.ndarray], theirs: Sequence[np.ndarray], peer: str) -> float:
    """The difference in the shapes of ours: a peer may return a scalar for one element."""
    if [a.size for a in ours] != [a.size for a in theirs]:
        return inf
    return difference(ours, [b.reshape(a.shape) for a, b in zip(ours, theirs, strict=True)], peer)


def _bandwidth(rates: Sequence[tuple[float, float]], nbytes: float) -> float:
    """The bandwidth of the smallest measured buffer that is at least as large, else of the largest."""
    return next((rate for size, rate in rates if size >= nbytes), rates[-1][1])


def measure_all(sweep: Sweep, names: Iterable[str], progress: Progress) -> list[Row]:
    """The rows of the cases, forward and with gradients."""
    rows: list[Row] = []
    for name in names:
        for gradients in (False, True)[: 1 + bool(CASES[name].gradients)]:
            progress.step(name + " with gradients" * gradients)
            rows.append(sweep.row(name, gradients))
    return rows


def geometric_mean(values: Iterable[float]) -> float:
    """1 for no values."""
    logarithms = [log(value) for value in values]
    return exp(sum(logarithms) / len(logarithms)) if logarithms else 1.0
