"""Copies the input of a convolution into the workspace, with zeros around it.

This is needed for row-major inputs, and for blocked inputs whose halo is smaller than what the convolution reads.
"""

from __future__ import annotations

from ....ir.kernel import Affine, Buffer
from ....ir.program import LAYOUT
from ....ir.types import DType
from ...emission import LaunchSpec
from ..arithmetic import Value
from ..cpu import Cpu
from ..emitter import FunctionBuilder, ModuleBuilder
from ..scalars import emit_cast
from ..schedule.describe import ContractionError, ConvShape, SpatialAxis, WindowedOperand
from ..schedule.strides import buffer_strides, fixed_shape
from ..types import I8, I64, Type, memory_type_of, type_of
from .conv import InputPlace
from .points import channel_offset
from .tiles import KERNEL_PARAMETERS, argument

_LANES = 8


def emit_copy(
    module: ModuleBuilder,
    shape: ConvShape | WindowedOperand,
    place: InputPlace,
    slot: int,
    start: int,
    target: Cpu,
    symbol: str,
) -> LaunchSpec:
    """Emit the copy, which starts `start` bytes into the workspace. The launch is over its rows (image, block of
    channels, positions along all axes except the last).
    """
    f = module.function(symbol, None, KERNEL_PARAMETERS)
    copier = _Copier(f, shape, place, slot, start)
    with f.loop(f.args[1], f.args[2]) as unit:
        copier.row(unit)
    f.ret()
    return LaunchSpec(symbol, copier.rows, 4, LAYOUT)


