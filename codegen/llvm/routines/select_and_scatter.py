"""Gradients of maxima over windows: each cotangent is added to the first maximum of its window."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from math import prod

from ....ir.dialects.core import SelectAndScatter
from ....ir.graph import Op
from ....ir.types import TensorType
from ...emission import Emission, LaunchSpec
from ..arithmetic import Operand, Value
from ..emitter import FunctionBuilder, ModuleBuilder
from ..types import I1, I32, I64, type_of
from .rows import kernel_function, pointers, read, write


def emit_select_and_scatter(
    op: Op,
    inputs: tuple[TensorType, ...],
    outputs: tuple[TensorType, ...],
    module: ModuleBuilder,
    symbol: str,
) -> Emission:
    """Threads share the leading axes along which windows are single elements. Operands are not 16-bit floats: a pass
    has expanded them to float32. Operands and result are all row-major, or all in blocks.
    """
    assert isinstance(op, SelectAndScatter)
    if outputs[0].layout is None:
        return _Windows(op, inputs[0], inputs[1]).emit(module, symbol)
    return _BlockedWindows(op, *inputs, *outputs).emit(module, symbol)


class _Windows:
    def __init__(self, op: SelectAndScatter, x: TensorType, cotangent: TensorType) -> None:
        self.op, self.x, self.out = op, x, cotangent.shape
        units = zip(op.window, op.strides, op.padding, strict=True)
        single = [axis == (1, 1, (0, 0)) for axis in units]
        self.leading = single.index(False) if False in single else len(single)
        self.axes = range(self.leading, x.rank)
        self.size, self.points = prod(x.shape[self.leading :]), prod(self.out[self.leading :])

    def emit(self, module: ModuleBuilder, symbol: str) -> Emission:
        f = kernel_function(module, symbol)
        x, cotangent, result = pointers(f, 3)
        zero = f.const(type_of(self.x.dtype), 0)
        with f.loop(f.args[1], f.args[2]) as unit:
            start = unit * self.size
            with f.loop(0, self.size) as i:
                write(f, zero, result, start + i, self.x.dtype)
            with ExitStack() as stack:
                at = [stack.enter_context(f.loop(0, self.out[k])) for k in self.axes]
                point = unit * self.points
                for k, i in zip(self.axes, at, strict=True):
                    point = point + i * prod(self.out[k + 1 :])
                exists, best = self._first_maximum(f, x, start, at)
                with f.when(exists):
                    total = read(f, result, best, self.x.dtype) + read(f, cotangent, point, self.x.dtype)
                    write(f, total, result, best, self.x.dtype)
        f.ret()
        count = prod(self.x.shape[: self.leading])
        return Emission((LaunchSpec(symbol, count, max(1, 4096 // max(1, self.size))),))

    def _first_maximum(self, f: FunctionBuilder, x: Value, start: Value, at: list[Value]) -> tuple[Value, Value]:
        """Whether the window contains an element of x, and the position of its first maximum; NaN is the greatest."""
        taps = [self.op.window[k] for k in self.axes]
        zero = f.const(type_of(self.x.dtype), 0)
        with f.carry_loop(0, prod(taps), [f.const(I1, 0), zero, f.const(I64, 0)]) as loop:
            exists, best, place = loop.values
            position, inside = self._element(f, loop.index, start, at)
            value = read(f, x, f.select(inside, position, 0), self.x.dtype)
            greater = f.cmp("gt" if not self.x.dtype.is_unsigned else "ugt", value, best)
            if self.x.dtype.is_float:
                greater = greater | (f.is_nan(value) & f.cmp("eq", best, best))
            takes = inside & (f.not_(exists) | greater)
            loop.next(exists | inside, f.select(takes, value, best), f.select(takes, position, place))
        exists, _, place = loop.results
        return exists, place

    def _element(self, f: FunctionBuilder, tap: Value, start: Value, at: list[Value]) -> tuple[Value, Value]:
        """The position of a tap's element in x, and whether it is inside of x."""
        position, inside, left = start, f.const(I1, 1), tap
        for k, i in reversed(list(zip(self.axes, at, strict=True))):
            window = self.op.window[k]
            index = i * self.op.strides[k] + f.urem(left, window) - self.op.padding[k][0]
            left = f.udiv(left, window)
            inside = inside & f.cmp("ult", index, self.x.shape[k])
            position = position + index * prod(self.x.shape[k + 1 :])
        return position, inside


