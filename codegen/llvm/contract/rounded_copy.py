"""Copies weights that a product reads in place, rounded to a narrower dtype."""

from __future__ import annotations

from dataclasses import dataclass

from ....ir.kernel import Buffer
from ....ir.types import DType
from ...emission import LaunchSpec
from ..cpu import Cpu
from ..emitter import ModuleBuilder
from ..schedule.strides import buffer_strides, fixed_shape
from ..types import memory_type_of, type_of
from .tiles import KERNEL_PARAMETERS, argument

_BLOCK = 4096
"""Elements in a unit of work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundedCopy:
    """Packed[i] = operand[i] for its `count` elements in memory, converted from `source` to `rounded`."""

    count: int
    source: DType
    rounded: DType

    @property
    def nbytes(self) -> int:
        return self.count * self.rounded.itemsize

    def emit(self, module: ModuleBuilder, target: Cpu, symbol: str) -> LaunchSpec:
        f, lanes = module.function(symbol, None, KERNEL_PARAMETERS), target.lanes()
        wide, narrow, kind = memory_type_of(self.source), memory_type_of(self.rounded), type_of(self.rounded).kind
        source, packed = argument(f, 0), argument(f, 1)
        whole = self.count // lanes * lanes
        with f.loop(f.args[1], f.args[2]) as unit:
            begin, end = unit * _BLOCK, (unit + 1) * _BLOCK
            with f.loop(begin, f.smin(end, whole), lanes) as i:
                value = f.load(f.gep(source, i, wide), wide.with_lanes(lanes))
                f.store(f.convert(value, kind), f.gep(packed, i, narrow))
            with f.loop(f.smax(begin, whole), f.smin(end, self.count)) as i:
                f.store(f.convert(f.load(f.gep(source, i, wide), wide), kind), f.gep(packed, i, narrow))
        f.ret()
        return LaunchSpec(symbol, -(-self.count // _BLOCK), 8)


def rounded_copy(operand: Buffer, rounded: DType) -> RoundedCopy:
    """The copy of an operand."""
    last = sum((n - 1) * s for n, s in zip(fixed_shape(operand), buffer_strides(operand), strict=True))
    return RoundedCopy(count=last + 1, source=operand.dtype, rounded=rounded)
