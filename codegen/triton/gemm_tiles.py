"""Chooses the tile, the warps, the stages and the parts of the sum of a matrix product from the counts of its points.

A product is full if tiles of 64 x 128 give most multiprocessors a tile each. Otherwise its tiles are small, and
programs share long sums. The numbers were measured on an H100 and an H200, for convolutions and dense layers.
"""

from __future__ import annotations

from ...ir.lazy_dataclass import dataclass
from .gpu import Gpu

_SPLITS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
_SHORT = 512  # a sum up to which no programs share it; half as long for float32, which takes three products
_MEDIUM = 1024  # the same if there are `_SEVERAL` tiles of 64 x 64
_SEVERAL = 24
_LONG = 16  # blocks of a part of a sum from which more programs than multiprocessors hide more latency


@dataclass(frozen=True, slots=True)
class GemmTile:
    """Blocks of `m` rows, `n` columns and `k` summed points; `split` programs share the sum of a tile."""

    m: int
    n: int
    k: int
    warps: int
    stages: int
    split: int = 1


@dataclass(frozen=True, slots=True)
class Counts:
    """The points of a product along its axes, the bytes of an element, and the innermost of the summed points, which
    operands read one after the other: the channels of a convolution. `divided`: the right operand is divided weights.
    `contiguous`: it is contiguous along the sum.
    """

    batch: int
    rows: int
    columns: int
    inner: int
    itemsize: int
    run: int
    divided: bool = False
    contiguous: bool = True

    def tiles(self, m: int, n: int) -> int:
        return self.batch * -(-self.rows // m) * -(-self.columns // n)

    @property
    def products(self) -> int:
        return self.batch * self.rows * self.columns * self.inner

    @property
    def block(self) -> int:
        """Summed points of 128 bytes, or all of them; at least what an instruction takes. Fewer, if they divide a run:
        then a block is at one tap of a convolution.
        """
        least = 32 if self.itemsize == 1 else 16
        block = max(least, min(128 // self.itemsize, _power_of_two(self.inner)))
        dividing = [b for b in (block, block // 2) if b >= 32 and self.run % b == 0]
        return (*dividing, block)[0]


def gemm_tile(counts: Counts, target: Gpu, *, may_split: bool) -> GemmTile:
    """The tile of a product. `may_split`: programs can share sums."""
    tile = _full(counts, target) or _few(counts, target, may_split)
    m, n = (max(16, min(block, _power_of_two(count))) for block, count in _sides(tile, counts))
    bytes_of_stage = (m + (2 * n if counts.itemsize == 4 else n)) * tile.k * counts.itemsize  # both halves of weights
    fitting = target.shared_bytes // bytes_of_stage
    steps = -(-counts.inner // (tile.k * tile.split))
    return GemmTile(m, n, tile.k, tile.warps, max(1, min(tile.stages, fitting, steps)), tile.split)


def exact_tile(counts: Counts) -> GemmTile:
    """The tile of a product without tensor cores, which keeps its operands in registers."""
    m, n = (max(16, min(32, _power_of_two(count))) for count in (counts.rows, counts.columns))
    return GemmTile(m, n, 16, 4, 1 if counts.inner <= 16 else 2)


def _sides(tile: GemmTile, counts: Counts) -> tuple[tuple[int, int], tuple[int, int]]:
    return (tile.m, counts.rows), (tile.n, counts.columns)


def _full(counts: Counts, target: Gpu) -> GemmTile | None:
    """The tile of a product that fills the multiprocessors."""
    batch, rows, columns = counts.batch, counts.rows, counts.columns
    if batch * rows * columns < 0.7 * target.multiprocessors * 64 * 128:
        return None
    if counts.itemsize == 4:
        return _full_float32(counts, target)
    if rows >= 128 and columns >= 256 and counts.tiles(128, 256) >= 0.9 * target.multiprocessors:
        return GemmTile(128, 256, counts.block, 8, 3)
    return GemmTile(64, 128, counts.block, 4, 4) if columns > 64 else GemmTile(128, 64, counts.block, 4, 4)


def _full_float32(counts: Counts, target: Gpu) -> GemmTile:
    """The same for float32. Programs that divide factors in registers need many of them."""
    if counts.divided:
        wide = counts.columns > 64 and counts.run == counts.inner and target.capability >= 90
        return GemmTile(64, 128 if wide else 64, counts.block, 4, 3)
    fills = counts.columns > 64 and counts.tiles(128, 128) >= 0.9 * target.multiprocessors
    if fills and counts.contiguous and target.capability >= 90:
        return GemmTile(128, 128, counts.block, 8, 3)
    return GemmTile(64, 64, counts.block, 4, 3)


def _few(counts: Counts, target: Gpu, may_split: bool) -> GemmTile:
    """The tile of a product with few tiles: programs share a long sum."""
    inner, squares, is_single = counts.inner, counts.tiles(64, 64), counts.itemsize == 4
    fills = counts.rows > 32 and squares >= (target.multiprocessors if is_single else _SEVERAL)
    if not may_split or inner <= (_SHORT // 2 if is_single else _SHORT) or (inner <= _MEDIUM and fills):
        return GemmTile(64, 64 if counts.rows > 32 else 32, counts.block, 4, 3 if is_single else 5)
    if inner >= 2 * _LONG * counts.block * target.multiprocessors // squares:
        return GemmTile(64, 64, counts.block, 4, 3 if is_single else 4, _parts(counts, 64, 64, target, 2.5))
    m, n = (32, 32) if counts.rows <= 64 and not is_single else (64, 32)
    return GemmTile(m, n, counts.block, 4, 5, _parts(counts, m, n, target, 0.9))


def _parts(counts: Counts, m: int, n: int, target: Gpu, programs: float) -> int:
    """The parts of each sum that give a multiprocessor this many programs, of at least two blocks."""
    enough = [s for s in _SPLITS if s * counts.tiles(m, n) >= programs * target.multiprocessors]
    return min((*enough, _SPLITS[-1])[0], max(1, counts.inner // (2 * counts.block)))


def _power_of_two(n: int) -> int:
    return 1 << max(0, n - 1).bit_length()
