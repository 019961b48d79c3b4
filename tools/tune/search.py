"""Searches schedules of a model's kernels: each kernel moves to its fastest neighbour, all at the same time.

In a round every kernel takes a schedule that was not yet measured, the model is compiled with all of them, and runs in
alternation with the model of the formulas' schedules. The ratio of the two times of a kernel, measured in the same
second, decides: the machine can be busy. At the end the schedules that were found are measured once more, because the
least of many times is too low.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from warnings import warn

from ...ir.lazy_dataclass import dataclass
from .machines import GpuMachine, TunedKernel
from .spaces import Machine, Schedule, allows, alternatives, default_schedule
from .subjects import Subject
from .trial import Trial, compare

_BETTER = 0.97
"""A schedule replaces the best one if it takes at most this share of its time; lower ones are noise."""
_CONFIRMED = 0.98
_SECONDS, _LAST_SECONDS = 0.4, 3.0
"""The times that a round measures, and the last measurement at most."""

Show = Callable[[str], None]


@dataclass
class Climb:
    """The search for one kernel. `ratio` is the time of `best` as a share of that of `default`; `measured` are such
    ratios of schedules, and `seconds` the last times of both, measured together."""

    kernel: TunedKernel
    machine: Machine
    default: Schedule
    best: Schedule
    ratio: float = 1.0
    measured: dict[Schedule, float] = field(default_factory=dict)
    queue: list[Schedule] = field(default_factory=list)
    seconds: tuple[float, float] = (0.0, 0.0)

    def expand(self) -> None:
        """Queue the schedules near the best one."""
        near = alternatives(self.kernel.kernel, self.best, self.machine, self.kernel.parameters)
        self.queue = [s for s in near if s not in self.measured]

    def record(self, schedule: Schedule, ratio: float) -> None:
        """Take a measured schedule as the best one if it is faster."""
        self.measured[schedule] = ratio
        self.queue = [s for s in self.queue if s != schedule]
        if ratio < _BETTER * self.ratio:
            self.best, self.ratio = schedule, ratio
            self.expand()

    def reset(self) -> None:
        """Return to the default schedule."""
        self.best, self.ratio, self.seconds = self.default, 1.0, (self.seconds[0], self.seconds[0])


@dataclass(frozen=True)
class Found:
    """The result of a search: the kernels, and the seconds of a whole run before and after (None: not measured)."""

    climbs: Mapping[str, Climb]
    rounds: int
    before: float | None = None
    after: float | None = None
    interrupted: bool = False

    def schedules(self) -> dict[str, Schedule]:
        """The schedules that are faster than the defaults."""
        return {key: c.best for key, c in self.climbs.items() if c.best != c.default}


def search(subject: Subject, known: Mapping[str, Schedule], limit: float, show: Show) -> Found:
    """Search for about `limit` seconds. `known` are schedules to try first. An interrupt ends the search early."""
    start = time.monotonic()
    base = Trial(subject, {})
    climbs = dict(_climbs(subject, base, known))
    rounds = 0
    try:
        for rounds in _rounds(climbs, start, limit):
            gain = sum(c.ratio < 1 for c in climbs.values())
            show(f"round {rounds}: {gain} of {len(climbs)} kernels are faster so far")
            _round(subject, base, climbs)
        show("measuring what was found")
        before, after = _confirm(subject, base, climbs, _last_seconds(limit))
    except KeyboardInterrupt:
        return Found(climbs, rounds, interrupted=True)
    return Found(climbs, rounds, before, after)


def _climbs(subject: Subject, base: Trial, known: Mapping[str, Schedule]) -> Iterator[tuple[str, Climb]]:
    for key, kernel in base.kernels.items():
        machine = subject.machine.chosen
        default = default_schedule(kernel.kernel, machine, kernel.parameters)
        climb = Climb(kernel, machine, default, default, measured={default: 1.0})
        climb.expand()
        first = known.get(key)
        if first is not None and first != default and allows(kernel.kernel, first, machine, kernel.parameters):
            climb.queue = list(dict.fromkeys([first, *climb.queue]))
        yield key, climb


def _rounds(climbs: Mapping[str, Climb], start: float, limit: float) -> Iterator[int]:
    """Numbers of rounds, as long as there are schedules to measure, and time for a round and the last measurement."""
    number, begun = 0, start
    while any(c.queue for c in climbs.values()):
        now = time.monotonic()
        took, begun = now - begun, now
        if number and now - start + 3 * took + 2 * _last_seconds(limit) > limit:
            return
        number += 1
        yield number


def _round(subject: Subject, base: Trial, climbs: Mapping[str, Climb]) -> None:
    """Measure one more schedule of each kernel that has any left."""
    _measure(subject, base, climbs, {key: c.queue[0] for key, c in climbs.items() if c.queue})


def _measure(subject: Subject, base: Trial, climbs: Mapping[str, Climb], tried: Mapping[str, Schedule]) -> None:
    """Measure one schedule of each of some kernels."""
    try:
        trial = Trial(subject, {**{key: c.best for key, c in climbs.items()}, **tried})
    except Exception:
        if not isinstance(subject.machine, GpuMachine):
            raise
        _leave_out(subject, base, climbs, tried)
        return
    try:
        right = trial.agrees_with(base)
        if right:
            compare((base, trial), _SECONDS)
        else:
            warn("the schedules of a round gave other results and are not used: report this defect", stacklevel=1)
        for key, schedule in tried.items():
            ratio = trial.kernel_seconds(key) / max(base.kernel_seconds(key), 1e-9) if right else float("inf")
            climbs[key].record(schedule, ratio)
    finally:
        trial.close()


def _leave_out(subject: Subject, base: Trial, climbs: Mapping[str, Climb], tried: Mapping[str, Schedule]) -> None:
    """Find the schedules that Triton cannot compile, or for which a GPU has too few registers or too little memory, by
    halves, and measure the others."""
    if len(tried) == 1:
        ((key, schedule),) = tried.items()
        climbs[key].record(schedule, float("inf"))
        return
    items = [*tried.items()]
    for half in (items[: len(items) // 2], items[len(items) // 2 :]):
        _measure(subject, base, climbs, dict(half))


def _last_seconds(limit: float) -> float:
    return min(_LAST_SECONDS, limit / 10)


def _confirm(subject: Subject, base: Trial, climbs: Mapping[str, Climb], seconds: float) -> tuple[float, float]:
    """Measure the default and the best schedules together, return to the default where the best one is not faster, and
    for all kernels if whole runs are not faster. Returns the seconds of whole runs before and after."""
    last = Trial(subject, {key: c.best for key, c in climbs.items()})
    compare((base, last), seconds, whole=True)
    lost = False
    for key, climb in climbs.items():
        climb.seconds = base.kernel_seconds(key), last.kernel_seconds(key)
        climb.ratio = climb.seconds[1] / max(climb.seconds[0], 1e-9)
        if climb.best != climb.default and climb.ratio > _CONFIRMED:
            climb.reset()
            lost = True
        if climb.best == climb.default:
            climb.reset()
    if lost:
        last.close()
        last = Trial(subject, {key: c.best for key, c in climbs.items()})
        base.seconds = float("inf")
        compare((base, last), seconds, whole=True)
    last.close()
    if last.seconds >= base.seconds:  # kernels that are faster alone can take memory bandwidth from each other
        for climb in climbs.values():
            climb.reset()
    return base.seconds, last.seconds
