"""What passes know about a target: properties from which graphs are chosen, nothing about code generation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Protocol

from .types import DType

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
    def has_winograd(self) -> bool:
        """True if Winograd's transforms can compute it: 3x3 with stride 1 over two axes, in float32."""
        unit = all((w.taps, w.stride, w.dilation, w.interior) == (3, 1, 1, 1) for w in self.windows)
        plain = len(self.windows) == 2 and self.groups == 1 and self.dtype is self.accumulator is DType.F32
        return unit and plain and self.channels >= 16 and self.filters >= 16

    def tiles(self, m: int) -> int:
        """Number of tiles of m outputs along each axis, over all images."""
        return self.images * prod(-(-w.outputs // m) for w in self.windows)


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

    @property
    def has_loops(self) -> bool:
        """True if programs have loops; a target without them gets loops of known length as their steps."""
        ...

    def winograd_tile(self, sizes: ConvSizes, tiles: Sequence[int] = (4, 2)) -> int:
        """The number of outputs along each axis that Winograd's transforms compute together, one of `tiles`; 0 if the
        target computes the convolution in another way."""
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
    has_loops: bool = True

    def winograd_tile(self, sizes: ConvSizes, tiles: Sequence[int] = (4, 2)) -> int:
        return 0

    def fuses_parts(self, parts: int, rows: int) -> bool:
        return False


REFERENCE = PlainTarget()
