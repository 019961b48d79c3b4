"""Sorts along an axis: which launches sort the rows of a tensor (`sorting/rows.py`), and with which numbers.

Rows are the units of a launch. If there are fewer rows than threads, long rows are divided into parts, which are sorted
and then merged in pairs; the merge of two runs is divided into pieces.
"""

from __future__ import annotations

from functools import partial

from ....ir.dialects.core import ArgSort, Sort
from ....ir.graph import Op
from ....ir.lazy_dataclass import dataclass
from ....ir.types import DType, TensorType
from ...emission import Emission, LaunchSpec
from ..cpu import Cpu
from ..emitter import ModuleBuilder
from ..shared import LOOPS
from ..sorting.keys import key_numbers
from ..sorting.partition import padding
from ..sorting.rows import Kind, Numbers, emit_merges, emit_rows, emit_ties, word_of
from ..sorting.top import room
from ..types import I32, PTR, Type, memory_type_of
from .rows import Functions, Rows, kernel_function, numbers_after, pointers, rows_along

_LONG = 1 << 15  # elements of a row that threads share
_TOP = 8  # so many times more elements than results make a selection faster than partitions
_GRAIN = 2048  # elements: less is not worth another thread


def sort_launches(
    op: Op, inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...], target: Cpu
) -> tuple[Emission, Functions]:
    """The emission of a `Sort` or `ArgSort` and its functions, which are the same for all shapes."""
    assert isinstance(op, Sort | ArgSort)
    if not outputs[0].size:
        return Emission(()), {}
    if len(inputs) == 1:
        kind: Kind = "values" if isinstance(op, Sort) else "order"
        plan = _Plan.of(kind, inputs[0], op, target)
        return Emission(plan.launches(), plan.workspace, extents=plan.numbers), plan.functions()
    return _sort_several(op, inputs, target)


