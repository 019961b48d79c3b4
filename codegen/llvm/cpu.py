"""The properties of a CPU from which schedules and emitters derive their decisions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Self

from ...ir.lazy_dataclass import dataclass
from ...ir.target import ConvSizes
from .schedule.tuned import NOT_TUNED, Tuned
from .winograd_tiles import usable_gradient_tiles, usable_tiles

_MEMORY_BYTES_PER_CYCLE, _MEMORY_PAIRS = 10, 8
"""The memory bandwidth of one or two threads, and so many times that is the most of all threads together."""

WINOGRAD_TILES, WINOGRAD_VECTORS = 12, 4
"""Tiles in the smallest block that is worth reading the transformed weights for, and registers of filters in a panel:
threads share one or the other."""


@dataclass(frozen=True, slots=True)
class Cpu:
    """A CPU. `triple`, `cpu` and `features` are passed to LLVM; tile sizes are derived from the other fields. Cache
    sizes are in bytes per core. `tuned` are schedules that replace those of the formulas.
    """

    triple: str
    cpu: str
    features: str
    vector_bits: int
    vector_registers: int
    l1_bytes: int = 32 << 10
    l2_bytes: int = 512 << 10
    fma_per_cycle: int = 2
    fma_latency: int = 4
    threads: int = 1
    tuned: Tuned = NOT_TUNED

    @property
    def untuned(self) -> Self:
        """This CPU without tuned schedules, on which code for any shape does not depend."""
        return replace(self, tuned=NOT_TUNED) if self.tuned.entries else self

    def lanes(self, bits: int = 32) -> int:
        """Elements of `bits` width in one vector register."""
        return self.vector_bits // bits

    @property
    def channel_block(self) -> int:
        """Channels in a block of the blocked layout: the number of float32 in a vector register, but at least 8, so
        that short vectors share cache lines."""
        return max(8, self.lanes())

    def conv_tile(self, sizes: ConvSizes, *, weight_gradient: bool) -> int:
        """The outputs along each axis with several taps that are computed together; see `Capabilities.conv_tile`."""
        return self.winograd_tile(sizes, (usable_gradient_tiles if weight_gradient else usable_tiles)(sizes)) or 1

    def winograd_tile(self, sizes: ConvSizes, tiles: Sequence[int]) -> int:
        """The outputs along each axis with several taps, out of `tiles`, that Winograd's transforms compute together; 0
        if direct convolution takes fewer cycles."""
        cycles = {m: self._winograd_cycles(sizes.space_to_depth, m) for m in tiles}
        best = min(cycles, key=cycles.__getitem__, default=0)
        taps = prod(w.taps for w in sizes.windows)
        return best if best and cycles[best] < self._product_cycles(sizes, taps, sizes.tiles(1), self.threads) else 0

    def _product_cycles(self, sizes: ConvSizes, products: int, points: int, threads: int) -> float:
        """Cycles of a matrix product: those of its multiply-adds on so many threads, or of reading its weights from
        memory if these are more."""
        weights = products * sizes.channels * sizes.filters
        return max(
            weights * points / (self.lanes() * self.fma_per_cycle * threads),
            4 * weights / (_MEMORY_BYTES_PER_CYCLE * min(max(1, self.threads // 2), _MEMORY_PAIRS)),
        )

    def _winograd_cycles(self, sizes: ConvSizes, m: int) -> float:
        tiles, lengths = sizes.tiles(m), [w.tile(m) + w.taps - 1 for w in sizes.windows]
        # instructions of a transform and its loads and stores, for one vector of channels and each frequency
        steps = 1 + sum(max(1.0, (n - 2) / 4) for n in lengths if n > 1)
        frequencies = prod(lengths)
        panels = -(-sizes.filters // (WINOGRAD_VECTORS * self.lanes()))
        threads = min(self.threads, max(2, panels, tiles // WINOGRAD_TILES))
        transforms = tiles * (sizes.channels + sizes.filters) * frequencies * steps / (self.lanes() * threads)
        return self._product_cycles(sizes, frequencies, tiles, threads) + transforms
