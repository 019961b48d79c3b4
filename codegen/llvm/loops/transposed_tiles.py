"""Transposes tiles in registers, for kernels that read along one axis and write along another."""

from __future__ import annotations

from ....ir.kernel import Index, Store
from ...nest import Nest
from ..arithmetic import Operand, Value
from ..emitter import FunctionBuilder
from ..types import Type, memory_type_of
from .expressions import Point
from .rows import RowEmitter

Key = tuple[str, Index]


class TransposedTiles:
    """Emits square tiles along the vector axis and the transposed axis, with as many rows as a vector has lanes."""

    def __init__(self, rows: RowEmitter) -> None:
        self.rows, self.f, self.s, self.eval = rows, rows.f, rows.s, rows.eval
        self.keys = transposed_loads(rows.nest, rows.s.vector)

    def emit(self, point: Point, low: Value) -> None:
        """Emit the tiles of one unit: from `point` on along the transposed axis, a block from `low` on along the
        other."""
        f, s = self.f, self.s
        vectors, across = self.eval.extent(s.vector), self.eval.extent(s.transposed)
        high = f.smin(f.add(low, s.block), vectors)
        first = f.mul(point[s.transposed], s.lanes)
        point = {**point, s.transposed: first}
        whole = f.select(
            f.cmp("le", f.add(first, s.lanes), across), f.sub(high, f.urem(f.sub(high, low), s.lanes)), low
        )
        with f.loop(low, whole, s.lanes) as at:
            self._whole_tile({**point, s.vector: at})
        with f.loop(whole, high, s.lanes) as at:
            self._part_of_tile({**point, s.vector: at}, high)
        self.eval.transposed = {}

    def emit_whole(self, point: Point, low: Operand, high: Operand) -> None:
        """Emit the whole tiles from `point` on along the transposed axis, at whole vectors in [low, high)."""
        with self.f.loop(low, high, self.s.lanes) as at:
            self._whole_tile({**point, self.s.vector: at})
        self.eval.transposed = {}

    def _whole_tile(self, point: Point) -> None:
        s = self.s
        transposed = {key: self._transposed(key, point, None, None) for key in self.keys}
        for r in range(s.lanes):
            self.eval.transposed = {key: vectors[r] for key, vectors in transposed.items()}
            self.rows.rows([{**point, s.transposed: self.eval.plus(point[s.transposed], r)}], None)

    def _part_of_tile(self, point: Point, high: Value) -> None:
        """A tile that extends beyond `high` or the end of the transposed axis: through memory, which takes less
        code."""
        f, s = self.f, self.s
        across, at, first = self.eval.extent(s.transposed), point[s.vector], point[s.transposed]
        assert isinstance(at, Value) and isinstance(first, Value)
        column_mask, row_mask = f.rest_mask(first, across, s.lanes), f.rest_mask(at, high, s.lanes)
        stored: dict[Key, tuple[Value, Type]] = {}
        for key in self.keys:
            vectors = self._transposed(key, point, high, column_mask)
            memory = f.alloca(vectors[0].type.scalar, s.lanes * s.lanes)
            for r, vector in enumerate(vectors):
                f.store(vector, f.gep(memory, r * s.lanes, vector.type.scalar))
            stored[key] = memory, vectors[0].type
        with f.loop(0, f.smin(f.sub(across, first), s.lanes)) as r:
            row = r * s.lanes
            self.eval.transposed = {key: f.load(f.gep(m, row, t.scalar), t) for key, (m, t) in stored.items()}
            self.rows.rows([{**point, s.transposed: f.add(first, r)}], row_mask)

    def _transposed(self, key: Key, point: Point, high: Value | None, mask: Value | None) -> list[Value]:
        """Vectors along the vector axis, one for each position along the transposed axis."""
        f, s = self.f, self.s
        access = self.rows.nest.accesses[key]
        type = memory_type_of(self.eval.buffers[key[0]].dtype, s.lanes)
        rows: list[Value] = []
        for i in range(s.lanes):
            row: Operand = f.add(point[s.vector], i)
            row = row if high is None else f.smin(row, f.sub(high, 1))
            at = self.eval.sum_terms(access.strides, access.offset, {**point, s.vector: row})
            place = f.gep(self.eval.pointers[access.buffer], at, type.scalar)
            rows.append(f.load(place, type) if mask is None else f.masked_load(place, type, mask))
        return transpose_lanes(f, rows, type)


def transposed_loads(nest: Nest, vector: str) -> list[tuple[str, Index]]:
    """The loads that are transposed: those that are not contiguous along the vector axis."""
    stored = {(s.buffer, s.index) for s in nest.stages if isinstance(s, Store)}
    return [key for key, a in nest.accesses.items() if key not in stored and a.stride(vector) not in (0, 1)]


def transpose_lanes(f: FunctionBuilder, rows: list[Value], type: Type) -> list[Value]:
    """The transpose of as many vectors as they have lanes. Each step swaps one bit of the row index with one bit of the
    lane index."""
    n, step = type.lanes, 1
    while step < n:
        low = [lane if not lane & step else n + lane - step for lane in range(n)]
        high = [lane + step if not lane & step else n + lane for lane in range(n)]
        swapped = list(rows)
        for i in (i for i in range(n) if not i & step):
            swapped[i], swapped[i + step] = (
                f.shuffle(rows[i], rows[i + step], low),
                f.shuffle(rows[i], rows[i + step], high),
            )
        rows, step = swapped, 2 * step
    return rows
