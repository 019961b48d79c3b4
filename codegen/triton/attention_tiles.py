"""Chooses the blocks and the warps of attention and of its gradients.

The largest blocks that do not spill registers. float32 needs several registers for each element, since products divide
operands into two tf32 numbers, and only the products of sm_90 read operands from shared memory.
"""

from __future__ import annotations

from ...ir.lazy_dataclass import dataclass
from ...ir.types import DType
from .gpu import Gpu


@dataclass(frozen=True, slots=True)
class BlockCounts:
    """What blocks are chosen from: the products of a batch, their rows and summed points, and the elements of the
    longest and of all rows of the operands that a block of summed points has."""

    batch: int
    rows: int
    keys: int
    longest: int
    read: int
    dtype: DType


@dataclass(frozen=True, slots=True)
class BlockTile:
    """`m` rows of results, `r` summed points."""

    m: int
    r: int
    warps: int
    stages: int


def attention_tile(counts: BlockCounts, target: Gpu) -> BlockTile:
    """Blocks of queries and keys. 64 queries, or fewer so that most multiprocessors have a block; 128 queries of
    float32 share the division of keys and values."""
    reads_shared, is_narrow = target.capability >= 90, counts.longest <= 64
    warps = 8 if counts.longest > 128 else 4
    if counts.dtype is not DType.F32:
        m, r = 64, 64
    elif reads_shared and is_narrow:
        m, r = (128, 32) if counts.batch * -(-counts.rows // 128) >= target.multiprocessors else (64, 32)
        warps = m // 16
    else:
        m, r = (64, 16) if reads_shared or is_narrow else (16, 32)
    while m > 16 and 2 * counts.batch * -(-counts.rows // m) < target.multiprocessors:
        m //= 2
    return _tile(counts, target, m, r, warps)


def gradient_tile(counts: BlockCounts, target: Gpu) -> BlockTile:
    """Blocks of a gradient, which has two inner products."""
    is_narrow = counts.longest <= 64
    if counts.dtype is DType.F32:
        m, r = (64, 32) if is_narrow and target.capability >= 90 else (32, 16)
    else:
        m, r = (64, 64) if is_narrow else (64, 32)
    return _tile(counts, target, m, r, 8 if counts.longest > 128 else 4)


def _tile(counts: BlockCounts, target: Gpu, m: int, r: int, warps: int) -> BlockTile:
    m, r = (min(block, max(16, power_of_two(n))) for block, n in ((m, counts.rows), (r, counts.keys)))
    fitting = 2 * target.shared_bytes // (3 * r * counts.read * counts.dtype.itemsize)
    return BlockTile(m, r, min(warps, max(4, m // 8)), max(1, min(3, fitting, -(-counts.keys // r))))


def power_of_two(n: int) -> int:
    """The least power of two that is not below n."""
    return 1 << max(0, n - 1).bit_length()
