"""Zeroes the halo of a large tensor in each run, so that its memory can hold other values at other times.

The halo is the border of zeros around the spatial axes of a tensor in blocks of channels.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ...ir.lazy_dataclass import dataclass
from ...ir.program import LAYOUT
from ...ir.types import TensorType
from ..emission import LaunchSpec
from .arithmetic import Operand, Value
from .contract.tiles import KERNEL_PARAMETERS, argument
from .emitter import FunctionBuilder, ModuleBuilder
from .types import memory_type_of

_LEAST_BYTES, _LEAST_GROUPED = 1 << 20, 8 << 20
"""Of smaller tensors zeroing costs more than it saves: those that convolutions of all channels read, and those that
only convolutions in groups read."""
_GRAIN_BYTES = 32 << 10


@dataclass(frozen=True, slots=True)
class HaloClearing:
    """A launch over the blocks of channels of all images, whose argument `slot` is the tensor."""

    type: TensorType
    slot: int

    def emit(self, module: ModuleBuilder, symbol: str) -> LaunchSpec:
        layout = self.type.layout
        assert layout is not None
        images, blocks, *space, block = layout.physical_shape(self.type.shape)
        axes = [(lo, n, hi) for n, (lo, hi) in zip(self.type.shape[2:], layout.halo, strict=True)]
        f = module.function(symbol, None, KERNEL_PARAMETERS, shares=True)
        writer = _Writer(f, self.type, block)
        tensor, size = argument(f, self.slot), prod(space) * block
        with f.loop(f.args[1], f.args[2]) as unit:
            writer.clear(f.gep(tensor, unit * size, writer.element), axes)
        f.ret()
        halo = (size - prod(self.type.shape[2:]) * block) * self.type.dtype.itemsize
        return LaunchSpec(symbol, images * blocks, max(1, _GRAIN_BYTES // halo), LAYOUT)


def halo_clearing(type: TensorType, slot: int, grouped: bool = False) -> HaloClearing | None:
    """The launch that zeroes the halo of a large tensor; None for others. Their memory is zeroed once and shared only
    by tensors with the same halo, which costs them little; it would be most of the memory of large images."""
    layout = type.layout
    least = _LEAST_GROUPED if grouped else _LEAST_BYTES
    if layout is None or not any(map(any, layout.halo)) or type.nbytes < least:
        return None
    return HaloClearing(type, slot)


class _Writer:
    def __init__(self, f: FunctionBuilder, type: TensorType, block: int) -> None:
        self.f, self.block = f, block
        self.element = memory_type_of(type.dtype)
        self.zero = f.const(self.element.with_lanes(block), 0)

    def clear(self, at: Value, axes: Sequence[tuple[int, int, int]]) -> None:
        """Zero the halo along all `axes`, each (before, elements, after), of the positions from address `at` on."""
        f, (low, size, high), rest = self.f, axes[0], axes[1:]
        row = prod(map(sum, rest)) * self.block
        self._fill(at, low * row)
        if any(lo or hi for lo, _, hi in rest):
            with f.loop(low, low + size) as i:
                self.clear(f.gep(at, i * row, self.element), rest)
        self._fill(f.gep(at, (low + size) * row, self.element), high * row)

    def _fill(self, at: Value, count: Operand) -> None:
        f = self.f
        if count:
            with f.loop(0, count, f.fixed(self.block)) as i:
                f.store(self.zero, f.gep(at, i, self.element))
