"""Descriptions of the machines that programs are compiled for: numbers only, from which schedules are derived."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from .types import DType

_MEMORY_BYTES_PER_CYCLE = 8
"""What all threads together read from memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvWindow:
    """One spatial axis of a convolution: `outputs` positions of a window of `taps` taps."""

    outputs: int
    taps: int
    stride: int
    dilation: int
    interior: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvSizes:
    """What the cost of a convolution depends on; `channels` in and `filters` out are those of a group. `dtype` is the
    input's, `accumulator` that of the sums."""

    dtype: DType
    accumulator: DType
    images: int
    groups: int
    channels: int
    filters: int
    windows: tuple[ConvWindow, ...]

    @property
    def has_winograd(self) -> bool:
        """Whether Winograd's transforms compute it: 3x3 with stride 1 over two axes, in float32."""
        unit = all((w.taps, w.stride, w.dilation, w.interior) == (3, 1, 1, 1) for w in self.windows)
        plain = len(self.windows) == 2 and self.groups == 1 and self.dtype is self.accumulator is DType.F32
        return unit and plain and self.channels >= 16 and self.filters >= 16

    def tiles(self, m: int) -> int:
        """Tiles of m outputs along each axis, of all images."""
        return self.images * prod(-(-w.outputs // m) for w in self.windows)


@dataclass(frozen=True, slots=True)
class CpuTarget:
    """A CPU as the schedule formulas see it.

    `triple`, `cpu` and `features` go to LLVM; the rest are the numbers that tile sizes are derived from. Caches are
    in bytes, per core.
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

    def lanes(self, bits: int = 32) -> int:
        """Elements of `bits` width in one vector register."""
        return self.vector_bits // bits

    def winograd_tile(self, sizes: ConvSizes, tiles: Sequence[int] = (4, 2)) -> int:
        """How many outputs along each axis Winograd's transforms compute together, of those in `tiles`; 0 if direct
        convolution takes fewer cycles."""
        if not sizes.has_winograd:
            return 0
        cycles = {m: self._winograd_cycles(sizes, m) for m in tiles}
        best = min(cycles, key=cycles.__getitem__, default=0)
        return best if best and cycles[best] < self._product_cycles(sizes, 9, sizes.tiles(1)) else 0

    def _product_cycles(self, sizes: ConvSizes, products: int, points: int) -> float:
        """Multiply-adds of all threads, or the time that weights take from memory."""
        weights = products * sizes.channels * sizes.filters
        return max(
            weights * points / (self.lanes() * self.fma_per_cycle * self.threads),
            4 * weights / _MEMORY_BYTES_PER_CYCLE,
        )

    def _winograd_cycles(self, sizes: ConvSizes, m: int) -> float:
        tiles, size = sizes.tiles(m), m + 2
        steps = 3 * size * size  # instructions of a transform and its loads and stores, for one vector of channels
        transforms = tiles * (sizes.channels + sizes.filters) * steps / (self.lanes() * self.threads)
        return self._product_cycles(sizes, size * size, tiles) + transforms


@dataclass(frozen=True, slots=True)
class GpuTarget:
    """An NVIDIA GPU as the Triton schedules see it. `capability` is 90 for sm_90; `shared_bytes` per block."""

    capability: int
    shared_bytes: int
    multiprocessors: int


AVX2 = CpuTarget("x86_64-unknown-linux-gnu", "znver3", "", 256, 16)
AVX512 = CpuTarget("x86_64-unknown-linux-gnu", "skylake-avx512", "", 512, 32, l2_bytes=1 << 20)
NEON = CpuTarget("aarch64-unknown-linux-gnu", "neoverse-n1", "", 128, 32, l1_bytes=64 << 10, l2_bytes=1 << 20)
SM90 = GpuTarget(90, 227 << 10, 132)
