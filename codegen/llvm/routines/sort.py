"""Sorts along an axis: a stable merge sort of 64-bit keys with their positions, then a gather of all operands.

A key is an integer with the order of the element. For floats it is computed from their bits, with the order of negative
numbers reversed. NaN has the greatest key for both directions, and the two zeros have the same key.
"""

from __future__ import annotations

from ....ir.dialects.core import Sort
from ....ir.graph import Op
from ....ir.types import DType, TensorType
from ...emission import Emission, LaunchSpec
from ..arithmetic import Value
from ..emitter import FunctionBuilder, ModuleBuilder
from ..types import I64, PTR, memory_type_of
from .rows import Rows, computing, kernel_function, pointers, read, rows_along

_GREATEST = (1 << 63) - 1


def emit_sort(
    op: Op,
    inputs: tuple[TensorType, ...],
    outputs: tuple[TensorType, ...],
    module: ModuleBuilder,
    symbol: str,
) -> Emission:
    """The workspace holds two arrays of keys and two of positions of a row for each worker."""
    assert isinstance(op, Sort)
    rows = rows_along(inputs[0], op.axis)
    if not rows.count or not rows.length:
        return Emission(())
    merge = _merge_sort(module)
    f = kernel_function(module, symbol)
    places = pointers(f, len(inputs) + len(outputs) + 1)
    own = f.convert(f.args[3], "i64") * (4 * rows.length)
    work = f.gep(places[-1], own, I64)
    keys, order = work, f.gep(work, rows.length, I64)
    with f.loop(f.args[1], f.args[2]) as row:
        first = rows.first(f, row)
        with f.loop(0, rows.length) as i:
            key = _key(f, read(f, places[0], rows.at(f, first, i), inputs[0].dtype), inputs[0].dtype, op.descending)
            f.store(key, f.gep(keys, i, I64))
            f.store(i, f.gep(order, i, I64))
        f.call_void(merge, keys, f.gep(work, 2 * rows.length, I64), f.const(I64, rows.length))
        _gather(f, rows, first, order, places, inputs)
    f.ret()
    workspace = module.target.threads * 4 * rows.length * 8
    return Emission((LaunchSpec(symbol, rows.count, max(1, 1024 // rows.length)),), workspace)


def _gather(
    f: FunctionBuilder, rows: Rows, first: Value, order: Value, places: list[Value], types: tuple[TensorType, ...]
) -> None:
    for n, type in enumerate(types):
        element = memory_type_of(type.dtype)
        with f.loop(0, rows.length) as i:
            chosen = rows.at(f, first, f.load(f.gep(order, i, I64), I64))
            value = f.load(f.gep(places[n], chosen, element), element)
            f.store(value, f.gep(places[len(types) + n], rows.at(f, first, i), element))


def _key(f: FunctionBuilder, value: Value, dtype: DType, descending: bool) -> Value:
    """The key of an element."""
    if not dtype.is_float:
        wide = f.convert(value, "i64", signed=dtype.is_signed)
        if dtype is DType.U64:
            wide = wide ^ (1 << 63)
        return f.not_(wide) if descending else wide
    wide = computing(dtype)
    positive_zero = f.add(value, 0.0)  # -0 + 0 is +0
    bits = f.bitcast(positive_zero, "i64" if wide is DType.F64 else "i32")
    ordered = bits ^ f.lshr(f.ashr(bits, bits.type.bits - 1), 1)
    key = f.convert(ordered, "i64")
    key = f.not_(key) if descending else key
    return f.select(f.is_nan(value), f.const(I64, _GREATEST), key)


def _merge_sort(module: ModuleBuilder) -> str:
    """The symbol of `sort(ptr data, ptr scratch, i64 n)`, a stable sort in place of n keys, followed by n positions."""
    name = "mxf_merge_sort"
    if module.has_function(name):
        return f"@{name}"
    f = module.function(name, None, (("data", PTR, ""), ("scratch", PTR, ""), ("n", I64, "")), linkage="internal")
    data, scratch, n = f.args

    def pass_over(width: Value, source: Value, target: Value) -> tuple[Value, Value, Value]:
        with f.loop(0, n, f.mul(width, 2)) as low:
            _merge(f, source, target, low, width, n)
        return f.mul(width, 2), target, source

    def unsorted(width: Value, *_: Value) -> Value:
        return f.cmp("lt", width, n)

    _, sorted_at, _ = f.while_loop([f.const(I64, 1), data, scratch], unsorted, pass_over)
    with f.when(f.cmp("ne", sorted_at, data)), f.loop(0, f.mul(n, 2)) as i:
        f.store(f.load(f.gep(sorted_at, i, I64), I64), f.gep(data, i, I64))
    f.ret()
    return f"@{name}"


def _merge(f: FunctionBuilder, source: Value, target: Value, low: Value, width: Value, n: Value) -> None:
    """Merge the runs [low, low + width) and [low + width, low + 2 * width) of source into target; of equal keys the
    left one is first.
    """
    middle = f.smin(low + width, n)
    high = f.smin(middle + width, n)
    last = n - 1
    with f.carry_loop(low, high, [low, middle]) as loop:
        left, right = loop.values
        a = f.load(f.gep(source, f.smin(left, last), I64), I64)
        b = f.load(f.gep(source, f.smin(right, last), I64), I64)
        left_done, right_done = f.cmp("ge", left, middle), f.cmp("ge", right, high)
        take_left = f.not_(left_done) & (right_done | f.cmp("le", a, b))
        chosen = f.select(take_left, left, right)
        f.store(f.select(take_left, a, b), f.gep(target, loop.index, I64))
        position = f.load(f.gep(source, chosen + n, I64), I64)
        f.store(position, f.gep(target, loop.index + n, I64))
        loop.next(f.select(take_left, left + 1, left), f.select(take_left, right, right + 1))
