"""What passes know about a target: properties from which graphs are chosen, nothing about code generation."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Protocol

from .lazy_dataclass import dataclass
from .symbolic import deferred, is_symbolic
from .types import DType, TensorType

FEW_CHANNELS = 4
"""The most channels of an image, which stays row-major on every target."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvWindow:
    """One spatial axis of a convolution: `outputs` positions of a window of `taps` taps."""

    outputs: int
    taps: int
    stride: int
    dilation: int
    interior: int

    def tile(self, m: int) -> int:
        """The outputs that a tile has along this axis, if tiles have m outputs along each axis with several taps."""
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
    def of_class(self) -> ConvSizes:
        """The sizes, or of symbolic ones those of a class: convolutions of a network that decide by classes change
        their decisions at the same extents, so few programs serve all of them."""
        numbers = self.images, *(w.outputs for w in self.windows)
        if not any(map(is_symbolic, numbers)):
            return self
        images, *outputs = deferred(_class_of, *numbers)
        return replace(
            self,
            images=images,
            windows=tuple(replace(w, outputs=n) for w, n in zip(self.windows, outputs, strict=True)),
        )

    @property
    def is_strided(self) -> bool:
        return any(w.stride > 1 for w in self.windows)

    def tiles(self, m: int) -> int:
        """Number of tiles of m outputs along each axis with several taps, over all images."""
        return self.images * prod(-(-w.outputs // w.tile(m)) for w in self.windows)


def _class_of(images: int, *outputs: int) -> tuple[int, ...]:
    """Images and outputs of a class: all positions together are a power of four. Outputs of less than a tile stay,
    because the rest of a tile matters for them."""
    if min(outputs, default=0) < _FEW_OUTPUTS:
        return _power_of_four(images), *outputs
    positions = _power_of_four(images * prod(outputs))
    side = 1 << (positions.bit_length() - 1) // len(outputs)
    return 1, *[side] * (len(outputs) - 1), positions // side ** (len(outputs) - 1)


def _power_of_four(n: int) -> int:
    """The nearest power of four by ratio."""
    return 4 ** (n.bit_length() // 2)


_FEW_OUTPUTS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockedLayout:
    """The layout of tensors (N, C, *spatial) in which a target computes convolutions, and the costs from which passes
    choose between it and row-major memory. The unit of cost is one element in a vectorized read.

    `block` is the number of channels in a block; None means all channels of a tensor, which is channels-last.
    `dtypes` are those of the convolutions that kernels compute in blocks, `stored` those of all values in blocks.
    `weights`: convolutions read their weights (filters, C, *taps) in blocks, unless the data has few channels.
    `halos`: convolutions read padding from memory, so a value in blocks has a halo of zeros around its spatial axes.

    `copy` is the cost of an element that is read and written, `across` the additional cost of one that is read along
    one axis and written along another. `window_gradient` is the cost of an element of a window in the gradient of a
    maximum over windows of row-major memory; None if the target computes that gradient in row-major memory only.
    """

    block: int | None
    dtypes: frozenset[DType]
    stored: frozenset[DType]
    weights: bool
    halos: bool
    copy: int
    across: int
    window_gradient: int | None

    def block_of(self, type: TensorType) -> int:
        """Channels in a block of a value of this type."""
        return max(1, type.shape[1]) if self.block is None else self.block

    def relayout_cost(self, type: TensorType) -> int:
        """The cost of a copy between blocks and rows, including the padding of the last block."""
        n, c, *space = type.shape
        block = self.block_of(type)
        return (self.copy + self.across) * n * -(-c // block) * block * prod(space)

    def is_computed(self, type: TensorType) -> bool:
        """True if results of this type can be in blocks. (Operands of other dtypes can be in blocks after a
        relayout.)"""
        return type.rank >= 3 and type.dtype in self.stored

    def is_read(self, data: TensorType) -> bool:
        """True if convolutions read data of this type in blocks: all but few channels (an image)."""
        least = FEW_CHANNELS + 1 if self.block is None else self.block
        return data.dtype in self.dtypes and data.shape[1] >= least


class Capabilities(Protocol):
    """The part of a target that passes read."""

    @property
    def name(self) -> str:
        """The target's name in messages: "cpu", "gpu"."""
        ...

    @property
    def blocked_layout(self) -> BlockedLayout | None:
        """The layout around convolutions; None if every buffer is row-major."""
        ...

    @property
    def attention_bytes(self) -> int:
        """The most bytes of a query or a value for which the target computes attention and its gradients without
        weights in memory; 0 if it never does."""
        ...

    @property
    def slice_bytes(self) -> int:
        """The most bytes that a layer should read and write for one slice of a batch; 0 if batches are not sliced."""
        ...

    def conv_tile(self, sizes: ConvSizes, *, weight_gradient: bool) -> int:
        """The outputs along each axis with several taps that a convolution in blocks, or the gradient of its weights,
        computes together: it reads its input up to the end of the last tile. 1 if it reads only what its outputs
        need."""
        ...

    def fuses_column_pieces(self, pieces: int, rows: int) -> bool:
        """True if the target computes `pieces` equal pieces of the columns of a product with so many rows side by side,
        so that a function of the pieces is part of the product's kernel."""
        ...

    @property
    def joins_moves(self) -> bool:
        """True if one kernel moves elements along several index maps faster than a kernel for each of them."""
        ...

    @property
    def multiplies_csr(self) -> bool:
        """True if the target has kernels for products of matrices in compressed rows. Else they are scatters of all
        products of elements."""
        ...

    @property
    def finds_positions(self) -> bool:
        """True if the target has a kernel for the positions of extrema in rows of a stored tensor. Else they are
        reductions."""
        ...


@dataclass(frozen=True, slots=True)
class PlainTarget:
    """Capabilities of an interpreter: row-major memory and no kernels. For passes that run only on core graphs."""

    name: str = "reference"
    blocked_layout: BlockedLayout | None = None
    joins_moves: bool = False
    multiplies_csr: bool = False
    finds_positions: bool = False
    attention_bytes: int = 0
    slice_bytes: int = 0

    def conv_tile(self, sizes: ConvSizes, *, weight_gradient: bool) -> int:
        return 1

    def fuses_column_pieces(self, pieces: int, rows: int) -> bool:
        return False


REFERENCE = PlainTarget()
