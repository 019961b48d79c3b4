"""Estimates the times of a program's launches on a GPU that is not there."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence

from ...codegen.triton.describe import Described
from ...codegen.triton.launch_work import LaunchWork, Traffic, launch_work, traffic
from ...ir.lazy_dataclass import dataclass
from ...ir.places import Access
from ...ir.program import UNBOUNDED, Branch, Copy, Fill, Launch, Loop, Place, Program, Step
from .gpu_data import GpuData
from .gpu_model import MODEL, Estimate, Model, estimate_launch

_ITERATIONS = 4
"""Iterations of a loop that are estimated; the others take as long as the last one."""

_MOVED = 4096
"""Bytes that a program of a copy moves."""


@dataclass(frozen=True)
class EstimatedStep:
    """A launch or a copy: `times` is how often a run does it, and `estimate` None if its time cannot be known, as of
    what the host computes; then there is no `work`. `read` and `written` are bytes; `missed` of them are not in the L2
    cache.
    """

    step: Step
    times: int
    work: LaunchWork | None
    read: float
    written: float
    missed: float
    estimate: Estimate | None

    @property
    def seconds(self) -> float:
        """The time of all of them."""
        return 0.0 if self.estimate is None else self.times * self.estimate.seconds


def estimate_program(
    program: Program, kernels: dict[str, Described], gpu: GpuData, model: Model = MODEL
) -> list[EstimatedStep]:
    """The steps of a run that follows another one, in order; those of loops once. A loop whose length depends on data
    has one iteration, and of a branch the first side is taken."""
    estimator = _Estimator(kernels, gpu, model)
    list(estimator.steps(program.steps, 1, ()))  # fills the cache
    return list(estimator.steps(program.steps, 1, ()))


class _Estimator:
    def __init__(self, kernels: dict[str, Described], gpu: GpuData, model: Model) -> None:
        self.kernels, self.gpu, self.model = kernels, gpu, model
        self.cache = _Cache(int(gpu.cache * model.resident))
        self.known: dict[str, tuple[LaunchWork, list[Traffic]]] = {}

    def steps(self, steps: Sequence[Step], times: int, numbers: tuple[int, ...]) -> Iterator[EstimatedStep]:
        for step in steps:
            match step:
                case Loop():
                    count = 1 if step.count == UNBOUNDED else step.count
                    last = min(count, _ITERATIONS) - 1
                    for number in range(last):  # fills the cache
                        list(self.steps(step.body, 1, (*numbers, number)))
                    if count:
                        yield from self.steps(step.body, times * count, (*numbers, last))
                case Branch():
                    yield from self.steps(step.then, times, numbers)
                case Launch():
                    yield self._launch(step, times, numbers)
                case Copy():
                    missed = self._touch([(step.source, step.nbytes), (step.target, step.nbytes)], numbers)
                    yield self._moved(step, times, step.nbytes, step.nbytes, missed)
                case Fill():
                    missed = self._touch([(step.target, step.nbytes)], numbers)
                    yield self._moved(step, times, 0, step.nbytes, missed)
                case _:
                    yield EstimatedStep(step, times, None, 0, 0, 0, None)

    def _moved(self, step: Step, times: int, read: int, written: int, missed: float) -> EstimatedStep:
        """A copy or a fill, or a kernel that is written by hand: as long as it takes to move its operands once."""
        programs = max(1, -(-max(read, written) // _MOVED))
        work = LaunchWork(programs=programs, warps=4, loaded=read / programs, stored=written / programs)
        estimate = estimate_launch(work, missed, self.gpu, self.model)
        return EstimatedStep(step, times, work, read, written, missed, estimate)

    def _launch(self, step: Launch, times: int, numbers: tuple[int, ...]) -> EstimatedStep:
        places = [argument for argument in step.arguments if isinstance(argument, Place)]
        described = self.kernels.get(step.symbol)
        if described is None or described.kernel is None:
            return self._by_hand(step, times, places, numbers)
        if step.symbol not in self.known:
            self.known[step.symbol] = launch_work(described, step.count), traffic(described)
        work, moved = self.known[step.symbol]
        pairs = zip(places, moved, strict=False)
        missed = self._touch([(place, max(t.read, t.written)) for place, t in pairs], numbers)
        estimate = estimate_launch(work, missed, self.gpu, self.model)
        return EstimatedStep(
            step, times, work, sum(t.read for t in moved), sum(t.written for t in moved), missed, estimate
        )

    def _by_hand(self, step: Launch, times: int, places: Sequence[Place], numbers: tuple[int, ...]) -> EstimatedStep:
        missed = self._touch([(p, a.nbytes) for p, a in zip(places, step.accesses, strict=False)], numbers)
        read, written = (sum(a.nbytes for a in step.accesses if side(a)) for side in (_reads, _writes))
        return self._moved(step, times, read, written, missed)

    def _touch(self, touched: Sequence[tuple[Place, int]], numbers: tuple[int, ...]) -> float:
        """The bytes that are not in the cache, which has them from now on."""
        return sum(self.cache.touch(_address(place, numbers), nbytes) for place, nbytes in touched if nbytes)


def _reads(access: Access) -> bool:
    return access.reads


def _writes(access: Access) -> bool:
    return access.writes


def _address(place: Place, numbers: tuple[int, ...]) -> tuple[object, ...]:
    offset = place.offset + sum(s * n for s, n in zip(place.strides, numbers, strict=False))
    return place.space, place.index, offset


class _Cache:
    """The values that were used last, as many as fit."""

    def __init__(self, nbytes: int) -> None:
        self.nbytes, self.used = nbytes, 0
        self.values: OrderedDict[object, int] = OrderedDict()

    def touch(self, key: object, nbytes: int) -> int:
        """Use a value; the bytes of it that were not there."""
        before = self.values.pop(key, 0)
        self.used += nbytes - before
        self.values[key] = nbytes
        while self.used > self.nbytes and len(self.values) > 1:
            self.used -= self.values.popitem(last=False)[1]
        return nbytes if nbytes > self.nbytes else max(0, nbytes - before)