class _Planes:
    """A tensor in blocks as planes of vectors, one for each image and block of channels."""

    def __init__(self, type: TensorType) -> None:
        assert type.layout is not None
        shape = type.layout.physical_shape(type.shape)
        self.extents, self.count, self.size = type.shape[2:], prod(shape[:2]), prod(shape[2:])
        self.steps = [prod(shape[k + 1 :]) for k in range(2, len(shape) - 1)]
        self.first = sum(low * step for (low, _), step in zip(type.layout.halo, self.steps, strict=True))
        self.vector = type_of(type.dtype, type.layout.block)

    def address(self, f: FunctionBuilder, base: Value, plane: Value, point: Sequence[Operand]) -> Value:
        """The address of the vector at a point of a plane."""
        position: Operand = plane * self.size + self.first
        for i, step in zip(point, self.steps, strict=True):
            position = f.add(position, f.mul(i, step) if isinstance(i, Value) else i * step)
        return f.gep(base, position, self.vector.scalar)


class _BlockedWindows:
    """Windows that slide over space. A vector holds the channels of a block; threads share the planes."""

    def __init__(self, op: SelectAndScatter, x: TensorType, cotangent: TensorType, result: TensorType) -> None:
        self.axes = list(zip(op.window[2:], op.strides[2:], op.padding[2:], strict=True))
        self.x, self.cotangent, self.result = _Planes(x), _Planes(cotangent), _Planes(result)

    def emit(self, module: ModuleBuilder, symbol: str) -> Emission:
        f = kernel_function(module, symbol)
        x, cotangent, result = pointers(f, 3)
        zero = f.const(self.result.vector, 0)
        with f.loop(f.args[1], f.args[2]) as plane:
            with _points(f, self.result.extents) as point:
                f.store(zero, self.result.address(f, result, plane, point))
            with _points(f, self.cotangent.extents) as at:
                ranges = [self._taps(f, k, i) for k, i in enumerate(at)]
                best = self._first_maximum(f, x, plane, ranges)
                g = f.load(self.cotangent.address(f, cotangent, plane, at), zero.type)
                with _points(f, ranges) as point:
                    target = self.result.address(f, result, plane, point)
                    taken = f.cmp("eq", best, self._number(f, point))
                    f.store(f.load(target, zero.type) + f.select(taken, g, zero), target)
        f.ret()
        return Emission((LaunchSpec(symbol, self.x.count, max(1, 4096 // max(1, self.x.size))),))

    def _taps(self, f: FunctionBuilder, k: int, index: Value) -> tuple[Value, Value]:
        """The range of a window along a spatial axis, clipped to x."""
        window, stride, (low, _) = self.axes[k]
        first = index * stride - low
        return f.smax(first, 0), f.smin(first + window, self.x.extents[k])

    def _first_maximum(
        self, f: FunctionBuilder, x: Value, plane: Value, ranges: Sequence[tuple[Value, Value]]
    ) -> Value:
        """For each lane the number of the window's first maximum; NaN is the greatest. `ranges` can be empty."""
        start = [f.smin(low, n - 1) for (low, _), n in zip(ranges, self.x.extents, strict=True)]
        first = f.load(self.x.address(f, x, plane, start), self.x.vector)

        def along(ranges: Sequence[tuple[Value, Value]], point: list[Value], carry: Sequence[Value]) -> Sequence[Value]:
            if not ranges:
                best, number = carry
                value = f.load(self.x.address(f, x, plane, point), self.x.vector)
                greater = f.not_(f.cmp("le", value, best)) & f.cmp("eq", best, best)
                return f.select(greater, value, best), f.select(greater, self._number(f, point), number)
            with f.carry_loop(*ranges[0], list(carry)) as loop:
                loop.next(*along(ranges[1:], [*point, loop.index], loop.values))
            return loop.results

        _, number = along(ranges, [], (first, self._number(f, start)))
        return number

    def _number(self, f: FunctionBuilder, point: Sequence[Value]) -> Value:
        """The position of a point in its plane, in each lane."""
        number: Operand = 0
        for i, n in zip(point, self.x.extents, strict=True):
            number = f.add(f.mul(number, n), i) if isinstance(number, Value) else i
        assert isinstance(number, Value)
        return f.splat(f.convert(number, "i32"), I32.with_lanes(self.x.vector.lanes))


@contextmanager
def _points(f: FunctionBuilder, ranges: Sequence[int | tuple[Value, Value]]) -> Generator[list[Value]]:
    """Loops over ranges or extents; yields the index along each."""
    with ExitStack() as stack:
        bounds = [(0, r) if isinstance(r, int) else r for r in ranges]
        yield [stack.enter_context(f.loop(low, high)) for low, high in bounds]