class _Copier:
    def __init__(
        self, f: FunctionBuilder, shape: ConvShape | WindowedOperand, place: InputPlace, slot: int, start: int
    ) -> None:
        self.f, self.place, self.windows = f, place, shape.windows
        self.x: Buffer = shape.kernel.buffer(shape.x.buffer)
        self.size = fixed_shape(self.x)
        self.blocks = -(-place.channels // place.block)
        self.rows = place.images * self.blocks
        for n in place.extents[:-1]:
            self.rows *= n
        self.sum_dtype = shape.accumulator
        self.type = type_of(shape.accumulator)
        self.memory = memory_type_of(self.x.dtype)
        self.source = first_element(f, shape, self.memory)
        self.copy = f.gep(argument(f, slot), start, I8)
        self.batch, self.channel = _position(shape, shape.batch), _position(shape, shape.channel)

    def row(self, unit: Value) -> None:
        f, place = self.f, self.place
        length = place.extents[-1] * place.block
        target = f.gep(self.copy, unit * length, self.type)
        outside: list[tuple[Value, SpatialAxis]] = []
        rest = unit
        for window, n in reversed(list(zip(self.windows[:-1], place.extents[:-1], strict=True))):
            outside.append((f.urem(rest, n), window))
            rest = f.udiv(rest, n)
        block, image = f.urem(rest, self.blocks), f.udiv(rest, self.blocks)
        inside, offset = self._outer_offset(outside)
        if self._is_run:
            f.branch(inside, lambda: self._copy(target, image, block, offset), lambda: self._zero(target, 0, length))
            return
        self._zero(target, 0, length)
        with f.when(inside):
            self._scatter(target, image, block, offset)

    def _outer_offset(self, positions: list[tuple[Value, SpatialAxis]]) -> tuple[Value, Value]:
        """Whether the outer positions are elements of the input (not padding or interior zeros), and their offset."""
        f = self.f
        inside, offset = f.const(Type.of("i1"), 1), f.const(Type.of("i64"), 0)
        for p, w in positions:
            at = p - w.low
            inside = (
                inside
                & f.cmp("ge", at, 0)
                & f.cmp("eq", f.rem(at, w.interior), 0)
                & f.cmp("lt", f.div(at, w.interior), self.size[w.dimension])
            )
            offset = f.add(offset, f.div(at, w.interior) * self._stride(w.dimension)) + self._low(
                w.dimension
            ) * self._stride(w.dimension)
        return inside, offset

    def _stride(self, dimension: int) -> int:
        return buffer_strides(self.x)[dimension]

    def _low(self, dimension: int) -> int:
        return self.x.layout.halo[dimension - 2][0] if self.x.layout and dimension >= 2 else 0

    @property
    def _is_run(self) -> bool:
        """True if the elements of a row are next to each other in the input and in the copy."""
        own, w = self.x.layout.block if self.x.layout else 1, self.windows[-1]
        return own == self.place.block and w.interior == 1 and self._stride(w.dimension) == own

    @property
    def _range(self) -> tuple[int, int]:
        """The first position of the input that a row contains, and the number of them."""
        w, n = self.windows[-1], self.place.extents[-1]
        first = max(0, -(w.low // w.interior))
        last = min(self.size[w.dimension], (n - 1 - w.low) // w.interior + 1) if n > w.low else 0
        return first, max(0, last - first)

    def _source(self, image: Value, offset: Value) -> Value:
        """The address of the first element of a row in the first channel."""
        f, w = self.f, self.windows[-1]
        at = (self._range[0] + self._low(w.dimension)) * self._stride(w.dimension)
        return f.gep(self.source, f.add(image * self._stride(self.batch), offset) + at, self.memory)

    def _zero(self, target: Value, begin: int, end: int) -> tuple[()]:
        """Clear the elements [begin, end) of a row."""
        zero_run(self.f, self.f.gep(target, begin, self.type), self.f.const(I64, end - begin), self.type)
        return ()

    def _copy(self, target: Value, image: Value, block: Value, offset: Value) -> tuple[()]:
        """Copy a row, and clear what is outside of the input."""
        f, place = self.f, self.place
        (first, count), low = self._range, self.windows[-1].low
        begin = (first + low) * place.block if count else 0
        end = begin + count * place.block
        self._zero(target, 0, begin)
        source = f.gep(self._source(image, offset), block * self._stride(self.channel), self.memory)
        copy_run(f, f.gep(target, begin, self.type), source, end - begin, self.x.dtype, self.sum_dtype)
        return self._zero(target, end, place.extents[-1] * place.block)

    def _scatter(self, target: Value, image: Value, block: Value, offset: Value) -> None:
        """Copy element by element, because the layouts differ."""
        f, place, w = self.f, self.place, self.windows[-1]
        first, count = self._range
        target = f.gep(target, (first * w.interior + w.low) * place.block, self.type)
        start = self._source(image, offset)
        with f.loop(0, place.block) as c:
            channel = block * place.block + c
            with f.when(f.cmp("lt", channel, place.channels)):
                source = f.gep(start, self._channel_offset(channel), self.memory)
                with f.loop(0, count) as i:
                    value = f.load(f.gep(source, i * self._stride(w.dimension), self.memory), self.memory)
                    wide = emit_cast(f, value, self.x.dtype, self.sum_dtype)
                    f.store(wide, f.gep(target, i * (w.interior * place.block) + c, self.type))

    def _channel_offset(self, channel: Value) -> Value:
        f = self.f
        stride = self._stride(self.channel)
        return channel_offset(f, channel, self.x.layout.block if self.x.layout else 1, stride)


def first_element(f: FunctionBuilder, shape: ConvShape | WindowedOperand, element: Type) -> Value:
    """The address of the first image's first channel: the input can be a part of a larger tensor."""
    x = shape.kernel.buffer(shape.x.buffer)
    dimensions = [_position(shape, axis) for axis in (shape.batch, shape.channel)]
    first = [(shape.x.index[d], buffer_strides(x)[d]) for d in dimensions]
    offset = sum(index.offset * stride for index, stride in first if isinstance(index, Affine))
    start = argument(f, shape.kernel.buffers.index(x))
    return f.gep(start, offset, element) if offset else start


def _position(shape: ConvShape | WindowedOperand, axis: str) -> int:
    """The input's dimension that an axis indexes."""
    for d, index in enumerate(shape.x.index):
        if isinstance(index, Affine) and axis in dict(index.terms):
            return d
    raise ContractionError(f"{shape.kernel.name}: axis {axis} does not index the input")


def zero_run(f: FunctionBuilder, target: Value, count: Value, element: Type) -> None:
    """target[0:count] = 0."""
    vector = element.with_lanes(_LANES)
    whole = f.and_(count, f.fixed(-_LANES))
    with f.loop(0, whole, f.fixed(_LANES)) as i:
        f.store(f.const(vector, 0.0), f.gep(target, i, element))
    with f.loop(whole, count) as i:
        f.store(f.const(element, 0.0), f.gep(target, i, element))


def copy_run(f: FunctionBuilder, target: Value, source: Value, count: int, stored: DType, wide: DType) -> None:
    """target[0:count] = source[0:count], converted from `stored` to `wide`."""
    whole = count // _LANES * _LANES
    memory, element = memory_type_of(stored), memory_type_of(wide)
    vector = memory.with_lanes(_LANES)
    with f.loop(0, whole, f.fixed(_LANES)) as i:
        value = emit_cast(f, f.load(f.gep(source, i, memory), vector), stored, wide)
        f.store(value, f.gep(target, i, element))
    with f.loop(whole, count) as i:
        value = emit_cast(f, f.load(f.gep(source, i, memory), memory), stored, wide)
        f.store(value, f.gep(target, i, element))
