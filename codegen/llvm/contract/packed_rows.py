"""Packs the left operand of a matrix product in blocks of rows, if its rows and not its reduction are contiguous."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ....ir.lazy_dataclass import dataclass
from ...emission import LaunchSpec
from ..arithmetic import Value
from ..cpu import Cpu
from ..emitter import FunctionBuilder, ModuleBuilder
from ..schedule.describe import GemmShape, extent_of
from ..schedule.product import PACKED_ROWS, operand, reduce_order
from ..types import I64, Type, type_of
from .tiles import KERNEL_PARAMETERS, argument


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedRows:
    """Packed[group][block of rows][element of the reduction][row of the block], with zeros for rows that are padding.

    A tile then reads one stream, where the transposed operand has each step of the reduction in another cache line.
    `groups` and `inner` are pairs (extent, stride) of the operand, outermost first; its rows are contiguous.
    """

    element: str
    base: int
    groups: tuple[tuple[int, int], ...]
    rows: int
    inner: tuple[tuple[int, int], ...]

    @property
    def blocks(self) -> int:
        return -(-self.rows // PACKED_ROWS)

    @property
    def depth(self) -> int:
        return prod(n for n, _ in self.inner)

    @property
    def group_size(self) -> int:
        """The elements of a packed group."""
        return self.blocks * self.depth * PACKED_ROWS

    @property
    def nbytes(self) -> int:
        return prod(n for n, _ in self.groups) * self.group_size * Type.of(self.element).bytes

    def repeated(self) -> PackedRows:
        """See `LlvmPacking`."""
        return self

    def emit(self, module: ModuleBuilder, target: Cpu, symbol: str) -> LaunchSpec:
        f = module.function(symbol, None, KERNEL_PARAMETERS)
        with f.loop(f.args[1], f.args[2]) as unit:
            self._block(f, unit)
        f.ret()
        return LaunchSpec(symbol, prod(n for n, _ in self.groups) * self.blocks, 1)

    def _block(self, f: FunctionBuilder, unit: Value) -> None:
        scalar, vector = Type.of(self.element), Type.of(self.element, PACKED_ROWS)
        block, group = f.urem(unit, self.blocks), f.udiv(unit, self.blocks)
        first = block * PACKED_ROWS
        source = f.gep(argument(f, 0), first + self.base, scalar)
        for n, stride in reversed(self.groups):
            source = f.gep(source, f.urem(group, n) * stride, scalar)
            group = f.udiv(group, n)
        target = f.gep(argument(f, 1), unit * (self.depth * PACKED_ROWS), scalar)
        mask = f.rest_mask(first, self.rows, PACKED_ROWS)

        def copy(axes: Sequence[tuple[int, int]], start: Value, step: Value) -> None:
            if not axes:
                f.store(f.masked_load(start, vector, mask), f.gep(target, step * PACKED_ROWS, scalar))
                return
            (n, stride), *rest = axes
            with f.loop(0, n) as i:
                copy(rest, f.gep(start, i * stride, scalar), step * n + i)

        copy(self.inner, source, f.const(I64, 0))


def packed_rows(shape: GemmShape) -> PackedRows:
    """The packed form of the left operand; see `is_contiguous_along_rows`."""
    left = operand(shape, shape.lhs)

    def sized(axes: tuple[str, ...] | list[str]) -> tuple[tuple[int, int], ...]:
        return tuple((extent_of(shape.kernel, a), left.strides.get(a, 0)) for a in axes)

    return PackedRows(
        element=type_of(shape.accumulator).element,
        base=left.base,
        groups=sized(shape.batches),
        rows=shape.count(shape.rows),
        inner=sized(reduce_order(shape)),
    )
