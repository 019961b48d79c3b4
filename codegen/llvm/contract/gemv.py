"""Matrix products of few rows as dot products, for weights that are stored as [column][reduction].

The time of such a product is that of reading the weights, so they are read once and in place. Weights in a narrower
dtype are packed, and widened as they are read.
"""

from __future__ import annotations

from math import prod

from ...emission import LaunchSpec
from ..arithmetic import Value
from ..emitter import ModuleBuilder
from ..schedule.kinds import ROWS_OF_STREAM, GemvSchedule
from ..types import I32, I64, PTR, Type, memory_type_of
from .micro import LINE_BYTES, EpilogueWriter
from .packed_columns import PackedColumns, packed_columns
from .points import FILL_LANES, fill_table
from .problem import Problem
from .tiles import KERNEL_PARAMETERS, argument

_GRAIN_BYTES = 16 << 10


def emit_gemv(module: ModuleBuilder, problem: Problem, schedule: GemvSchedule, symbol: str) -> LaunchSpec:
    """A launch over blocks of columns of each group."""
    return Gemv(module, problem, schedule, symbol, schedule.channels).emit()


def gemv_packing(problem: Problem, schedule: GemvSchedule) -> PackedColumns | None:
    """The packed form of narrow weights; None for others, which are read in place."""
    if problem.weight_element == problem.element:
        return None
    return packed_columns(problem, schedule.lanes, schedule.channels if schedule.rows <= ROWS_OF_STREAM else 1)


