"""Runs a model compiled with given schedules, and times its kernels."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from .machines import Machine, TunedKernel
from .subjects import Part, Schedules, Subject

_RUNS = 2  # in a row: the second one finds in the caches what the program left there, as in a series of runs
_TOLERANCE, _NOISE = 2e-3, 1e-4


class Trial:
    """The programs of a subject, compiled with these schedules and those of the formulas for all other kernels, which
    can be run and timed; a context, which frees its memory at the end. Launches are numbered through all programs."""

    def __init__(self, subject: Subject, schedules: Schedules) -> None:
        self.parts = subject.parts(schedules)
        self.kernels = _kernels(self.parts, subject.machine)
        self._timed = [subject.machine.timed(p.executable, p.inputs, p.targets) for p in self.parts]
        self.launch_seconds = np.full(sum(len(p.compiled.program.computations) for p in self.parts), np.inf)
        self.seconds = float("inf")

    def close(self) -> None:
        """Free the memory."""
        self._timed.clear()
        self.parts.clear()

    def run(self) -> None:
        """Run the programs and remember the least time of each launch."""
        for _ in range(_RUNS):
            times = [timed.timed().launches() for timed in self._timed]
            seconds = np.concatenate([(end - begin) / 1e9 for begin, end in times])
            self.launch_seconds = np.minimum(self.launch_seconds, seconds)

    def run_whole(self) -> None:
        """Run the programs as any caller does, and remember the least time."""
        self.seconds = min(self.seconds, *(sum(timed.plain() for timed in self._timed) for _ in range(_RUNS)))

    def forget(self) -> None:
        """Forget all times."""
        self.launch_seconds[:] = np.inf

    def kernel_seconds(self, key: str) -> float:
        """The least time of all launches of a kernel."""
        return float(self.launch_seconds[list(self.kernels[key].launches)].sum())

    def agrees_with(self, other: Trial) -> bool:
        """True if the outputs differ by rounding only."""
        return all(_agree(own.outputs, its.outputs) for own, its in zip(self.parts, other.parts, strict=True))


def _agree(own: Sequence[np.ndarray], other: Sequence[np.ndarray]) -> bool:
    """True if the outputs of a program differ by rounding only. Gradients that are 0 are computed from much larger
    numbers, and so are compared with these."""
    noise = _NOISE * max(map(_largest, other), default=0.0)
    return all(_is_close(a, b, noise) for a, b in zip(own, other, strict=True))


def _largest(array: np.ndarray) -> float:
    """The largest finite magnitude of floats."""
    return float(np.max(np.abs(array), initial=0.0, where=np.isfinite(array))) if array.dtype.kind == "f" else 0.0


def _is_close(a: np.ndarray, b: np.ndarray, noise: float) -> bool:
    if a.dtype.kind != "f":
        return bool(np.mean(a != b) < _TOLERANCE)
    return bool(np.allclose(a, b, rtol=_TOLERANCE, atol=_TOLERANCE * _largest(b) + noise, equal_nan=True))


def compare(trials: Sequence[Trial], seconds: float, *, whole: bool = False) -> None:
    """Time the kernels of trials in alternation for about this time, and whole runs if `whole`."""
    for trial in trials:
        trial.forget()
        trial.run()
    end, order = time.monotonic() + seconds, list(trials)
    for turn in range(1000):
        if turn >= 4 and time.monotonic() > end:
            break
        order.reverse()
        for trial in order:
            trial.run()
            if whole:
                trial.run_whole()


def _kernels(parts: Sequence[Part], machine: Machine) -> dict[str, TunedKernel]:
    """The kernels of programs with schedules by their keys. Kernels of one key share their code and so its symbols."""
    kernels: dict[str, TunedKernel] = {}
    first = 0
    for part in parts:
        for key, own in machine.kernels(part.compiled):
            numbers = tuple(first + n for n in own.launches)
            before = kernels.get(key)
            known, layers = (before.launches, before.layers) if before else ((), ())
            merged = tuple(sorted({*known, *numbers}))
            kernels[key] = replace(own, launches=merged, layers=tuple(dict.fromkeys((*layers, *own.layers))))
        first += len(part.compiled.program.computations)
    return kernels
