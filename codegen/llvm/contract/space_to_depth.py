"""Copies an image into blocks of channels after space-to-depth: the positions within one stride become channels.

A convolution with stride s over few channels is then one with stride 1 over s * s as many, which Winograd's transforms
can compute. Channel (p * s + q) * channels + c of position (y, x) is the image's channel c at (y * s + p, x * s + q).
"""

from __future__ import annotations

from ....ir.program import LAYOUT
from ...emission import LaunchSpec
from ..arithmetic import Value
from ..emitter import FunctionBuilder, ModuleBuilder
from ..schedule.describe import ConvShape, SpatialAxis
from ..schedule.strides import buffer_strides, fixed_shape
from ..types import F32, I64
from .conv import InputPlace
from .copy_input import first_element, zero_run
from .points import channel_offset
from .tiles import KERNEL_PARAMETERS, argument


def emit_space_to_depth(
    module: ModuleBuilder, shape: ConvShape, place: InputPlace, slot: int, symbol: str
) -> LaunchSpec:
    """Emit the copy to the begin of the workspace. The launch is over its rows (image, position along the first
    axis)."""
    f = module.function(symbol, None, KERNEL_PARAMETERS, shares=True)
    copier = _Copier(f, shape, place, slot)
    with f.loop(f.args[1], f.args[2]) as unit:
        copier.row(f.udiv(unit, place.extents[0]), f.urem(unit, place.extents[0]))
    f.ret()
    return LaunchSpec(symbol, place.images * place.extents[0], 4, LAYOUT)


class _Copier:
    def __init__(self, f: FunctionBuilder, shape: ConvShape, place: InputPlace, slot: int) -> None:
        self.f, self.place, self.channels = f, place, shape.channels
        self.down, self.along = shape.windows
        x = shape.kernel.buffer(shape.x.buffer)
        self.size, self.strides = fixed_shape(x), buffer_strides(x)
        self.source = first_element(f, shape, F32)
        self.copy = argument(f, slot)

    def row(self, image: Value, y: Value) -> None:
        """Fill the row `y` of all blocks of channels."""
        f, place = self.f, self.place
        start = f.add(image * place.image, y * place.space[0])
        length = place.extents[1] * place.block
        with f.loop(0, place.image // place.channel) as block:
            zero_run(f, f.gep(self.copy, f.add(start, block * place.channel), F32), f.const(I64, length), F32)
        with f.loop(0, self.down.stride) as p:
            line = f.add(y * self.down.stride, p) - self.down.low
            inside = f.cmp("ge", line, 0) & f.cmp("lt", line, self.size[self.down.dimension])
            with f.when(inside), f.loop(0, self.along.stride) as q, f.loop(0, self.channels) as c:
                position = f.add(p * self.along.stride, q)
                at = f.add(image * self.strides[0], line * self.strides[self.down.dimension])
                source = f.gep(self.source, f.add(at, c * self.strides[1]), F32)
                self._line(source, start, f.add(position * self.channels, c), q)

    def _line(self, source: Value, start: Value, channel: Value, q: Value) -> None:
        """Copy the elements q, q + stride, ... of a line, without those that are padding."""
        f, place, w = self.f, self.place, self.along
        target = f.gep(self.copy, f.add(start, channel_offset(f, channel, place.block, place.channel)), F32)
        first, end = self._range(w, q)
        at = f.gep(source, (q - w.low) * self.strides[w.dimension], F32)
        step = f.fixed(w.stride * self.strides[w.dimension])
        with f.loop(first, end) as x:
            value = f.load(f.gep(at, x * step, F32), F32)
            f.store(value, f.gep(target, x * f.fixed(place.block), F32))

    def _range(self, w: SpatialAxis, q: Value) -> tuple[Value, Value]:
        """The first and the end of the positions x for which element q + x * stride of a line is in the input."""
        f = self.f
        first = f.smax(f.div(f.sub(w.low + w.stride - 1, q), w.stride), 0)
        end = f.div(f.sub(self.size[w.dimension] + w.low + w.stride - 1, q), w.stride)
        return first, f.smin(end, self.place.extents[1])
