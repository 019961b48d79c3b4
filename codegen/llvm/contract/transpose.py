"""Stores sums transposed: registers of filters become rows of weights."""

from __future__ import annotations

from collections.abc import Sequence

from ....ir.types import DType
from ..arithmetic import Value
from ..emitter import FunctionBuilder, ModuleBuilder
from ..scalars import emit_cast
from ..types import I64, PTR, memory_type_of


def transposed(f: FunctionBuilder, rows: Sequence[Value]) -> list[Value]:
    """The columns of a square of registers: a round for each power of two interleaves the halves of the list."""
    lanes = len(rows)
    found = list(rows)
    low = [k for i in range(lanes // 2) for k in (i, lanes + i)]
    high = [k + lanes // 2 for k in low]
    for _ in range(lanes.bit_length() - 1):
        pairs = zip(found[: lanes // 2], found[lanes // 2 :], strict=True)
        found = [f.shuffle(a, b, order) for a, b in pairs for order in (low, high)]
    return found


def store_transposed(module: ModuleBuilder, lanes: int, sums: DType, stored: DType) -> str:
    """The symbol of `(sums, width, out, stride, rows, columns)`, which stores out[i * stride + k] = sums[k * width + i]
    for i < rows and k < columns, converted from dtype `sums` to `stored`."""
    name = f"store.transposed.{sums.value}.{stored.value}.{lanes}"

    def emit() -> None:
        parameters = [("sums", PTR), ("width", I64), ("out", PTR), ("stride", I64), ("rows", I64), ("columns", I64)]
        signature = [(n, t, "noalias" if t is PTR else "") for n, t in parameters]
        f = module.function(name, None, signature, linkage="internal", attributes="nounwind noinline")
        _Store(f, lanes, sums, stored).emit()
        f.ret()

    return module.helper(name, emit)


class _Store:
    def __init__(self, f: FunctionBuilder, lanes: int, sums: DType, stored: DType) -> None:
        self.f, self.lanes, self.sums, self.stored = f, lanes, sums, stored
        self.source, self.width, self.out, self.stride, self.rows, self.columns = f.args

    def emit(self) -> None:
        """Squares of registers; single elements where fewer rows or columns than lanes are left. The last square of a
        row of squares overlaps the one before."""
        f, lanes = self.f, self.lanes
        whole = f.and_(self.rows, -lanes)
        wide = f.cmp("ge", self.columns, lanes)
        with f.loop(0, f.select(wide, whole, f.const(I64, 0)), lanes) as i, f.loop(0, self.columns, lanes) as k:
            self._square(i, f.smin(k, self.columns - lanes))
        with f.loop(f.select(wide, whole, f.const(I64, 0)), self.rows) as i, f.loop(0, self.columns) as k:
            value = f.load(self._sum(i, k), memory_type_of(self.sums))
            f.store(emit_cast(f, value, self.sums, self.stored), self._place(i, k))

    def _square(self, i: Value, k: Value) -> None:
        f, vector = self.f, memory_type_of(self.sums, self.lanes)
        rows = transposed(f, [f.load(self._sum(i, k + n), vector) for n in range(self.lanes)])
        for n, row in enumerate(rows):
            f.store(emit_cast(f, row, self.sums, self.stored), self._place(i + n, k))

    def _sum(self, i: Value, k: Value) -> Value:
        return self.f.gep(self.source, k * self.width + i, memory_type_of(self.sums))

    def _place(self, i: Value, k: Value) -> Value:
        return self.f.gep(self.out, i * self.stride + k, memory_type_of(self.stored))
