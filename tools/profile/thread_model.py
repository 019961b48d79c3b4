"""Predicts the time of launches on many threads: the pool's division into chunks, its costs, and the shared memory.

`docs/threads.md` describes the model. The rule of the pool is that of `runtime/host/native/pool.c`.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from heapq import heapify, heapreplace
from itertools import pairwise
from math import log2

from ...codegen.llvm.pool import CHUNK_ALIGNMENT, CHUNKS_OF_THREAD, LONG_CHUNK, MOST_CHUNKS_OF_FEW
from ...ir.lazy_dataclass import dataclass


class Limit(StrEnum):
    """Why a launch takes more than its work divided by the number of threads."""

    ONE_UNIT = "one unit"
    FEW_UNITS = "few units"
    UNEVEN = "uneven"
    SHORT = "short"
    COSTS = "costs"
    MEMORY = "memory"


@dataclass(frozen=True)
class ThreadCosts:
    """`launch`: seconds in which two threads start and finish a launch, without its work. `chunk`: seconds to take and
    finish a chunk, which threads do one after the other. `bandwidth`: the bytes per second that all threads
    read together from memory."""

    launch: float
    chunk: float
    bandwidth: float

    def sharing(self, threads: int) -> float:
        """Seconds to start and finish a launch of so many threads: the levels of a binary tree, an assumption."""
        return self.launch * log2(threads)


@dataclass(frozen=True)
class LaunchWork:
    """A launch with `count` units, in chunks of at least `grain`. `seconds` is its time on one thread, `nbytes` what it
    reads and writes (None: not known). `step` is the number of the step of the program."""

    name: str
    count: int
    grain: int
    seconds: float
    nbytes: float | None = None
    step: int = 0


@dataclass(frozen=True)
class Prediction:
    """The predicted time of a launch. `lost` is the part of `seconds` beyond an even division of the work, by cause."""

    work: LaunchWork
    chunks: int
    seconds: float
    lost: dict[Limit, float]


def chunk_sizes(count: int, grain: int, threads: int) -> list[int]:
    """The units of each chunk of a launch, as the pool divides it; one chunk if a thread runs the launch alone."""
    fitting = count // max(1, grain)
    if count <= grain or fitting < 2 or threads < 2:
        return [count] if count > 0 else []
    finest = max(fitting, CHUNKS_OF_THREAD * fitting // threads)
    most = min(finest, count, max(CHUNKS_OF_THREAD * threads, MOST_CHUNKS_OF_FEW))
    chunks = most - most % threads if most >= threads else most
    aligned = CHUNK_ALIGNMENT if count // chunks >= LONG_CHUNK else 1
    units = -(-count // aligned)
    begins = [min(aligned * (i * units // chunks), count) for i in range(chunks + 1)]
    return [end - begin for begin, end in pairwise(begins)]


def finish_seconds(chunks: Sequence[float], threads: int, sharing: float, chunk: float) -> float:
    """The time until all chunks (seconds of each) are finished and the caller knows it. A free thread takes the next
    chunk; the counter of chunks serves one thread at a time. Half of `sharing` passes before other threads than the
    caller start, and half after the last chunk."""
    free = [0.0, *[sharing / 2] * (threads - 1)]
    heapify(free)
    counter = last = 0.0
    for seconds in chunks:
        counter = max(free[0], counter) + chunk
        heapreplace(free, counter + seconds)
        last = max(last, counter + seconds)
    return last + sharing / 2


def predict(work: LaunchWork, threads: int, costs: ThreadCosts) -> Prediction:
    """The time of a launch on so many threads."""
    even, sizes = work.seconds / threads, chunk_sizes(work.count, work.grain, threads)
    if len(sizes) < 2:
        limit = Limit.ONE_UNIT if work.count < 2 else Limit.SHORT
        return Prediction(work, len(sizes), work.seconds, {limit: work.seconds - even} if threads > 1 else {})
    chunks = [work.seconds / work.count * size for size in sizes]
    free = finish_seconds(chunks, threads, 0.0, 0.0)
    busy = finish_seconds(chunks, threads, costs.sharing(threads), costs.chunk)
    seconds = max(busy, (work.nbytes or 0.0) / costs.bandwidth)
    lost = {_limit(work, len(sizes), threads): free - even, Limit.COSTS: busy - free, Limit.MEMORY: seconds - busy}
    return Prediction(work, len(sizes), seconds, lost)


def _limit(work: LaunchWork, chunks: int, threads: int) -> Limit:
    """Why chunks do not keep all threads busy for the same time."""
    if work.count < threads:
        return Limit.FEW_UNITS
    return Limit.UNEVEN if chunks >= threads else Limit.SHORT
