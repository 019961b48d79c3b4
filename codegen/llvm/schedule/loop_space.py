"""The space of schedules, for tuning, of the loops of a kernel without contraction."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ....ir.kernel import AxisKind, Kernel, Store
from ....ir.lazy_dataclass import dataclass
from ....ir.symbolic import is_symbolic
from ....ir.types import DType
from ...hoist import hoist_stages
from ...nest import Nest, build_nest
from ..cpu import Cpu
from .kinds import LoopChoice
from .loops import choose_loops, nest_lanes
from .space import Space
from .steps import plan_steps, scratch_rows

_MOST_TOGETHER = 16
"""The most accumulators of a reduction, and vectors of rows: each is code of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopNest:
    """The nest of a kernel without contraction, and the dtypes of its buffers."""

    kernel: Kernel
    nest: Nest
    dtypes: dict[str, DType]


def describe_loops(kernel: Kernel) -> LoopNest:
    """The nest of `kernel`. ValueError names an access that has no address."""
    dtypes = {b.name: b.dtype for b in kernel.buffers}
    return LoopNest(kernel=kernel, nest=build_nest(hoist_stages(kernel)), dtypes=dtypes)


def loop_spaces(shape: LoopNest, target: Cpu) -> tuple[LoopSpace, ...]:
    """The space of a nest; none if extents are not known."""
    if shape.kernel.extents or any(is_symbolic(a.extent) for a in shape.nest.axes):
        return ()
    default = choose_loops(shape.nest, shape.dtypes, target)
    lanes = nest_lanes(shape.nest, shape.dtypes, target)
    return (LoopSpace(default=default, nest=shape.nest, lanes=lanes, threads=target.threads),)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopSpace(Space[LoopChoice]):
    """The vector axis of the formulas, or another one along which all results are contiguous or summed."""

    default: LoopChoice
    nest: Nest
    lanes: int
    threads: int

    @property
    def start(self) -> LoopChoice:
        return self.default

    def contains(self, schedule: LoopChoice) -> bool:
        s, width = schedule, self._width(schedule.vector)
        if s.vector != self.default.vector and s.vector not in self._other_axes():
            return False
        blocks = s.block == 0 or (s.block % self.lanes == 0 and self.lanes <= s.block < width)
        shared = 0 <= s.shared <= self._outer(s.vector) and s.grain >= 1
        return blocks and shared and self._together(s, width)

    def _together(self, s: LoopChoice, width: int) -> bool:
        """True if the nest can have so many accumulators, and so many vectors of rows together."""
        if not (1 <= s.unroll <= _MOST_TOGETHER and 1 <= s.interleave <= _MOST_TOGETHER):
            return False
        sums = bool(self.nest.names(AxisKind.REDUCE)) and s.vector >= 0
        rows = width > 1 and s.interleave * self.lanes <= (s.block or width) and not scratch_rows(plan_steps(self.nest))
        return (s.unroll == 1 or (sums and s.interleave == 1)) and (s.interleave == 1 or rows)

    def near(self, schedule: LoopChoice) -> Iterator[LoopChoice]:
        s = schedule
        for axis in self._other_axes():
            yield replace(s, vector=axis, shared=min(s.shared, self._outer(axis)), block=0, unroll=1, interleave=1)
        for count in (s.interleave * 2, s.interleave // 2, 1):
            yield replace(s, interleave=count)
        for count in (s.unroll * 2, s.unroll // 2, 1):
            yield replace(s, unroll=count)
        width = self._width(s.vector)
        for block in (s.block // 2, s.block * 2, 0) if s.block else (width // (4 * self.threads), width // 2):
            yield replace(s, block=-(-block // self.lanes) * self.lanes)
        for step in (-1, 1):
            yield replace(s, shared=s.shared + step)
        for grain in (s.grain * 4, s.grain // 4):
            yield replace(s, grain=max(1, grain))

    def _width(self, vector: int) -> int:
        """The elements of a parallel vector axis; 1 if it is reduced."""
        axis = self.nest.axes[vector] if 0 <= vector < len(self.nest.axes) else None
        return self.nest.known_extent(axis.name) if axis is not None and axis.kind is AxisKind.PARALLEL else 1

    def _outer(self, vector: int) -> int:
        """The number of parallel axes other than the vector axis."""
        kinds = [a.kind for i, a in enumerate(self.nest.axes) if i != vector]
        return kinds.count(AxisKind.PARALLEL)

    def _other_axes(self) -> list[int]:
        """Other vector axes. With a guard lanes are the channels of a block."""
        if self.nest.guard is not None or self.default.vector < 0:
            return []
        stores = [self.nest.accesses[s.buffer, s.index] for s in self.nest.stages if isinstance(s, Store)]
        others: list[int] = []
        for i, axis in enumerate(self.nest.axes):
            strides = {a.stride(axis.name) for a in stores}
            fits = strides <= {0, 1} if axis.kind is AxisKind.REDUCE else strides == {1}
            if fits and i != self.default.vector and self.nest.known_extent(axis.name) > 1:
                others.append(i)
        return others
