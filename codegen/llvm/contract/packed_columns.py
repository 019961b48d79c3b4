"""Packs weights in a narrower dtype for dot products of few rows.

The columns of a unit of work are next to each other for each step of the reduction, so that the unit reads one stream.
"""

from __future__ import annotations

from math import prod

from ....ir.lazy_dataclass import dataclass
from ...emission import LaunchSpec
from ..arithmetic import Value
from ..cpu import Cpu
from ..emitter import FunctionBuilder, ModuleBuilder
from ..types import Type, memory_type_of
from .problem import Problem, WeightSource
from .tiles import KERNEL_PARAMETERS, argument


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedColumns:
    """Packed[group][block of columns][step of `lanes` elements][column of the block][lane], with zeros for columns and
    elements that are padding. Weights that are wider in memory are rounded.
    """

    element: str
    lanes: int
    block: int
    groups: tuple[int, ...]
    columns: int
    depth: int
    weights: WeightSource

    @property
    def padded_columns(self) -> int:
        return -(-self.columns // self.block) * self.block

    @property
    def padded_depth(self) -> int:
        return -(-self.depth // self.lanes) * self.lanes

    @property
    def stride(self) -> int:
        """The elements from the start of a column to that of the next one."""
        return self.lanes if self.block > 1 else self.padded_depth

    @property
    def nbytes(self) -> int:
        return prod(self.groups) * self.padded_columns * self.padded_depth * Type.of(self.element).bytes

    def repeated(self) -> PackedColumns:
        """See `LlvmPacking`."""
        return self

    def emit(self, module: ModuleBuilder, target: Cpu, symbol: str) -> LaunchSpec:
        f = module.function(symbol, None, KERNEL_PARAMETERS)
        element, narrow = memory_type_of(self.weights.dtype), Type.of(self.element)
        source, packed = argument(f, 0), argument(f, 1)
        blocks = self.padded_columns // self.block
        with f.loop(f.args[1], f.args[2]) as unit:
            first = f.urem(unit, blocks) * self.block
            start = self._group(f, source, f.udiv(unit, blocks), element)
            block = f.gep(packed, unit * (self.block * self.padded_depth), narrow)
            with f.loop(0, f.smin(self.columns - first, self.block)) as c:
                column = f.gep(start, (first + c) * self.weights.filter, element)
                self._column(f, column, f.gep(block, c * self.lanes, narrow), element, narrow)
        f.ret()
        return LaunchSpec(symbol, prod(self.groups) * blocks, 1)

    def _group(self, f: FunctionBuilder, address: Value, group: Value, element: Type) -> Value:
        """The address of a group's first weight."""
        address = f.gep(address, self.weights.base, element)
        for n, stride in reversed(list(zip(self.groups, self.weights.groups, strict=True))):
            address = f.gep(address, f.urem(group, n) * stride, element)
            group = f.udiv(group, n)
        return address

    def _column(self, f: FunctionBuilder, column: Value, packed: Value, element: Type, narrow: Type) -> None:
        lanes, whole = self.lanes, self.depth // self.lanes * self.lanes
        with f.loop(0, whole, lanes) as k:
            value = f.load(f.gep(column, k, element), element.with_lanes(lanes))
            f.store(f.convert(value, self.element), f.gep(packed, k * self.block, narrow))
        if self.depth > whole:
            mask = f.first_lanes(lanes, self.depth - whole)
            value = f.masked_load(f.gep(column, whole, element), element.with_lanes(lanes), mask)
            f.store(f.convert(value, self.element), f.gep(packed, whole * self.block, narrow))


def packed_columns(problem: Problem, lanes: int, block: int) -> PackedColumns:
    """The packed form of the weights of a product, with `block` columns side by side."""
    return PackedColumns(
        element=problem.weight_element,
        lanes=lanes,
        block=block,
        groups=problem.groups,
        columns=problem.channels,
        depth=problem.depth,
        weights=problem.weights,
    )
