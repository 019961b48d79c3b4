"""Gradients of maxima over windows: each cotangent is added to the first maximum of its window."""

from __future__ import annotations

from contextlib import ExitStack
from math import prod

from ....ir.dialects.core import SelectAndScatter
from ....ir.graph import Op
from ....ir.types import TensorType
from ...emission import Emission, LaunchSpec
from ..arithmetic import Value
from ..emitter import FunctionBuilder, ModuleBuilder
from ..types import I1, I64, type_of
from .rows import kernel_function, pointers, read, write


def emit_select_and_scatter(
    op: Op,
    inputs: tuple[TensorType, ...],
    outputs: tuple[TensorType, ...],
    module: ModuleBuilder,
    symbol: str,
) -> Emission:
    """Threads share the leading axes along which windows are single elements. Operands are not 16-bit floats: a pass
    has expanded them to float32.
    """
    assert isinstance(op, SelectAndScatter)
    return _Windows(op, inputs[0], inputs[1]).emit(module, symbol)


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
                found, best = self._first_maximum(f, x, start, at)
                with f.when(found):
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
            found, best, place = loop.values
            position, inside = self._element(f, loop.index, start, at)
            value = read(f, x, f.select(inside, position, 0), self.x.dtype)
            greater = f.cmp("gt" if not self.x.dtype.is_unsigned else "ugt", value, best)
            if self.x.dtype.is_float:
                greater = greater | (f.is_nan(value) & f.cmp("eq", best, best))
            takes = inside & (f.not_(found) | greater)
            loop.next(found | inside, f.select(takes, value, best), f.select(takes, position, place))
        found, _, place = loop.results
        return found, place

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
