"""Random bits in StableHLO."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ...ir.dialects.core import RandomBits
from ...ir.types import DType, TensorType
from .text import Text
from .writer import Val


def random_bits(t: Text, op: RandomBits, types: Sequence[TensorType], key: Val) -> Sequence[Val]:
    """Philox4x32-10 on 64-bit integers; see `core.random_bits`."""
    size, word = prod(op.shape), TensorType((), DType.U32)
    blocks = (size + 3) // 4
    row = TensorType((blocks,), DType.U64)

    def binary(name: str, x: Val, y: Val) -> Val:
        return t.one(f"stablehlo.{name}", (x, y), x.type)

    def word_of_key(i: int) -> Val:
        part = t.slice(key, TensorType((1,), DType.U32), (i,), (i + 1,))
        return t.broadcast(t.convert(t.reshape(part, word), DType.U64), row, ())

    low, half = t.fill(0xFFFFFFFF, row), t.fill(32, row)
    number = t.iota(row, 0)
    k0, k1, c2, c3 = (word_of_key(i) for i in range(4))
    c0, c1 = binary("and", number, low), binary("shift_right_logical", number, half)
    for _ in range(10):
        p0, p1 = (binary("multiply", c, t.fill(factor, row)) for c, factor in ((c0, 0xD2511F53), (c2, 0xCD9E8D57)))
        upper0, upper1 = (binary("shift_right_logical", p, half) for p in (p0, p1))
        c0, c2 = binary("xor", binary("xor", upper1, c1), k0), binary("xor", binary("xor", upper0, c3), k1)
        c1, c3 = binary("and", p1, low), binary("and", p0, low)
        k0, k1 = (
            binary("and", binary("add", k, t.fill(step, row)), low) for k, step in ((k0, 0x9E3779B9), (k1, 0xBB67AE85))
        )
    column = TensorType((blocks, 1), DType.U32)
    words = [t.reshape(t.convert(c, DType.U32), column) for c in (c0, c1, c2, c3)]
    joined = t.one("stablehlo.concatenate", words, TensorType((blocks, 4), DType.U32), {"dimension": "1 : i64"})
    flat = t.reshape(joined, TensorType((4 * blocks,), DType.U32))
    return [t.reshape(t.slice(flat, TensorType((size,), DType.U32), (0,), (size,)), types[0])]
