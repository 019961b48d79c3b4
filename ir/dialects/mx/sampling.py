"""Bilinear samples of data (N, C, H, W) at computed positions, in core."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...graph import Value
from ...types import DType, Shape

if TYPE_CHECKING:
    from .builder import MxBuilder


def affine_grid(b: MxBuilder, matrices: Value, size: Shape) -> Value:
    """(N, 6) -> (N, 2, *size): the image of a regular grid over [-1, 1] under each matrix."""
    n, (h, w) = matrices.type.shape[0], size
    y, x = np.meshgrid(np.linspace(-1, 1, h), np.linspace(-1, 1, w), indexing="ij")
    regular = np.stack([x.ravel(), y.ravel(), np.ones(h * w)])
    grid = b.contract(b.reshape(matrices, (n, 2, 3)), b.constant(regular, matrices.type.dtype), 2, 0)
    return b.reshape(grid, (n, 2, h, w))


def _coordinate(b: MxBuilder, grid: Value, which: int, extent: int) -> Value:
    """One coordinate of a grid as (N, positions), mapped from [-1, 1] to [0, extent - 1]."""
    n, _, h, w = grid.type.shape
    plane = b.reshape(b.slice_axis(grid, 1, which, which + 1), (n, h * w))
    return b.mul(b.mul(b.add(plane, 1), extent - 1), 0.5)  # exact, and integers can be symbolic


def _corner(b: MxBuilder, pixels: Value, width: int, y: Value, x: Value, weight: Value) -> Value:
    """Pixels (N, H * W, C) at integer positions times a weight, (N, positions, C); zero outside."""
    h, w = pixels.type.shape[1] // width, width
    inside = b.and_(b.and_(b.ge(y, 0), b.le(y, h - 1)), b.and_(b.ge(x, 0), b.le(x, w - 1)))
    below, aside = (b.cast(b.minimum(b.maximum(v, 0), n - 1), DType.I32) for v, n in ((y, h), (x, w)))
    corner = b.gather(pixels, b.expand_dims(b.add(b.mul(below, w), aside), 2), (1,), 1)
    kept = b.select(inside, weight, b.full_like(weight, 0))
    return b.mul(corner, b.broadcast(kept, corner.type.shape, (0, 1)))


def sample_at(b: MxBuilder, data: Value, y: Value, x: Value) -> Value:
    """(N, positions, C): data (N, C, H, W) interpolated between the four neighbours of positions (N, positions);
    neighbours outside are zero."""
    left, top = b.floor(x), b.floor(y)
    dx, dy = b.sub(x, left), b.sub(y, top)
    n, c, h, w = data.type.shape
    pixels = b.reshape(b.transpose(data, (0, 2, 3, 1)), (n, h * w, c))
    total: Value | None = None
    for row, column in ((0, 0), (0, 1), (1, 0), (1, 1)):
        weight = b.mul(dy if row else b.sub(1, dy), dx if column else b.sub(1, dx))
        part = _corner(b, pixels, w, b.add(top, row), b.add(left, column), weight)
        total = part if total is None else b.add(total, part)
    assert total is not None
    return total


def sample_at_grid(b: MxBuilder, data: Value, grid: Value) -> Value:
    """(N, C, *grid positions): data interpolated between its four neighbours; neighbours outside are zero."""
    n, c, h, w = data.type.shape
    x, y = _coordinate(b, grid, 0, w), _coordinate(b, grid, 1, h)
    total = sample_at(b, data, y, x)
    return b.reshape(b.transpose(total, (0, 2, 1)), (n, c, *grid.type.shape[2:]))
