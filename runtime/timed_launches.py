"""Times of the launches of a program on a device with a stream, in one run after others that keep the device busy."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..ir.lazy_dataclass import dataclass
from ..ir.steps import Computation
from .device import Address
from .launch_list import LaunchList
from .launched_program import LaunchedProgram
from .streams import Stream

_SECONDS_OF_A_LAUNCH = 15e-6
"""The most time in which the host starts a launch and records an event."""
_MOST_RUNS = 64


@dataclass(frozen=True, eq=False)
class Spans:
    """The begin and the end of each of `Program.computations`, in seconds since the first one began. `total` is the end
    of everything, copies included."""

    begin: np.ndarray
    end: np.ndarray
    total: float


class TimedLaunches:
    """Runs a program on operands at fixed addresses. The run that is timed starts launches one by one, with an event
    after each: what an event takes, about a microsecond, is part of the times. Runs before it keep the device busy,
    so that no launch waits for the host."""

    def __init__(self, program: LaunchedProgram, inputs: Sequence[Address], outputs: Sequence[Address]) -> None:
        stream = program.device.stream
        assert stream is not None
        self._program, self._stream = program, stream
        self._operands = inputs, outputs
        steps = program.program.steps
        computations = [step for step in steps if isinstance(step, Computation)]
        self._numbers = {id(step): number for number, step in enumerate(computations)}
        self._count = len(computations)

    def plain(self) -> float:
        """The seconds of a run as any caller starts it, with the wait for its end."""
        start = time.perf_counter()
        self._program.run(*self._operands)
        self._stream.synchronise()
        return time.perf_counter() - start

    def repeated(self, runs: int) -> float:
        """The seconds of a run among so many that are started without a wait between them."""
        start = time.perf_counter()
        for _ in range(runs):
            self._program.run(*self._operands)
        self._stream.synchronise()
        return (time.perf_counter() - start) / runs

    def timed(self) -> Spans:
        """The times of the launches of a run."""
        host = _SECONDS_OF_A_LAUNCH * self._count
        for _ in range(min(_MOST_RUNS, 1 + int(host / max(self.plain(), 1e-6)))):
            self._program.run(*self._operands)
        run = _Run(self._stream, self._numbers, self._count)
        self._program.run(*self._operands, take=run.take)
        return Spans(run.spans[:, 0], run.spans[:, 1], run.now)


class _Run:
    """One run that is timed."""

    def __init__(self, stream: Stream, numbers: dict[int, int], count: int) -> None:
        self._stream, self._numbers = stream, numbers
        self.spans, self.now = np.zeros((count, 2)), 0.0

    def take(self, instance: Any) -> None:
        """Take the steps of an instance."""
        for step in instance.steps:
            if isinstance(step, LaunchList):
                self._launch(step)
            else:
                self._stream.synchronise()
                begin = time.perf_counter()
                instance.take([step])
                self._stream.synchronise()
                self._add(step.placed.step, self.now, self.now + time.perf_counter() - begin)

    def _launch(self, launches: LaunchList) -> None:
        start, ends = self.now, self._stream.time(launches)
        for launch, begin, end in zip(launches.launches, [0.0, *ends], ends, strict=False):
            self._add(launch.step, start + begin, start + end)

    def _add(self, step: object, begin: float, end: float) -> None:
        number = self._numbers.get(id(step))
        if number is not None:
            self.spans[number] = begin, end
        self.now = max(self.now, end)
