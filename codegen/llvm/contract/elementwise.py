"""The slow path for epilogues of contractions: reads sums from the workspace and computes any expression of them, one
element at a time.
"""

from __future__ import annotations

from math import prod

from ....ir.kernel import Affine, Expr, Index, Kernel, Load, Store
from ....ir.lazy_dataclass import dataclass
from ....ir.types import DType
from ...emission import LaunchSpec
from ..arithmetic import Value
from ..emitter import FunctionBuilder, ModuleBuilder
from ..schedule.describe import ContractionError
from ..schedule.strides import buffer_strides, fixed_shape
from ..types import I64, memory_type_of, type_of
from .epilogue import Operand
from .tiles import KERNEL_PARAMETERS, argument
from .vector_epilogue import SUM, evaluate, name_operands


@dataclass(frozen=True, slots=True, kw_only=True)
class SumsWalk:
    """The sums [group][point][channel], and the kernel's axes as (name, extent) pairs, outermost first. The combined
    index of `channels` counts through groups and channels.
    """

    out: Operand
    groups: int
    points: tuple[tuple[str, int], ...]
    channels: tuple[tuple[str, int], ...]
    batches: tuple[tuple[str, int], ...] = ()


def emit_elementwise(module: ModuleBuilder, kernel: Kernel, store: Store, walk: SumsWalk, symbol: str) -> LaunchSpec:
    """A launch over the channels of all groups."""
    f = module.function(symbol, None, KERNEL_PARAMETERS)
    per_group = (
        prod(n for _, n in walk.channels) // walk.groups if not walk.batches else prod(n for _, n in walk.channels)
    )
    count = per_group * walk.groups
    with f.loop(f.args[1], f.args[2]) as unit:
        _channel(f, kernel, store, walk, unit, per_group)
    f.ret()
    return LaunchSpec(symbol, count, 1)


def _channel(f: FunctionBuilder, kernel: Kernel, store: Store, walk: SumsWalk, unit: Value, per_group: int) -> None:
    group, channel = f.udiv(unit, per_group), f.urem(unit, per_group)
    axes = _decode(f, unit, (*walk.batches, *walk.channels))
    view, element = walk.out.view, type_of(walk.out.dtype)
    sums = f.gep(argument(f, walk.out.slot), view.base, element)
    rest, batch = group, list[Value]()
    extents = [n for _, n in walk.batches] or [walk.groups]
    for n in reversed(extents):
        batch.append(f.urem(rest, n))
        rest = f.udiv(rest, n)
    for i, stride in zip(batch[::-1], view.groups, strict=True):
        sums = f.gep(sums, i * stride, element)
    sums = f.gep(sums, channel, element)
    with f.loop(0, prod(n for _, n in walk.points)) as point:
        at = {**axes, **_decode(f, point, walk.points)}
        total = f.load(f.gep(sums, point * view.points[-1], element), element)
        _element(f, kernel, store, at, total, walk.out.dtype)


def _decode(f: FunctionBuilder, index: Value, axes: tuple[tuple[str, int], ...]) -> dict[str, Value]:
    digits: dict[str, Value] = {}
    for name, extent in reversed(axes):
        digits[name] = f.urem(index, extent)
        index = f.udiv(index, extent)
    return digits


def _element(
    f: FunctionBuilder, kernel: Kernel, store: Store, axes: dict[str, Value], total: Value, dtype: DType
) -> None:
    expr, loads = name_operands(store.value)
    operands = {
        f"l{k}": (_reader(f, kernel, load, axes), kernel.buffer(load.buffer).dtype) for k, load in enumerate(loads)
    }
    value, result = evaluate(f, expr, 1, {SUM: (lambda: total, dtype), **operands}, axes)
    out = kernel.buffer(store.buffer)
    address = _address(f, kernel, store.buffer, _indices(f, kernel, store.index, axes))
    if result is DType.BOOL:
        value = f.convert(value, "i8", signed=False)
    f.store(f.convert(value, memory_type_of(out.dtype).element), address)


def _reader(f: FunctionBuilder, kernel: Kernel, load: Load, axes: dict[str, Value]):
    buffer = kernel.buffer(load.buffer)
    memory = memory_type_of(buffer.dtype)

    def read() -> Value:
        index = _indices(f, kernel, load.index, axes)
        if load.other is None:
            value = f.load(_address(f, kernel, load.buffer, index), memory)
        else:
            inside = f.const(type_of(DType.BOOL), 1)
            for i, n in zip(index, fixed_shape(buffer), strict=True):
                inside = inside & f.cmp("ult", i, n)
            safe = [f.select(inside, i, f.const(I64, 0)) for i in index]
            loaded = f.load(_address(f, kernel, load.buffer, safe), memory)
            value = f.select(inside, loaded, f.const(memory, load.other.value))
        return f.convert(value, "i1") if buffer.dtype is DType.BOOL else value

    return read


def _indices(f: FunctionBuilder, kernel: Kernel, index: Index, axes: dict[str, Value]) -> list[Value]:
    return [_affine(f, i, axes) if isinstance(i, Affine) else _computed(f, kernel, i, axes) for i in index]


def _affine(f: FunctionBuilder, index: Affine, axes: dict[str, Value]) -> Value:
    total = f.const(I64, index.offset)
    for axis, coefficient in index.terms:
        total = f.add(total, axes[axis] * coefficient)
    return total


def _computed(f: FunctionBuilder, kernel: Kernel, index: Expr, axes: dict[str, Value]) -> Value:
    expr, loads = name_operands(index)
    operands = {
        f"l{k}": (_reader(f, kernel, load, axes), kernel.buffer(load.buffer).dtype) for k, load in enumerate(loads)
    }
    value, dtype = evaluate(f, expr, 1, operands, axes)
    if not dtype.is_integer:
        raise ContractionError(f"{kernel.name}: an index of dtype {dtype.value}")
    return f.convert(value, "i64", signed=dtype.is_signed)


def _address(f: FunctionBuilder, kernel: Kernel, name: str, index: list[Value]) -> Value:
    buffer = kernel.buffer(name)
    memory = memory_type_of(buffer.dtype)
    address = f.gep(argument(f, kernel.buffers.index(buffer)), 0, memory)
    strides = buffer_strides(buffer)
    if buffer.layout is not None:
        lows = (0, 0, *(lo for lo, _ in buffer.layout.halo))
        block = buffer.layout.block
        channel = index[1]
        index = [f.add(i, lo) for i, lo in zip(index, lows, strict=True)]
        index[1] = f.udiv(channel, block)
        index = [*index, f.urem(channel, block)]
    for i, stride in zip(index, strides, strict=True):
        address = f.gep(address, i * stride, memory)
    return address
