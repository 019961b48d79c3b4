"""Operators that move blocks between channels and space: depth_to_space and space_to_depth."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...graph import Value
from ...types import Shape
from .operator import Operator, operator
from .parameters import Positive

if TYPE_CHECKING:
    from .builder import MxBuilder


def four_axes(x: Value) -> Shape:
    """The shape (N, C, H, W) of x. ValueError if it does not have 4 axes."""
    if x.type.rank != 4:
        raise ValueError(f"data must have 4 axes (N, C, H, W), got shape {x.type.shape}")
    return x.type.shape


def _four_axes_with_elements(x: Value) -> Shape:
    """The extents of (N, C, H, W). ValueError for an extent of 0, which MXNet rejects."""
    extents = four_axes(x)
    if 0 in extents:
        raise ValueError(f"no extent of data can be 0, got shape {extents}")
    return extents


@operator("depth_to_space")
class DepthToSpace(Operator):
    """Moves channels into blocks of positions.

    Args:
        data: (N, C * s^2, H, W), where s is `block_size`.
        block_size: The edge s of a block.
    Returns:
        (N, C, H * s, W * s).
    Example:
        >>> nd.depth_to_space(nd.array([1, 2, 3, 4]).reshape((1, 4, 1, 1)), block_size=2).asnumpy()[0, 0]
        array([[1., 2.],
               [3., 4.]], dtype=float32)
    """

    block_size: Positive

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        n, c, h, w = _four_axes_with_elements(inputs[0])
        s = self.block_size
        if c % (s * s):
            raise ValueError(f"{c} channels are not divisible by the square of block_size={s}")
        blocks = b.transpose(b.reshape(inputs[0], (n, s, s, c // (s * s), h, w)), (0, 3, 4, 1, 5, 2))
        return b.reshape(blocks, (n, c // (s * s), h * s, w * s))


@operator("space_to_depth")
class SpaceToDepth(Operator):
    """Moves blocks of positions into channels: the inverse of depth_to_space.

    Args:
        data: (N, C, H * s, W * s), where s is `block_size`.
        block_size: The edge s of a block.
    Returns:
        (N, C * s^2, H, W).
    Example:
        >>> nd.space_to_depth(nd.ones((1, 1, 4, 4)), block_size=2).shape
        (1, 4, 2, 2)
    """

    block_size: Positive

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        n, c, h, w = _four_axes_with_elements(inputs[0])
        s = self.block_size
        if h % s or w % s:
            raise ValueError(f"{h} x {w} positions are not divisible by block_size={s}")
        blocks = b.transpose(b.reshape(inputs[0], (n, c, h // s, s, w // s, s)), (0, 3, 5, 1, 2, 4))
        return b.reshape(blocks, (n, c * s * s, h // s, w // s))
