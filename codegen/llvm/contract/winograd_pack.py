"""Packs filters of convolutions for Winograd in panels of output channels: transformed, for each frequency, or as taps
that the launch of the products transforms.
"""

from __future__ import annotations

from collections.abc import Callable

from ....ir.lazy_dataclass import dataclass
from ....ir.target import ConvWindow
from ...emission import LaunchSpec
from ..arithmetic import Value
from ..cpu import Cpu
from ..emitter import FunctionBuilder, ModuleBuilder
from ..types import F32, F64, I64, memory_type_of, type_of
from .problem import WeightSource
from .tiles import KERNEL_PARAMETERS, PanelKind, argument
from .winograd_math import Tile, filter_transform, frequencies, transform_tile


@dataclass(frozen=True, slots=True, kw_only=True)
class WinogradFilters:
    """Packed[panel][frequency][input channel][output channel of the panel] in float32, computed in double, with zeros
    for channels that are padding; without `transformed`, Packed[panel][input channel][tap][output channel].

    `channels` is the number of input channels before space-to-depth, `depth` is that after it, rounded up to whole
    blocks; `channel` and `taps` are strides of the weights, and `windows` have the strides between taps of one channel.
    """

    tile: Tile
    lanes: int
    channels: int
    depth: int
    filters: int
    panels: tuple[PanelKind, ...]
    weights: WeightSource
    channel: int
    taps: tuple[int, int]
    windows: tuple[ConvWindow, ConvWindow]
    transformed: bool

    @property
    def stored(self) -> int:
        """The numbers for each pair of channels."""
        return frequencies(self.tile) if self.transformed else self.tile[0].taps * self.tile[1].taps

    @property
    def vectors(self) -> int:
        last = self.panels[-1]
        return self.panels[0].tile.vectors * last.begin + last.tile.vectors * (last.end - last.begin)

    @property
    def nbytes(self) -> int:
        return self.vectors * self.lanes * self.depth * self.stored * 4

    def repeated(self) -> WinogradFilters:
        """See `LlvmPacking`."""
        return self

    def emit(self, module: ModuleBuilder, target: Cpu, symbol: str) -> LaunchSpec:
        f = module.function(symbol, None, KERNEL_PARAMETERS, shares=True)
        packer = _Packer(f, self)
        with f.loop(f.args[1], f.args[2]) as vector:
            packer.vector_of_filters(vector)
        f.ret()
        return LaunchSpec(symbol, self.vectors, 1)


class _Packer:
    def __init__(self, f: FunctionBuilder, packing: WinogradFilters) -> None:
        self.f, self.p = f, packing
        self.element = memory_type_of(packing.weights.dtype)
        self.source = f.gep(argument(f, 0), packing.weights.base, self.element)
        self.packed = argument(f, 1)

    def vector_of_filters(self, vector: Value) -> None:
        """Transform all input channels of one register of output channels."""
        f, p = self.f, self.p
        wide = I64.with_lanes(p.lanes)
        first = vector * p.lanes
        lanes = f.add(f.splat(first, wide), f.iota(wide))
        mask = f.cmp("lt", lanes, p.filters)
        places = lanes * p.weights.filter
        target, width = self._target(vector)
        down, along = p.windows
        with f.loop(0, down.stride) as y, f.loop(0, along.stride) as x, f.loop(0, p.channels) as c:
            self.first = y, x
            start = f.gep(self.source, f.add(c * p.channel, y * p.taps[0] + x * p.taps[1]), self.element)
            channel = f.add(f.add(y * along.stride, x) * p.channels, c)
            self._store(lambda y, x: self._tap(start, y, x, places, mask), target, channel, width)

    def _target(self, vector: Value) -> tuple[Value, Value]:
        """The address of the vector's first packed element, and the width of its panel."""
        f, p = self.f, self.p
        main = p.panels[0].tile.vectors
        split = p.panels[-1].begin * main
        last = p.panels[-1].tile.vectors
        in_last = f.cmp("ge", vector, split)
        size = f.select(in_last, f.const(I64, last), f.const(I64, main))
        local = f.select(in_last, vector - split, vector)
        panel, j = f.udiv(local, size), f.urem(local, size)
        before = f.select(in_last, f.const(I64, split), f.const(I64, 0)) + panel * size
        at = before * (p.lanes * p.depth * p.stored) + j * p.lanes
        return f.gep(self.packed, at, F32), size * p.lanes

    def _store(self, tap: Callable[[int, int], Value], target: Value, channel: Value, width: Value) -> None:
        """Store the taps of one input channel, or their transform."""
        f, p = self.f, self.p
        size = p.tile[0].taps, p.tile[1].taps
        if p.transformed:
            stored = transform_tile(f, p.tile, filter_transform, tap, size)
            first, step = channel * width, width * p.depth
        else:
            stored = [[tap(y, x) for x in range(size[1])] for y in range(size[0])]
            first, step = channel * width * p.stored, width
        for k, value in enumerate(v for line in stored for v in line):
            f.store(f.convert(value, "float"), f.gep(target, first + step * k, F32))

    def _tap(self, start: Value, y: int, x: int, places: Value, mask: Value) -> Value:
        """The weights of tap (y, x) of one channel of all filters of a vector, as doubles; 0 past the window's end."""
        f, weights = self.f, self.p.weights
        offset = 0
        for tap, first, window, stride in zip((y, x), self.first, self.p.windows, self.p.taps, strict=True):
            offset += tap * window.stride * stride
            if (tap + 1) * window.stride > window.taps:
                inside = f.cmp("lt", f.add(first, tap * window.stride), window.taps)
                mask = mask & f.splat(inside, mask.type)
        value = f.gather(f.gep(start, offset, self.element), places, self.element, mask)
        return f.convert(f.convert(value, type_of(weights.rounded).element), F64.element)
