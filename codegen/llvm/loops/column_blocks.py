"""Reduces columns in blocks whose accumulators are in memory, so that rows are read in long pieces, several together.

Accumulators in registers would hold few columns: each row is then read in short pieces, far apart from each other. An
accumulator combines the elements of its column in the order of the rows, whatever the block.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import reduce
from itertools import groupby

from ....ir.kernel import Extent, Local, Reduce, ReduceOp, Stage
from ....ir.types import DType
from ..arithmetic import Operand, Value
from ..scalars import emit_scalar
from ..schedule.columns import COLUMNS
from ..schedule.steps import LoopGroup, is_reduction
from .expressions import Point
from .rows import Row, RowEmitter


class ColumnBlocks:
    """Emits the steps of rows at whole vectors of the vector axis. Values of row Locals are in memory."""

    def __init__(self, rows: RowEmitter) -> None:
        self.rows, self.f, self.s, self.eval = rows, rows.f, rows.s, rows.eval
        self.columns = min(self.s.block, COLUMNS) if self.s.is_split else COLUMNS
        self.memory: dict[str, tuple[Value, DType]] = {}

    def emit(self, point: Point, low: Operand, high: Operand) -> Operand:
        """Emit the whole vectors in [low, high); returns the index of the rest."""
        f, lanes = self.f, self.s.lanes
        if isinstance(low, int) and isinstance(high, int):
            end: Operand = high - (high - low) % lanes
        else:
            end = f.sub(high, f.urem(f.sub(high, low), lanes))
        with f.loop(low, end, self.columns) as first:
            count = f.udiv(f.sub(f.smin(f.add(first, self.columns), end), first), lanes)
            self._block({**point, self.s.vector: first}, count)
        return end

    def _block(self, point: Point, count: Value) -> None:
        """Each step at `count` vectors from `point` on before the next step."""
        for is_loop, steps in groupby(self.rows.steps, lambda step: isinstance(step, LoopGroup)):
            if is_loop:
                for group in steps:
                    assert isinstance(group, LoopGroup)
                    self._reduce(group, point, count)
            else:
                self._row_stages([step for step in steps if not isinstance(step, LoopGroup)], point, count)

    def _row_stages(self, stages: Sequence[Stage], point: Point, count: Value) -> None:
        with self._vectors(point, count) as (at, row):
            for stage in stages:
                self.rows.point_stage(stage, row, None)
                if isinstance(stage, Local):
                    self._keep(stage.name, *row.locals[stage.name], at)

    def _reduce(self, group: LoopGroup, point: Point, count: Value) -> None:
        names = [stage.name for stage in group.stages if isinstance(stage, Local) and is_reduction(stage)]
        start = self.rows.neutral_values(group)
        with self._vectors(point, count) as (at, _):
            for name, value in zip(names, start, strict=True):
                self._keep(name, value, self.eval.local_dtype(name), at)
        self._rows(list(self.s.reductions), group, names, point, count)

    def _rows(self, axes: list[str], group: LoopGroup, names: Sequence[str], point: Point, count: Value) -> None:
        """Combine the elements of all rows with the accumulators; rows of the last axis several together."""
        f, (axis, *inner) = self.f, axes
        extent = self.eval.extent(axis)
        if inner:
            with f.loop(0, extent) as index:
                self._rows(inner, group, names, {**point, axis: index}, count)
            return
        for begin, end, together in self._pieces(extent):
            with f.loop(begin, end, together) as index:
                indices = [f.add(index, k) for k in range(together)]
                self.eval.common.products = self._products(axis, indices)
                with self._vectors(point, count) as (at, row):
                    totals = self._combined(group, row, axis, indices, [row.locals.pop(name)[0] for name in names])
                    for name, total in zip(names, totals, strict=True):
                        self._keep(name, total, self.eval.local_dtype(name), at)
                self.eval.common.products = {}

    def _pieces(self, extent: Operand) -> list[tuple[Operand, Operand, int]]:
        """The ranges of rows (begin, end, rows that are read together)."""
        most = self.s.rows
        if isinstance(extent, int):
            rest = extent % most
            pieces = [(0, extent - rest, most), (extent - rest, extent, rest)]
            return [piece for piece in pieces if piece[0] < piece[1]]
        end = self.f.sub(extent, self.f.urem(extent, most))
        return [(0, end, most), (end, extent, 1)]

    def _combined(
        self, group: LoopGroup, row: Row, axis: str, indices: Sequence[Value], totals: list[Value]
    ) -> list[Value]:
        """`totals` combined with the elements of several rows."""
        points = [{**row.point, axis: index} for index in indices]
        stage = group.stages[0]
        if len(points) > 1 and len(group.stages) == 1 and is_reduction(stage):
            assert isinstance(stage.value, Reduce)
            op, dtype = stage.value.op, self.eval.dtype(stage.value.operand)
            if dtype.is_float and op in (ReduceOp.MAX, ReduceOp.MIN):
                values = [self.eval.value(stage.value.operand, point, None, row.locals)[0] for point in points]
                return [self._extremum(op, dtype, [*totals, *(self.eval.wide(v, self.s.lanes) for v in values)])]
        for point in points:
            totals = self.rows.iteration(group, row, point, None, totals)
        return totals

    def _extremum(self, op: ReduceOp, dtype: DType, values: Sequence[Value]) -> Value:
        """The extremum of vectors. It takes an instruction for each of them if none has a NaN, four in general."""
        f = self.f
        pairs = zip(values[::2], values[1::2] if len(values) % 2 == 0 else [*values[1::2], values[-1]], strict=True)
        unordered = reduce(f.or_, (f.cmp("uno", a, b) for a, b in pairs))
        fast = f.max_or_second if op is ReduceOp.MAX else f.min_or_second

        def with_nan() -> list[Value]:
            return [reduce(lambda total, v: emit_scalar(f, op.scalar, (total, v), dtype), values)]

        (result,) = f.branch(f.any(unordered), with_nan, lambda: [reduce(fast, values)], unlikely=True)
        return result

    def _products(self, axis: str, indices: Sequence[Value]) -> dict[tuple[Operand, Extent], Value]:
        """The products of the indices of rows and the strides between rows: no pass moves them out of the loop over
        vectors if code is compiled fast."""
        strides = {access.stride(axis): None for access in self.rows.nest.accesses.values()}
        products = {(index, stride): self.eval.times(index, stride) for index in indices for stride in strides}
        return {key: value for key, value in products.items() if isinstance(value, Value)}

    # -- values in memory

    @contextmanager
    def _vectors(self, point: Point, count: Value) -> Generator[tuple[Value, Row]]:
        """A loop over the vectors. Yields the number of a vector, and its row with the values in memory."""
        f, s = self.f, self.s
        with f.loop(0, count) as at:
            row = Row({**point, s.vector: f.add(point[s.vector], f.mul(at, s.lanes))})
            for name, (address, dtype) in self.memory.items():
                type = self.rows.vector_type(dtype)
                row.locals[name] = f.load(f.gep(address, at, type), type), dtype
            yield at, row

    def _keep(self, name: str, value: Value, dtype: DType, at: Value) -> None:
        """Store the value of a row Local at vector `at`."""
        f = self.f
        type = self.rows.vector_type(dtype)
        if name not in self.memory:
            self.memory[name] = f.alloca(type, -(-self.columns // self.s.lanes)), dtype
        f.store(self.eval.wide(value, self.s.lanes), f.gep(self.memory[name][0], at, type))
