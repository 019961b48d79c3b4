"""Rotations of images (C, H, W) and of batches of images (N, C, H, W)."""

from __future__ import annotations

from numbers import Number
from typing import Any

import numpy as np

from .. import ndarray as nd
from ..ndarray import NDArray


def imrotate(src: NDArray, rotation_degrees: Any, zoom_in: bool = False, zoom_out: bool = False) -> NDArray:
    """Rotate a float32 image (C, H, W), or each image of a batch (N, C, H, W), about its centre.

    Args:
        src: The images. TypeError unless they are float32.
        rotation_degrees: One angle, or for a batch also an array of one angle for each image.
        zoom_in: Magnify until no border is visible.
        zoom_out: Shrink until no corner is cut off. ValueError together with `zoom_in`.
    Returns:
        New images of the same shape, bilinear, zeros outside.
    """
    if zoom_in and zoom_out:
        raise ValueError("`zoom_in` and `zoom_out` cannot be both True")
    if src.dtype is not np.float32:
        raise TypeError("Only `float32` images are supported by this function")
    if src.ndim not in (3, 4):
        raise ValueError("Only 3D and 4D are supported by this function")
    if src.ndim == 3:
        if not isinstance(rotation_degrees, Number):
            raise TypeError("When a single image is passed the rotation angle is required to be a scalar.")
        return imrotate(src.expand_dims(axis=0), rotation_degrees, zoom_in, zoom_out)[0]
    if isinstance(rotation_degrees, Number):
        rotation_degrees = nd.array([rotation_degrees] * len(src), ctx=src.context)
    if len(src) != len(rotation_degrees):
        raise ValueError("The number of images must be equal to the number of rotation angles")
    radians = np.pi * rotation_degrees.asnumpy() / 180
    _, _, height, width = src.shape
    grid = _grid(radians[:, None, None], height, width)
    if zoom_in or zoom_out:
        grid *= _scale(np.abs(radians), height, width, zoom_out)[:, None, None, None]
    return nd.BilinearSampler(src, nd.array(grid, ctx=src.context))


def _grid(radians: np.ndarray, height: int, width: int) -> np.ndarray:
    """The source positions of all pixels, (N, 2, H, W): columns and rows, each from -1 to 1."""
    half_height, half_width = np.float32((height - 1) / 2), np.float32((width - 1) / 2)
    rows = np.arange(height, dtype=np.float32)[:, None] - half_height
    columns = np.arange(width, dtype=np.float32)[None] - half_width
    cos, sin = np.cos(radians), np.sin(radians)
    return np.stack([(columns * cos - rows * sin) / half_width, (columns * sin + rows * cos) / half_height], axis=1)


def _scale(angle: np.ndarray, height: int, width: int, zoom_out: bool) -> np.ndarray:
    """The factor of source positions by which the rotated frame fits around (`zoom_out`) or into the image."""
    size = np.array([width, height], np.float32)
    diagonal, corner = np.hypot(*size), np.arctan2(size[1], size[0])
    angles = np.stack([corner + angle, corner - angle])
    extents = np.stack([np.abs(diagonal * np.cos(angles)).max(0), np.abs(diagonal * np.sin(angles)).max(0)])
    if zoom_out:
        return (extents / size[:, None]).max(0).astype(np.float32)
    return (size[:, None] / extents).min(0).astype(np.float32)


def random_rotate(
    src: NDArray, angle_limits: tuple[float, float], zoom_in: bool = False, zoom_out: bool = False
) -> NDArray:
    """Rotate by random angles between two limits, in degrees, from NumPy's generator; see `imrotate`."""
    count = None if src.ndim == 3 else src.shape[0]
    angles: Any = np.random.uniform(*angle_limits, size=count)
    return imrotate(src, angles if count is None else nd.array(angles), zoom_in, zoom_out)
