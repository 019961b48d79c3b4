"""Scatters: a copy of the tensor, then the updates in order, so that the last update of an element wins."""

from __future__ import annotations

from math import prod

from ....ir.dialects.core import Scatter
from ....ir.graph import Op
from ....ir.scalar import ReduceOp
from ....ir.types import TensorType
from ...emission import Emission, LaunchSpec
from ..arithmetic import Value
from ..emitter import FunctionBuilder, ModuleBuilder
from ..scalars import emit_scalar
from ..types import I1
from .rows import computing, kernel_function, pointers, read, write


def emit_scatter(
    op: Op,
    inputs: tuple[TensorType, ...],
    outputs: tuple[TensorType, ...],
    module: ModuleBuilder,
    symbol: str,
) -> Emission:
    """Two launches: threads share the copy, but not the updates."""
    assert isinstance(op, Scatter)
    x = inputs[0]
    _emit_copy(module, f"{symbol}_copy", x)
    _Updates(op, inputs, module, symbol).emit()
    return Emission((LaunchSpec(f"{symbol}_copy", x.size, 16384), LaunchSpec(symbol, 1, 1)))


def _emit_copy(module: ModuleBuilder, symbol: str, x: TensorType) -> None:
    f = kernel_function(module, symbol)
    source, _, _, result = pointers(f, 4)
    with f.loop(f.args[1], f.args[2]) as i:
        write(f, read(f, source, i, x.dtype), result, i, x.dtype)
    f.ret()


class _Updates:
    """Stores, for each group of coordinates, its slice of the updates: the axes that are not indexed."""

    def __init__(self, op: Scatter, inputs: tuple[TensorType, ...], module: ModuleBuilder, symbol: str) -> None:
        self.op, self.module, self.symbol = op, module, symbol
        self.x, self.indices, self.updates = inputs
        shape = self.x.shape
        self.strides = [prod(shape[k + 1 :]) for k in range(len(shape))]
        self.rest = [k for k in range(op.batch, len(shape)) if k not in op.axes]
        self.points = prod(self.indices.shape[op.batch : -1])

    def emit(self) -> None:
        f = kernel_function(self.module, self.symbol)
        _, indices, updates, result = pointers(f, 4)
        batches = prod(self.x.shape[: self.op.batch])
        with f.loop(f.args[1], f.args[2]), f.loop(0, batches) as batch, f.loop(0, self.points) as point:
            group = f.mul(batch, self.points) + point
            base, inside = self._target(f, indices, batch, group)
            with f.when(inside):
                self._piece(f, updates, result, base, group)
        f.ret()

    def _target(self, f: FunctionBuilder, indices: Value, batch: Value, group: Value) -> tuple[Value, Value]:
        """The position of a group's slice in the result, and whether all its coordinates are inside."""
        count = len(self.op.axes)
        block = self.strides[self.op.batch - 1] if self.op.batch else 0
        base, inside = f.mul(batch, block), f.const(I1, 1)
        for j, axis in enumerate(self.op.axes):
            raw = read(f, indices, f.mul(group, count) + j, self.indices.dtype)
            at = f.convert(raw, "i64", signed=self.indices.dtype.is_signed)
            inside = inside & f.cmp("ult", at, self.x.shape[axis])
            base = base + at * self.strides[axis]
        return base, inside

    def _piece(self, f: FunctionBuilder, updates: Value, result: Value, base: Value, group: Value) -> None:
        size = prod(self.x.shape[k] for k in self.rest)
        with f.loop(0, size) as i:
            target, left = base, i
            for k in reversed(self.rest):
                target = target + f.urem(left, self.x.shape[k]) * self.strides[k]
                left = f.udiv(left, self.x.shape[k])
            new = read(f, updates, f.mul(group, size) + i, self.x.dtype)
            write(f, self._combined(f, result, target, new), result, target, self.x.dtype)

    def _combined(self, f: FunctionBuilder, result: Value, target: Value, new: Value) -> Value:
        if self.op.op == "set":
            return new
        old = read(f, result, target, self.x.dtype)
        return emit_scalar(f, ReduceOp(self.op.op).scalar, (old, new), computing(self.x.dtype))
