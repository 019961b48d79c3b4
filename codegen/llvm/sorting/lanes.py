"""Vectors of words: partial loads and stores, minima and maxima, and compaction of selected lanes."""

from __future__ import annotations

from ..arithmetic import Operand, Value
from ..cpu import Cpu
from ..emitter import FunctionBuilder
from ..types import I1, I8, I32, Type


def vector_of(word: Type, target: Cpu) -> Type:
    """The vector of words that fills a register."""
    return word.with_lanes(target.lanes(word.bits))


def greatest(word: Type) -> int:
    """The greatest word, which fills lanes without an element."""
    return (1 << (word.bits - 1)) - 1


def first_mask(f: FunctionBuilder, count: Value, lanes: int) -> Value:
    """True in the first `count` lanes (i64; negative: none, more than `lanes`: all)."""
    type = I32.with_lanes(lanes)
    bounded = f.convert(f.smin(f.smax(count, 0), lanes), "i32")
    return f.cmp("lt", f.iota(type), f.splat(bounded, type))


def load_first(f: FunctionBuilder, pointer: Value, count: Value, type: Type) -> Value:
    """A vector whose first `count` lanes are loaded; the others hold the greatest word."""
    mask = first_mask(f, count, type.lanes)
    return f.masked_load(pointer, type, mask, greatest(type))


def store_first(f: FunctionBuilder, value: Value, pointer: Value, count: Value) -> None:
    """Store the first `count` lanes."""
    f.masked_store(value, pointer, first_mask(f, count, value.type.lanes))


def exchanged(f: FunctionBuilder, a: Value, b: Value) -> tuple[Value, Value]:
    """The minima and the maxima of two vectors."""
    return f.smin(a, b), f.smax(a, b)


def count_lanes(f: FunctionBuilder, mask: Value) -> Value:
    """The number of true lanes (i64)."""
    lanes = mask.type.lanes
    bits = f.bitcast(mask, Type.of("i8" if lanes <= 8 else "i16")) if lanes in (8, 16) else _narrow_bits(f, mask)
    return f.convert(f.intrinsic("ctpop", bits.type, bits), "i64", signed=False)


def _narrow_bits(f: FunctionBuilder, mask: Value) -> Value:
    """The bits of a mask of fewer than 8 lanes as an i8."""
    lanes = mask.type.lanes
    none = f.const(mask.type, 0)
    return f.bitcast(f.shuffle(mask, none, [min(k, lanes) for k in range(8)]), I8)


def compacted(f: FunctionBuilder, value: Value, mask: Value) -> Value:
    """The lanes of `value` where `mask` is true, in order and without gaps from lane 0 on; the rest is undefined.

    AVX2 has no instruction for this: a table has the permutation for each mask.
    """
    target = f.module.target
    if target.vector_bits != 256:
        return _compress(f, value, mask)
    lanes = value.type.lanes
    per_lane = 8 // lanes  # 32-bit parts of a lane
    rows: list[int] = []
    for bits in range(1 << lanes):
        chosen = [k for k in range(lanes) if bits >> k & 1]
        row = [per_lane * k + part for k in chosen for part in range(per_lane)]
        rows += row + [0] * (8 - len(row))
    number = f.convert(f.bitcast(mask, I8) if lanes == 8 else _narrow_bits(f, mask), "i64", signed=False)
    packed = f.load(f.gep(f.table(I8, rows), f.shl(number, 3), I8), I8.with_lanes(8))
    order = f.convert(packed, "i32", signed=False)
    eight = I32.with_lanes(8)
    symbol = f.module.declare_raw("llvm.x86.avx2.permd", eight.text, f"{eight.text}, {eight.text}")
    return f.bitcast(f.call(symbol, eight, f.bitcast(value, eight), order), value.type)


def _compress(f: FunctionBuilder, value: Value, mask: Value) -> Value:
    type, masks = value.type, I1.with_lanes(value.type.lanes)
    name = f"llvm.experimental.vector.compress.{type.mangled}"
    symbol = f.module.declare_raw(name, type.text, f"{type.text}, {masks.text}, {type.text}")
    return f.op(f"call {type.text} {symbol}({value!r}, {mask!r}, {type.text} poison)", type)


def copy_words(f: FunctionBuilder, source: Value, target: Value, count: Operand, type: Type) -> None:
    """Copy `count` words between buffers that do not overlap."""
    with f.loop(0, count, type.lanes) as i:
        left = f.sub(count, i)
        mask = first_mask(f, left, type.lanes)
        f.masked_store(f.masked_load(f.gep(source, i, type.scalar), type, mask), f.gep(target, i, type.scalar), mask)
