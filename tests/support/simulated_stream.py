"""The streams of simulated GPUs. Work is queued, and is done as late as possible: when the host waits for it.

So a run that reads memory too early, or that reuses memory which queued work still reads, computes something else. The
host waits by doing the work itself, in order, up to the event. Work that waits for an event of another stream first
does the work of that stream.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from mxforge.ir.locks import ForkSafeLock
from mxforge.runtime.errors import device_failed
from mxforge.runtime.launch_list import LaunchList

if TYPE_CHECKING:
    from .simulated_gpu import SimulatedGpu

_working = ForkSafeLock()
"""Held while work is done: a stream can wait for any other. Finalizers do not take it, they only append work."""

Work = tuple[Callable[..., None], tuple[Any, ...]]


class LaunchError(Exception):
    """An error of a launch, with the names of its kernel and program."""


class SimulatedEvent:
    """Implements `Event`."""

    def __init__(self, stream: SimulatedStream) -> None:
        self.stream, self.reached = stream, False

    def is_reached(self) -> bool:
        return self.reached

    def synchronise(self) -> None:
        with _working:
            self.stream.work_until(self)
            self.stream.raise_failure()


class SimulatedStream:
    """Implements `Stream`. `uploads` and `downloads` count copies from and to the host."""

    def __init__(self, device: SimulatedGpu) -> None:
        self.device = device
        self.queue: deque[Work] = deque()
        self.failure = ""
        self.lists = self.uploads = self.downloads = 0

    # -- starting work

    def upload(self, target: int, source: np.ndarray[Any, Any]) -> None:
        self.device.require_pinned(source)
        self.uploads += 1
        self._start(self.device.memory.store, target, source)

    def download(self, into: np.ndarray[Any, Any], source: int) -> None:
        self.device.require_pinned(into)
        self.downloads += 1
        self._start(self._download, into, source)

    def copy(self, target: int, source: int, nbytes: int) -> None:
        self._start(self._copy, self.device, target, source, nbytes)

    def copy_to(self, peer: Any, target: int, source: int, nbytes: int) -> None:
        self._start(self._copy, peer, target, source, nbytes)

    def clear(self, target: int, nbytes: int) -> None:
        self._start(self._clear, target, nbytes)

    def fill(self, target: int, element: bytes, count: int) -> None:
        self._start(self.device.memory.store, target, np.frombuffer(element * count, np.uint8))

    def run(self, launches: LaunchList) -> None:
        self.lists += 1
        self._start(self._run, launches, launches.words.tolist())

    def time(self, launches: LaunchList) -> list[float]:
        """A microsecond for each launch."""
        self.run(launches)
        self.synchronise()
        return [1e-6 * (number + 1) for number in range(len(launches.launches))]

    def free(self, address: int) -> None:
        """Free a block after all work that was started before. Any thread can call this at any time."""
        self.queue.append((self.device.release, (address,)))

    def record(self) -> SimulatedEvent:
        event = SimulatedEvent(self)
        self.queue.append((self._reach, (event,)))
        return event

    def wait(self, event: SimulatedEvent) -> None:
        self.queue.append((self._wait, (event,)))

    def synchronise(self) -> None:
        self.record().synchronise()

    def _start(self, function: Callable[..., None], *arguments: Any) -> None:
        self.queue.append((function, arguments))

    # -- doing it

    def work_until(self, event: SimulatedEvent) -> None:
        """Do the work before an event of this stream. After a failure, memory is only freed."""
        while not event.reached:
            function, arguments = self.queue.popleft()
            if self.failure and function not in (self._reach, self._wait, self.device.release):
                continue
            try:
                function(*arguments)
            except LaunchError as error:
                self.failure = f"{self.device.name}: {error}"
            except Exception as error:  # whatever is wrong with an address
                doing = function.__name__.strip("_")
                self.failure = f"{self.device.name}: {doing}: {type(error).__name__}: {error}"

    def raise_failure(self) -> None:
        """Raise the error of the work that failed since the last time."""
        failure, self.failure = self.failure, ""
        if failure:
            raise device_failed(failure)

    def _reach(self, event: SimulatedEvent) -> None:
        event.reached = True

    def _wait(self, event: SimulatedEvent) -> None:
        event.stream.work_until(event)
        self.failure = self.failure or event.stream.failure

    def _download(self, into: np.ndarray[Any, Any], source: int) -> None:
        into[:] = self.device.memory.bytes_at(source, into.size)

    def _copy(self, peer: SimulatedGpu, target: int, source: int, nbytes: int) -> None:
        peer.memory.store(target, self.device.memory.bytes_at(source, nbytes).copy())

    def _clear(self, target: int, nbytes: int) -> None:
        self.device.memory.bytes_at(target, nbytes)[:] = 0

    def _run(self, launches: LaunchList, words: list[int]) -> None:
        for launch in launches.launches:
            try:
                self.device.launch(launch, words[launch.first : launch.end])
            except Exception as error:  # whatever is wrong with a kernel
                name = launch.kernel if isinstance(launch.kernel, str) else launch.kernel[0].name
                raise LaunchError(
                    f"kernel {name} of {launches.program.name}: {type(error).__name__}: {error}"
                ) from error
