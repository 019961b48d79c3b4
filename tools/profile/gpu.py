"""Times of programs on a GPU, in the form of those on the CPU, and the GPU's peaks."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np

from ...frontend import ndarray as nd
from ...frontend.context import Context
from ...ir.types import DType
from ...runtime.device import Address, Runnable
from ...runtime.host.probes import RunTimes
from ...runtime.launched_program import LaunchedProgram
from ...runtime.timed_launches import TimedLaunches
from .peaks import Peaks

ROWS, BYTES = 8192, 1 << 28
"""The product and the copy that are measured: rows and columns of the factors, bytes of the copy."""
_SECONDS = 0.2
_SERIES = 5


class GpuTimedRuns:
    """Times runs of a program, as `TimedRuns` does on the CPU. The GPU is one worker."""

    def __init__(self, executable: Runnable, inputs: Sequence[Address], outputs: Sequence[Address]) -> None:
        assert isinstance(executable, LaunchedProgram)
        self._launches = TimedLaunches(executable, inputs, outputs)

    def plain(self) -> float:
        """The seconds of a run, with the wait for its end."""
        return self._launches.plain()

    def timed(self) -> RunTimes:
        """Run the program and time its launches."""
        spans = self._launches.timed()
        begin, end = (1 + (1e9 * span).astype(np.int64)[:, None] for span in (spans.begin, spans.end))
        return RunTimes(begin, end, end - begin)


def gpu_launch_times(
    executable: Runnable, inputs: Sequence[Address], outputs: Sequence[Address], rounds: int = 10
) -> list[float]:
    """The time of each launch in seconds: the minimum of so many runs; an event after each launch is part of it."""
    assert isinstance(executable, LaunchedProgram)
    launches = TimedLaunches(executable, inputs, outputs)
    spans = [launches.timed() for _ in range(rounds)]
    return np.min([span.end - span.begin for span in spans], axis=0).tolist()


def measure_gpu_peaks(context: Context, dtype: DType) -> Peaks:
    """Measure a matrix product in a dtype and a copy within the memory, in about a second after their compilation."""
    name = "bfloat16" if dtype is DType.BF16 else dtype.numpy.name
    a, b = (nd.ones((ROWS, ROWS), ctx=context, dtype=name) for _ in range(2))
    product = _seconds(lambda: nd.dot(a, b))
    source, target = (nd.ones((BYTES // 4,), ctx=context) for _ in range(2))
    copy = _seconds(lambda: source.copyto(target))
    how = f"a product of {ROWS} x {ROWS} {name}, and a copy of {BYTES >> 20} MiB"
    return Peaks(2 * ROWS**3 / product, 2 * BYTES / copy, None, how)


def _seconds(call: Callable[[], object]) -> float:
    """The shortest mean time of a call in a few series, each with a wait at its end."""
    call()
    once = _series(call, 1)
    count = max(1, min(1000, int(_SECONDS / _SERIES / once)))
    return min(_series(call, count) for _ in range(_SERIES))


def _series(call: Callable[[], object], count: int) -> float:
    begin = time.perf_counter()
    for _ in range(count):
        call()
    nd.waitall()
    return (time.perf_counter() - begin) / count
