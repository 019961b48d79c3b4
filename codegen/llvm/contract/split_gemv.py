"""Matrix products of 5 to 8 rows as dot products, for large weights.

Packing such weights would double the memory of a model, so they are read in place. The reduction is divided into parts,
so that a part of all rows stays in the L1 cache while the columns of a unit of work are read.
"""

from __future__ import annotations

from ...emission import LaunchSpec
from ..arithmetic import Value
from ..emitter import ModuleBuilder
from ..schedule.kinds import COLUMNS_OF_UNIT, GemvSchedule
from ..types import I32
from .gemv import Gemv
from .micro import EpilogueWriter
from .problem import Problem


def emit_split_gemv(module: ModuleBuilder, problem: Problem, schedule: GemvSchedule, symbol: str) -> LaunchSpec:
    """A launch over blocks of columns of each group."""
    return _SplitGemv(module, problem, schedule, symbol, COLUMNS_OF_UNIT).emit()


class _SplitGemv(Gemv):
    """`_sums` are those of a unit, [column][row][lane], between the parts; `_inputs` are the rows of a part,
    [step][row][lane], because rows in place can be a multiple of 4096 bytes apart, which few ways of a cache hold."""

    def _unit(self, channel: Value, first: Value, rows: list[Value], index: list[Value]) -> None:
        f, problem, s = self.f, self.problem, self.schedule
        self._sums = f.alloca(self.vector, COLUMNS_OF_UNIT * s.rows)
        self._inputs = f.alloca(self.vector, max(s.part // s.lanes, 1) * s.rows)
        columns = f.smin(problem.channels - channel, COLUMNS_OF_UNIT)
        with f.loop(0, COLUMNS_OF_UNIT * s.rows) as i:
            f.store(f.const(self.vector, 0.0), f.gep(self._sums, i, self.vector))
        whole = problem.depth // s.lanes * s.lanes
        with f.loop(0, whole, s.part) as begin:
            steps = f.udiv(f.smin(whole - begin, s.part), s.lanes)
            self._part(rows, first, columns, begin, steps, s.lanes)
        if problem.depth > whole:
            self._part(
                rows, first, columns, f.const(columns.type, whole), f.const(columns.type, 1), problem.depth - whole
            )
        with f.loop(0, columns, s.lanes) as j:
            self._set_operands(channel + j, index)
            self._store_vector(j, f.rest_mask(j, columns, s.lanes))

    def _part(self, rows: list[Value], first: Value, columns: Value, begin: Value, steps: Value, count: int) -> None:
        """Add the products of `steps` vectors from `begin` on, of `count` elements each, to the sums of all columns."""
        f, s = self.f, self.schedule
        with f.loop(0, steps) as step:
            for r, row in enumerate(rows):
                value = self._read(f.gep(row, begin + step * s.lanes, self.scalar), count)
                f.store(value, f.gep(self._inputs, step * s.rows + r, self.vector))
        with f.loop(0, columns, s.channels) as c:
            # columns after the last one are the last one again
            numbers = [f.smin(c + k, columns - 1) if k else c for k in range(s.channels)]
            stride = self.problem.weights.filter
            weights = [f.gep(first, number * stride + begin, self.weight) for number in numbers]
            places = [f.gep(self._sums, c * s.rows + i, self.vector) for i in range(s.channels * s.rows)]
            with f.carry_loop(0, steps, [f.load(place, self.vector) for place in places]) as loop:
                loop.next(*self._products(weights, loop.index, list(loop.values), count))
            for value, place in zip(loop.results, places, strict=True):
                f.store(value, place)

    def _products(self, columns: list[Value], step: Value, sums: list[Value], count: int) -> list[Value]:
        """The sums, [column][row], after the products of a step."""
        f, s = self.f, self.schedule
        weights: list[Value] = []
        for column in columns:
            self._prefetch(column, step * s.lanes)
            weights.append(self._read(f.gep(column, step * s.lanes, self.weight), count))
        inputs = [f.load(f.gep(self._inputs, step * s.rows + r, self.vector), self.vector) for r in range(s.rows)]
        terms = [(x, w) for w in weights for x in inputs]
        return [f.fma(x, w, total) for (x, w), total in zip(terms, sums, strict=True)]

    def _read(self, address: Value, count: int) -> Value:
        """A vector of which the first `count` lanes are read, and the others are 0."""
        f, lanes = self.f, self.schedule.lanes
        if count == lanes:
            return f.load(address, self.vector)
        return f.masked_load(address, self.vector, f.first_lanes(lanes, count))

    def _store_vector(self, first: Value, mask: Value) -> None:
        """Apply the epilogue to a vector of columns from `first` on, row by row, and store it."""
        f, s = self.f, self.schedule
        with f.loop(0, s.rows) as r:
            numbers = [(first + c) * s.rows + r for c in range(s.lanes)]
            sums = [f.load(f.gep(self._sums, number, self.vector), self.vector) for number in numbers]
            writer = EpilogueWriter(
                f,
                self.problem.vector_epilogue,
                tables=len(self.offsets),
                context=self.context,
                lanes=s.lanes,
                valid=lambda j: s.lanes,
                mask=mask,
            )
            at = {t: f.convert(f.load(f.gep(self.offsets[t], r, I32), I32), "i64") for t in writer.used_tables()}
            writer.store(self._totals(sums), 0, at)

    def _totals(self, sums: list[Value]) -> Value:
        """A vector whose lane i is the sum of the lanes of sums[i], added in the order of `reduce`."""
        f, size = self.f, self.schedule.lanes  # the lanes of a vector that belong to one sum
        while len(sums) > 1:
            half = size // 2
            low = [start + i for start in range(0, 2 * self.schedule.lanes, size) for i in range(half)]
            pairs = zip(sums[::2], sums[1::2], strict=True)
            sums = [f.shuffle(a, b, low) + f.shuffle(a, b, [i + half for i in low]) for a, b in pairs]
            size = half
        return sums[0]