@dataclass(frozen=True, slots=True)
class _Plan:
    """The launches for rows of one tensor. `parts` is the number of parts of each row."""

    kind: Kind
    dtype: DType
    rows: Rows
    first: int
    descending: bool
    parts: int
    target: Cpu

    @staticmethod
    def of(kind: Kind, x: TensorType, op: Sort | ArgSort, target: Cpu) -> _Plan:
        rows = rows_along(x, op.axis)
        first = rows.length if isinstance(op, Sort) or op.count is None else op.count
        is_shared = rows.count < target.threads and rows.length >= _LONG
        parts = 1 << (target.threads - 1).bit_length() if is_shared else 1
        if kind == "order" and first * _TOP * parts <= rows.length:
            kind = "top"
            parts = 1 if x.dtype.bits == 64 else parts  # a merge could drop one of equal upper halves
        if rows.length >= 1 << 32:
            raise NotImplementedError(f"rows of {rows.length} elements are not sorted: positions have 32 bits")
        return _Plan(kind, x.dtype, rows, first, op.descending, parts, target)

    @property
    def bits(self) -> int:
        """Bits of an element in memory."""
        return memory_type_of(self.dtype).bits

    @property
    def _span(self) -> int:
        return -(-self.rows.length // self.parts)

    @property
    def _room(self) -> int:
        return room(self.first, self.target.lanes(32)) if self.kind == "top" else self._span

    @property
    def _buffer(self) -> int:
        """Words of one of the two buffers of the workspace."""
        units = self.target.threads if self.parts == 1 else self.rows.count * self.parts
        return units * (self._room + padding(word_of(self.kind, self.bits), self.target))

    @property
    def workspace(self) -> int:
        """Bytes."""
        return 2 * self._buffer * word_of(self.kind, self.bits).bytes

    @property
    def _has_ties(self) -> bool:
        return self.kind == "order" and self.bits == 64

    @property
    def numbers(self) -> tuple[int, ...]:
        rows = self.rows
        # which of 64-bit keys are first is known only after their ties are sorted
        kept = rows.length if self._has_ties else self.first
        keys = key_numbers(self.dtype, self.descending)
        sizes = rows.length, rows.stride, kept, self.first, self.parts, self._span, self._room, self._buffer
        return tuple(Numbers(*sizes, *keys))

    def _symbol(self, what: str) -> str:
        """Merges of positions are the same for all elements."""
        is_order = what == "merges" and self.kind != "values"
        return f"{LOOPS}sort_{what}_{'order' if is_order else f'{self.kind}{self.bits}'}"

    def launches(self) -> tuple[LaunchSpec, ...]:
        rows, kind = self.rows, f"sort-{self.kind}"
        if self.parts == 1:
            return (LaunchSpec(self._symbol("rows"), rows.count, -(-_GRAIN // rows.length), kind),)
        launches = [LaunchSpec(self._symbol("rows"), rows.count * self.parts, 1, kind)]
        source, target, width = 0, self._buffer, 1
        while width < self.parts:
            is_last = int(2 * width == self.parts and not self._has_ties)
            numbers = width, source, target, is_last
            launches.append(LaunchSpec(self._symbol("merges"), rows.count * self.parts, 1, kind, numbers))
            source, target, width = target, source, 2 * width
        if self._has_ties:
            launches.append(LaunchSpec(self._symbol("ties"), rows.count, 1, kind, (source, target)))
        return tuple(launches)

    def functions(self) -> Functions:
        emitters = {"rows": emit_rows, "merges": emit_merges, "ties": emit_ties}
        used = {launch.symbol for launch in self.launches()}
        return {
            symbol: partial(emit, symbol=symbol, kind=self.kind, bits=self.bits)
            for what, emit in emitters.items()
            if (symbol := self._symbol(what)) in used
        }


def _sort_several(op: Sort | ArgSort, inputs: tuple[TensorType, ...], target: Cpu) -> tuple[Emission, Functions]:
    """The order of the first operand goes to the workspace; then each operand is read in this order."""
    count, plan = len(inputs), _Plan.of("order", inputs[0], op, target)
    numbers = range(2 * count, 2 * count + len(plan.numbers))
    workspace = numbers.stop
    positions = -(-4 * inputs[0].size // 64) * 64  # bytes of the order, before the workspace of the sort
    extents = [(i, 0) for i in numbers]
    sort = [
        LaunchSpec(
            s.symbol, s.count, s.grain, s.kind, s.numbers, ((0, 0), (workspace, 0), *extents, (workspace, positions))
        )
        for s in plan.launches()
    ]
    functions = plan.functions()
    for i, x in enumerate(inputs):
        bits = memory_type_of(x.dtype).bits
        symbol = f"{LOOPS}sort_reordered{bits}"
        functions[symbol] = partial(_emit_reordered, symbol=symbol, bits=bits)
        taken = (i, 0), (count + i, 0), *extents[:2], (workspace, 0)
        sort.append(LaunchSpec(symbol, x.size, _GRAIN, "sort-reorder", taken=taken))
    return Emission(tuple(sort), positions + plan.workspace, extents=plan.numbers), functions


def _emit_reordered(module: ModuleBuilder, symbol: str, bits: int) -> None:
    """Read elements in the order of their rows. Arguments: operand, result, length and stride of a row, positions."""
    f = kernel_function(module, symbol)
    x, result = pointers(f, 2)
    length, stride = numbers_after(f, 2, 2)
    order = f.load(f.gep(f.args[0], 4, PTR), PTR)
    element = Type.of(f"i{bits}")
    with f.loop(f.args[1], f.args[2]) as i:
        outer = f.udiv(i, f.mul(length, stride))
        start = f.add(f.mul(outer, f.mul(length, stride)), f.urem(i, stride))
        position = f.convert(f.load(f.gep(order, i, I32), I32), "i64")
        value = f.load(f.gep(x, f.add(start, f.mul(position, stride)), element), element)
        f.store(value, f.gep(result, i, element))
    f.ret()