class Gemv:
    """A function whose units of work are `width` columns of a group."""

    def __init__(
        self, module: ModuleBuilder, problem: Problem, schedule: GemvSchedule, symbol: str, width: int
    ) -> None:
        self.problem, self.schedule, self.symbol, self.width = problem, schedule, symbol, width
        self.scalar, self.weight = Type.of(problem.element), Type.of(problem.weight_element)
        self.vector = Type.of(problem.element, schedule.lanes)
        self.packing = gemv_packing(problem, schedule)
        self.spread = 1 if self.packing is None else self.packing.block
        self.tables = problem.tables
        self.f = module.function(symbol, None, KERNEL_PARAMETERS)

    def emit(self) -> LaunchSpec:
        f, problem = self.f, self.problem
        units = -(-problem.channels // self.width)
        operands = problem.epilogue.operands
        self.operands = [(argument(f, o.slot), o.view, memory_type_of(o.dtype)) for o in operands]
        self.context = f.alloca(I64, len(self.tables.strides) + 2 * len(operands))
        self.offsets = [f.alloca(I32, self.schedule.rows + FILL_LANES) for _ in self.tables.strides]
        for k, (table, strides) in enumerate(zip(self.offsets, self.tables.strides, strict=True)):
            fill_table(f, table, f.const(I64, 0), f.const(I64, self.schedule.rows), problem.points, strides)
            f.store(table, f.gep(self.context, k, PTR))
        x, self.w = argument(f, problem.x_slot), argument(f, problem.w_slot)
        with f.loop(f.args[1], f.args[2]) as unit:
            group = f.udiv(unit, units)
            index = self._group_index(group)
            channel = f.urem(unit, units) * self.width
            rows = self._rows(self._start(x, problem.x.base, problem.x.groups, index, self.scalar))
            self._unit(channel, self._first_column(group, index, channel), rows, index)
        f.ret()
        work = problem.depth * self.width * self.weight.bytes
        return LaunchSpec(self.symbol, units * prod(problem.groups), max(1, _GRAIN_BYTES // work))

    def _rows(self, x: Value) -> list[Value]:
        """The addresses of the rows of a group."""
        f, table = self.f, self.offsets[0]
        offsets = [f.load(f.gep(table, r, I32), I32) for r in range(self.schedule.rows)]
        return [f.gep(x, f.convert(offset, "i64"), self.scalar) for offset in offsets]

    def _group_index(self, group: Value) -> list[Value]:
        f = self.f
        digits: list[Value] = []
        for n in reversed(self.problem.groups):
            digits.append(f.urem(group, n))
            group = f.udiv(group, n)
        return digits[::-1]

    def _start(self, address: Value, base: int, strides: tuple[int, ...], index: list[Value], element: Type) -> Value:
        f = self.f
        address = f.gep(address, base, element)
        for i, stride in zip(index, strides, strict=True):
            address = f.gep(address, i * stride, element) if stride else address
        return address

    def _set_operands(self, channel: Value, index: list[Value]) -> None:
        f = self.f
        for k, (base, view, element) in enumerate(self.operands):
            at = f.gep(self._start(base, view.base, view.groups, index, element), channel * view.stride, element)
            f.store(at, f.gep(self.context, len(self.offsets) + 2 * k, PTR))
            f.store(f.const(I64, view.stride), f.gep(self.context, len(self.offsets) + 2 * k + 1, I64))

    def _unit(self, channel: Value, first: Value, rows: list[Value], index: list[Value]) -> None:
        """Compute the columns of a group from `channel` on, of which the weights are at `first`."""
        f, problem = self.f, self.problem
        self._set_operands(channel, index)
        ragged = problem.channels % self.schedule.channels
        if not ragged:
            self._columns(first, rows, self.schedule.channels)
            return
        is_last = f.cmp("gt", channel + self.schedule.channels, problem.channels)
        f.branch(
            is_last,
            lambda: self._columns(first, rows, ragged),
            lambda: self._columns(first, rows, self.schedule.channels),
        )

    def _first_column(self, group: Value, index: list[Value], channel: Value) -> Value:
        """The address of the weights of a unit."""
        f, weights, packing = self.f, self.problem.weights, self.packing
        if packing is not None:
            return f.gep(self.w, (group * packing.padded_columns + channel) * packing.padded_depth, self.weight)
        return f.gep(
            self._start(self.w, weights.base, weights.groups, index, self.weight), channel * weights.filter, self.weight
        )

    def _columns(self, first: Value, rows: list[Value], count: int) -> tuple[()]:
        f, lanes, packing = self.f, self.schedule.channels, self.packing
        stride = self.problem.weights.filter if packing is None else packing.stride
        columns = [f.gep(first, c * stride, self.weight) for c in range(count)]
        sums = self._dots(rows, columns)
        writer = EpilogueWriter(
            f,
            self.problem.vector_epilogue,
            tables=len(self.offsets),
            context=self.context,
            lanes=lanes,
            valid=lambda j: count,
        )
        for r in range(self.schedule.rows):
            at = {t: f.convert(f.load(f.gep(self.offsets[t], r, I32), I32), "i64") for t in writer.used_tables()}
            total = f.const(self.scalar.with_lanes(lanes), 0.0)
            for c in range(count):
                total = f.insert(total, f.reduce("add", sums[r * count + c]), c)
            writer.store(total, 0, at)
        return ()

    def _dots(self, rows: list[Value], columns: list[Value]) -> list[Value]:
        """The dot product of each row with each column, as vectors whose lanes must still be added."""
        f, lanes = self.f, self.schedule.lanes
        depth = self.problem.depth
        whole = depth // lanes * lanes
        zero = f.const(self.vector, 0.0)
        with f.carry_loop(0, whole, [zero] * (len(rows) * len(columns)), lanes) as loop:
            loop.next(*self._multiply(rows, columns, loop.index, list(loop.values), lanes))
        sums = list(loop.results)
        return self._multiply(rows, columns, f.const(I64, whole), sums, depth - whole) if depth > whole else sums

    def _multiply(
        self, rows: list[Value], columns: list[Value], at: Value, sums: list[Value], count: int
    ) -> list[Value]:
        f, lanes = self.f, self.schedule.lanes

        def read(start: Value, at: Value, element: Type, padded: bool) -> Value:
            address, memory = f.gep(start, at, element), element.with_lanes(lanes)
            whole = padded or count == lanes
            loaded = f.load(address, memory) if whole else f.masked_load(address, memory, f.first_lanes(lanes, count))
            return f.convert(loaded, self.scalar.element)

        left = [read(r, at, self.scalar, padded=False) for r in rows]
        place = at * self.spread
        products: list[Value] = []
        for c, column in enumerate(columns):
            if self.spread == 1 or c * lanes * self.weight.bytes % LINE_BYTES == 0:  # columns of a stream share lines
                self._prefetch(column, place)
            weights = read(column, place, self.weight, padded=self.packing is not None)
            products.extend(f.fma(x, weights, sums[r * len(columns) + c]) for r, x in enumerate(left))
        return [products[c * len(rows) + r] for r in range(len(rows)) for c in range(len(columns))]

    def _prefetch(self, column: Value, at: Value) -> None:
        """Prefetch the weights that are read after those of a column at `at`."""
        if self.schedule.ahead:
            f, distance = self.f, self.schedule.ahead // self.weight.bytes
            f.prefetch(f.gep(f.gep(column, at, self.weight), distance, self.weight))
