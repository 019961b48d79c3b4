"""Helpers of routines: rows of a tensor along one axis, and loads and stores in the dtype of computation."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from ....ir.lazy_dataclass import dataclass
from ....ir.types import DType, TensorType
from ..arithmetic import Operand, Value
from ..emitter import FunctionBuilder, ModuleBuilder
from ..scalars import emit_cast
from ..types import I32, I64, PTR, memory_type_of

Functions = dict[str, Callable[[ModuleBuilder], None]]
"""What emits the functions of a routine, by their symbols."""

PARAMETERS = (("args", PTR, "noalias"), ("begin", I64, ""), ("end", I64, ""), ("worker", I32, ""))


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of a tensor along an axis: `length` elements, `stride` apart; `count` rows."""

    length: int
    stride: int
    count: int

    def first(self, f: FunctionBuilder, row: Value) -> Value:
        """The position of a row's first element."""
        outer = f.udiv(row, self.stride)
        return f.add(f.mul(outer, self.length * self.stride), f.urem(row, self.stride))

    def at(self, f: FunctionBuilder, first: Value, index: Operand) -> Value:
        """The position of element `index` of the row that starts at `first`."""
        return first + index * self.stride


def rows_along(type: TensorType, axis: int) -> Rows:
    return Rows(type.shape[axis], prod(type.shape[axis + 1 :]), type.size // max(1, type.shape[axis]))


def kernel_function(module: ModuleBuilder, symbol: str) -> FunctionBuilder:
    """A new function with a kernel's signature."""
    return module.function(symbol, None, PARAMETERS)


def pointers(f: FunctionBuilder, count: int) -> list[Value]:
    """The first `count` arguments, which are addresses."""
    return [f.load(f.gep(f.args[0], i, PTR), PTR, 8) for i in range(count)]


def numbers_after(f: FunctionBuilder, position: int, count: int) -> list[Value]:
    """The `count` arguments from `position` on, which are integers."""
    return [f.load(f.gep(f.args[0], position + i, I64), I64, 8) for i in range(count)]


def computing(dtype: DType) -> DType:
    """The dtype in which a routine combines elements of `dtype`."""
    return DType.F32 if dtype in (DType.F16, DType.BF16) else dtype


def read(f: FunctionBuilder, base: Value, position: Operand, dtype: DType, lanes: int = 1) -> Value:
    """An element in the dtype of `computing`, or a vector of elements."""
    raw = f.load(f.gep(base, position, memory_type_of(dtype)), memory_type_of(dtype, lanes))
    if dtype is DType.BOOL:
        return f.convert(raw, "i1")
    wide = computing(dtype)
    return raw if wide is dtype else emit_cast(f, raw, dtype, wide)


def write(f: FunctionBuilder, value: Value, base: Value, position: Operand, dtype: DType) -> None:
    """Store a value in the dtype of `computing` as an element, or a vector as elements."""
    wide = computing(dtype)
    value = value if wide is dtype else emit_cast(f, value, wide, dtype)
    if dtype is DType.BOOL:
        value = f.convert(value, "i8", signed=False)
    f.store(value, f.gep(base, position, memory_type_of(dtype)))
