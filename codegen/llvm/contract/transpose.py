"""Transposes between rows of weights, as users store them, and registers of filters, as weight gradients sum them.

One function stores sums as rows of weights. The other packs rows of weights in panels of filters.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....ir.types import DType
from ..arithmetic import Value
from ..emitter import FunctionBuilder, ModuleBuilder
from ..scalars import emit_cast
from ..types import I64, PTR, Type, memory_type_of


def transposed(f: FunctionBuilder, rows: Sequence[Value]) -> list[Value]:
    """The columns of a square of registers: a round for each power of two interleaves the halves of the list."""
    lanes = len(rows)
    vectors = list(rows)
    low = [k for i in range(lanes // 2) for k in (i, lanes + i)]
    high = [k + lanes // 2 for k in low]
    for _ in range(lanes.bit_length() - 1):
        pairs = zip(vectors[: lanes // 2], vectors[lanes // 2 :], strict=True)
        vectors = [f.shuffle(a, b, order) for a, b in pairs for order in (low, high)]
    return vectors


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


def pack_rows_of_weights(module: ModuleBuilder, lanes: int, dtype: DType) -> str:
    """The symbol of `(rows, stride, out, width, count)`, which stores out[k * width + i] = rows[i * stride + k] for
    i < lanes and k < count. Both are of `dtype`, which has 4 bytes."""
    name = f"pack.rows.{dtype.value}.{lanes}"

    def emit() -> None:
        parameters = [("rows", PTR), ("stride", I64), ("out", PTR), ("width", I64), ("count", I64)]
        signature = [(n, t, "noalias" if t is PTR else "") for n, t in parameters]
        f = module.function(name, None, signature, linkage="internal", attributes="nounwind noinline")
        _emit_packing(f, lanes, memory_type_of(dtype))
        f.ret()

    return module.helper(name, emit)


_QUAD = 4  # elements of 4 bytes in a part of a register, inside of which registers are interleaved fast


def _emit_packing(f: FunctionBuilder, lanes: int, element: Type) -> None:
    """Four elements of each row at a time: register j has those of rows j, j + 4, ..., and its parts are transposed
    with the same parts of the other three."""
    rows, stride, out, width, count = f.args
    whole = f.and_(count, -_QUAD)
    starts = [f.gep(rows, stride * i, element) for i in range(lanes)]
    with f.loop(0, whole, _QUAD) as k:
        loaded = [f.load(f.gep(row, k, element), element.with_lanes(_QUAD)) for row in starts]
        joined = [_joined(f, loaded[j::_QUAD]) for j in range(_QUAD)]
        for n, column in enumerate(_quads_transposed(f, joined, lanes)):
            f.store(column, f.gep(out, (k + n) * width, element))
    with f.loop(whole, count) as k, f.loop(0, lanes) as i:
        value = f.load(f.gep(rows, i * stride + k, element), element)
        f.store(value, f.gep(out, k * width + i, element))


def _joined(f: FunctionBuilder, parts: list[Value]) -> Value:
    """One register with the elements of all `parts`, in order."""
    while len(parts) > 1:
        order = list(range(2 * parts[0].type.lanes))
        parts = [f.shuffle(a, b, order) for a, b in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0]


def _quads_transposed(f: FunctionBuilder, registers: list[Value], lanes: int) -> list[Value]:
    """`registers` after each square of the four and of four neighbouring lanes is transposed."""

    def order(*picked: int) -> list[int]:
        return [base + p % _QUAD + (lanes if p >= _QUAD else 0) for base in range(0, lanes, _QUAD) for p in picked]

    low, high = order(0, 4, 1, 5), order(2, 6, 3, 7)
    a, b, c, d = registers
    pairs = [(f.shuffle(a, b, half), f.shuffle(c, d, half)) for half in (low, high)]
    return [f.shuffle(x, y, half) for x, y in pairs for half in (order(0, 1, 4, 5), order(2, 3, 6, 7))]
