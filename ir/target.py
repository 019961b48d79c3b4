"""What passes know about a target: properties from which graphs are chosen, nothing about code generation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Protocol

from .lazy_dataclass import dataclass
from .types import DType

WINOGRAD_TILES: dict[tuple[int, ...], tuple[int, ...]] = {
    (3, 3): (4, 2),
    (4, 4): (3,),
    (5, 5): (3,),
    (3,): (4, 2),
    (5,): (3,),
    (7,): (3,),
}
"""Outputs of a tile of Winograd's transforms along each axis with several taps, by the taps of these axes. Larger tiles
take fewer multiply-adds and round more: their errors would exceed three times that of direct convolution."""

FEW_CHANNELS = 4
"""The most channels of an image, which stays row-major on every target."""

WINOGRAD_GRADIENT_TILE = 4
"""The only tile of Winograd's transforms for weight gradients: that of 2 saves little."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvWindow:
    """One spatial axis of a convolution: `outputs` positions of a window of `taps` taps."""

    outputs: int
    taps: int
    stride: int
    dilation: int
    interior: int

    def tile(self, m: int) -> int:
        """The outputs that a tile of Winograd's transforms has along this axis."""
        return m if self.taps > 1 else 1

    @property
    def space_to_depth(self) -> ConvWindow:
        """The window after space-to-depth: over the positions that are a stride apart."""
        return replace(self, taps=-(-self.taps // self.stride), stride=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvSizes:
    """The sizes that determine the cost of a convolution. `channels` (input) and `filters` (output) are per group.
    `dtype` is the input's dtype, `accumulator` the dtype of the sums."""

    dtype: DType
    accumulator: DType
    images: int
    groups: int
    channels: int
    filters: int
    windows: tuple[ConvWindow, ...]

    @property
    def space_to_depth(self) -> ConvSizes:
        """The same convolution after space-to-depth of its input: the positions within one stride become channels, and
        the stride is 1."""
        channels = self.channels * prod(w.stride for w in self.windows)
        return replace(self, channels=channels, windows=tuple(w.space_to_depth for w in self.windows))

    @property
    def is_strided(self) -> bool:
        return any(w.stride > 1 for w in self.windows)

    @property
    def winograd_tiles(self) -> tuple[int, ...]:
        """The tiles of Winograd's transforms that can compute it, in float32 over two axes: with stride 1, or over the
        input after space-to-depth, for few channels (an image)."""
        plain = len(self.windows) == 2 and self.groups == 1 and self.dtype is self.accumulator is DType.F32
        dense = all((w.dilation, w.interior) == (1, 1) for w in self.windows)
        few, deep = self.is_strided, self.space_to_depth
        if not plain or not dense or self.filters < 16 or deep.channels < (12 if few else 16):
            return ()
        if few and (self.channels > FEW_CHANNELS or any(w.taps == 1 for w in deep.windows)):
            return ()
        return WINOGRAD_TILES.get(tuple(w.taps for w in deep.windows if w.taps > 1), ())

    @property
    def winograd_gradient_tiles(self) -> tuple[int, ...]:
        """The tiles of the transforms that can compute the gradient of the weights."""
        square = all((w.taps, w.stride) == (3, 1) for w in self.windows)
        return (WINOGRAD_GRADIENT_TILE,) if square and self.winograd_tiles else ()

    def tiles(self, m: int) -> int:
        """Number of tiles of m outputs along each axis with several taps, over all images."""
        return self.images * prod(-(-w.outputs // w.tile(m)) for w in self.windows)


class Capabilities(Protocol):
    """The part of a target that passes read."""

    @property
    def name(self) -> str:
        """The target's name in messages: "cpu", "gpu"."""
        ...

    @property
    def channel_block(self) -> int:
        """Channels in a block of a blocked layout; 1 if every buffer is row-major."""
        ...

    def winograd_tile(self, sizes: ConvSizes, tiles: Sequence[int]) -> int:
        """The outputs along each axis with several taps, out of `tiles`, that Winograd's transforms compute together; 0
        if the target computes the convolution in another way."""
        ...

    def fuses_parts(self, parts: int, rows: int) -> bool:
        """True if the target computes `parts` equal pieces of the columns of a product with so many rows side by side,
        so that a function of the pieces is part of the product's kernel."""
        ...


@dataclass(frozen=True, slots=True)
class PlainTarget:
    """Capabilities of an interpreter: row-major memory and no kernels. For passes that run only on core graphs."""

    name: str = "reference"
    channel_block: int = 1

    def winograd_tile(self, sizes: ConvSizes, tiles: Sequence[int]) -> int:
        return 0

    def fuses_parts(self, parts: int, rows: int) -> bool:
        return False


REFERENCE = PlainTarget()
