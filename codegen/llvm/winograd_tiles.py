"""The tiles of Winograd's transforms that can compute a convolution, or the gradient of its weights."""

from __future__ import annotations

from ...ir.target import FEW_CHANNELS, ConvSizes
from ...ir.types import DType

_TILES: dict[tuple[int, ...], tuple[int, ...]] = {
    (3, 3): (4, 2),
    (4, 4): (3,),
    (5, 5): (3,),
    (3,): (4, 2),
    (5,): (3,),
    (7,): (3,),
}
"""Outputs of a tile along each axis with several taps, by the taps of these axes. Larger tiles take fewer multiply-adds
and round more: their errors would exceed three times that of direct convolution."""

GRADIENT_TILE = 4
"""The only tile for weight gradients: that of 2 saves little."""


def usable_tiles(sizes: ConvSizes) -> tuple[int, ...]:
    """The tiles that can compute a convolution, in float32 over two axes: with stride 1, or over the input after
    space-to-depth, for few channels (an image)."""
    plain = len(sizes.windows) == 2 and sizes.groups == 1 and sizes.dtype is sizes.accumulator is DType.F32
    dense = all((w.dilation, w.interior) == (1, 1) for w in sizes.windows)
    few, deep = sizes.is_strided, sizes.space_to_depth
    if not plain or not dense or sizes.filters < 16 or deep.channels < (12 if few else 16):
        return ()
    if few and (sizes.channels > FEW_CHANNELS or any(w.taps == 1 for w in deep.windows)):
        return ()
    return _TILES.get(tuple(w.taps for w in deep.windows if w.taps > 1), ())


def usable_gradient_tiles(sizes: ConvSizes) -> tuple[int, ...]:
    """The tiles that can compute the gradient of the weights."""
    square = all((w.taps, w.stride) == (3, 1) for w in sizes.windows)
    return (GRADIENT_TILE,) if square and usable_tiles(sizes) else ()
