"""Chooses how many tiles of a Winograd convolution are computed as one block, and in how many launches.

A block is transformed, then multiplied with each panel of filters, for all frequencies. The inputs of the block, the
weights of a panel and its products pass through the L2 cache; what does not fit is read again from farther away. Small
blocks keep their inputs in the L2 cache, but read the weights more often. The choice compares multiply-adds and memory
traffic.
"""

from __future__ import annotations

from ....ir.lazy_dataclass import dataclass
from ..cpu import WINOGRAD_VECTORS, Cpu

_LEAST = 16
"""Tiles in a block: of smaller ones, transforms and calls of the micro-kernel take too long."""
_FULL, _USABLE = 0.9, 0.8
"""The share of the L2 cache that weights and a block can fill, and up to which a stream through it finds all data."""
_MOST_FAR = 12
"""Multiples of the L2 cache for the inputs and products of all tiles: the last cache has room for more."""
_FAR_BYTES = 10
"""Bytes per cycle from beyond the L2 cache, for each thread (measured on Zen 5)."""
_PREFETCHED = 0.7
"""The time of weights, which the micro-kernel prefetches, as a share of that of other data."""
_WRITTEN = 1.5
"""The time of products, which are written and read, as a share of that of data that is only read."""
_LAUNCH_CYCLES = 4000
"""Cycles of a second launch, at whose begin threads wait for each other."""


_STORED = 32 << 20
"""From so many bytes on transformed weights are not stored: they would be the largest part of a model's memory. Their
transform takes 2 % of a network's time (measured on Zen 5)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Products:
    """The sizes of the products: `frequencies` matrix products of channels times `filters`, in panels of `width`
    filters and tiles of `rows` rows."""

    frequencies: int
    channels: int
    filters: int
    width: int
    rows: int

    @property
    def panels(self) -> int:
        return -(-self.filters // self.width)

    def _floats(self, tiles: int, channels: int) -> int:
        return 4 * self.frequencies * tiles * channels

    def inputs(self, tiles: int) -> int:
        """Bytes of the transformed inputs of some tiles."""
        return self._floats(tiles, self.channels)

    def outputs(self, tiles: int) -> int:
        """Bytes of the products of a panel."""
        return self._floats(tiles, self.width)

    @property
    def weights(self) -> int:
        """Bytes of the transformed weights."""
        return self._floats(self.channels, self.filters)


def tile_blocks(p: Products, tiles: int, target: Cpu) -> tuple[bool, int]:
    """(whether one launch does everything, tiles in a block).

    One launch over blocks is best if all weights stay in the L2 cache beside a block. Else blocks whose products fit a
    quarter of it compete with one block in two launches, whose panels threads share.
    """
    near = int(_FULL * target.l2_bytes - p.weights) // (p.inputs(1) + p.outputs(1))
    if near >= _LEAST and _even(tiles, near, target.threads) >= _LEAST:
        return True, _even(tiles, near, target.threads)
    size = _even(tiles, max(1, target.l2_bytes // 4 // p.outputs(1)), target.threads)
    ways = [(True, size)]
    if p.inputs(tiles) + target.threads * p.outputs(tiles) <= _MOST_FAR * target.l2_bytes:
        ways.append((False, tiles))
    return min(ways, key=lambda way: _cycles(p, tiles, *way, target))


def expanded_channels(p: Products, target: Cpu) -> int:
    """Input channels of a panel whose weights are transformed together, a multiple of a vector, so that these fill at
    most half of the L2 cache; 0 if the transformed weights are stored."""
    if p.weights < _STORED:
        return 0
    lanes = target.lanes()
    size = 4 * p.frequencies * lanes * (WINOGRAD_VECTORS * lanes)
    return lanes * max(1, target.l2_bytes // 2 // size)


def _even(tiles: int, most: int, threads: int) -> int:
    """Tiles in each of a multiple of `threads` blocks of at most `most` tiles."""
    blocks = -(-tiles // most)
    return -(-tiles // (-(-blocks // threads) * threads))


def _cycles(p: Products, tiles: int, fused: bool, size: int, target: Cpu) -> float:
    """Cycles of the thread that has the most to do."""
    blocks = -(-tiles // size)
    products = p.frequencies * p.channels * p.filters * tiles / (target.lanes() * target.fma_per_cycle)
    block = p.inputs(size) + p.outputs(size)
    missed = max(0.0, 1 - _USABLE * target.l2_bytes / (block + p.weights // p.panels))
    again = p.panels * (p.inputs(size) + _WRITTEN * p.outputs(size))
    far = blocks * (_PREFETCHED * p.weights + missed * again)
    units = blocks if fused else p.panels
    share = -(-units // target.threads) / units
    return (products + far / _FAR_BYTES) * share + (0 if fused else _LAUNCH_CYCLES)
