"""The halves of float32 numbers for tensor cores: the nearest TF32 number, and the rest."""

import triton
import triton.language as tl

from .common import program


@triton.jit
def halve(x, y, count: tl.constexpr, LOW: tl.constexpr, BLOCK: tl.constexpr, WIDE: tl.constexpr):
    """One half of each number; as `_high` of `codegen/triton/helpers.py`."""
    i = program(WIDE) * BLOCK + tl.arange(0, BLOCK)
    inside = i < count
    number = tl.load(x + i, mask=inside, other=0.0)
    half = ((number.to(tl.int32, bitcast=True) + 0x1000) & -0x2000).to(tl.float32, bitcast=True)
    if LOW:
        half = number - half
    tl.store(y + i, half, mask=inside)
