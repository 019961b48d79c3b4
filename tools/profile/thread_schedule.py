"""Predicts the time of a program if launches that do not depend on each other run at the same time.

The model is that of `thread_model.py`, but a free thread takes a chunk of any launch that is ready, of the first one in
the order of the program. One thread works on a launch until the others have learnt of it. A launch is ready when all
steps before it in the graph are finished.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from .thread_model import LaunchWork, ThreadCosts, chunk_sizes

if TYPE_CHECKING:
    from networkx import DiGraph


def together_seconds(
    works: Mapping[int, Sequence[LaunchWork]], graph: DiGraph[int], threads: int, costs: ThreadCosts
) -> float:
    """The predicted time of a program with this graph of steps, on so many threads. `works` are the launches of steps
    by their numbers, which run one after the other; a copy has none and takes no time."""
    return _Schedule(works, graph, threads, costs).run()


class _Event(IntEnum):
    OPEN = 0  # all threads know of the launch
    CHUNK = 1  # a thread has finished a chunk
    END = 2  # the launch is finished


class _Step:
    """A step of the program and its present launch."""

    def __init__(self, works: Sequence[LaunchWork], waits: int) -> None:
        self.left, self.waits = list(reversed(works)), waits
        self.chunks: list[float] = []  # seconds of each chunk that no thread has taken, the next one last
        self.workers, self.most = 0, 1
        self.counter = self.least = self.sharing = self.chunk = 0.0

    def start(self, work: LaunchWork, now: float, threads: int, costs: ThreadCosts) -> None:
        """Begin a launch."""
        sizes = chunk_sizes(work.count, work.grain, threads)
        shared = len(sizes) > 1
        self.chunks = [work.seconds / work.count * size for size in reversed(sizes)] if shared else [work.seconds]
        self.sharing, self.chunk = (costs.sharing(threads), costs.chunk) if shared else (0.0, 0.0)
        self.least = now + ((work.nbytes or 0.0) / costs.bandwidth if shared else 0.0)
        self.counter, self.most = now, 1

    def take(self, now: float) -> float:
        """Let a thread take a chunk. Returns when it will have finished it."""
        self.workers += 1
        self.counter = max(now, self.counter) + self.chunk
        return self.counter + self.chunks.pop()


class _Schedule:
    def __init__(
        self, works: Mapping[int, Sequence[LaunchWork]], graph: DiGraph[int], threads: int, costs: ThreadCosts
    ) -> None:
        self.graph, self.threads, self.costs = graph, threads, costs
        self.steps = {n: _Step(works.get(n, ()), len(graph.pred[n])) for n in graph}
        self.free, self.now = threads, 0.0
        self.open: list[int] = []  # steps with chunks that no thread has taken
        self.events: list[tuple[float, _Event, int]] = []

    def run(self) -> float:
        """The time at which the last step is finished."""
        self._continue([n for n, step in self.steps.items() if not step.waits])
        while self.events:
            self._assign()
            self.now, event, number = heappop(self.events)
            self._handle(event, number)
        return self.now

    def _continue(self, numbers: list[int]) -> None:
        """Begin the next launch of each of these steps. Steps after one without a further launch wait no more."""
        while numbers:
            number = numbers.pop()
            step = self.steps[number]
            if step.left:
                step.start(step.left.pop(), self.now, self.threads, self.costs)
                self.open = sorted([*self.open, number])
                self._at(self.now + step.sharing / 2, _Event.OPEN, number)
                continue
            for after in self.graph.succ[number]:
                self.steps[after].waits -= 1
                if not self.steps[after].waits:
                    numbers.append(after)

    def _at(self, time: float, event: _Event, number: int) -> None:
        heappush(self.events, (time, event, number))

    def _assign(self) -> None:
        """Let free threads take chunks."""
        for number in list(self.open):
            step = self.steps[number]
            while self.free and step.chunks and step.workers < step.most:
                self.free -= 1
                self._at(step.take(self.now), _Event.CHUNK, number)
            if not step.chunks:
                self.open.remove(number)

    def _handle(self, event: _Event, number: int) -> None:
        step = self.steps[number]
        if event is _Event.OPEN:
            step.most = self.threads
        elif event is _Event.END:
            self._continue([number])
        else:
            self.free += 1
            step.workers -= 1
            if not step.chunks and not step.workers:
                self._at(max(self.now + step.sharing / 2, step.least), _Event.END, number)
