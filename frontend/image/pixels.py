"""The memory of images: NumPy arrays for OpenCV and NumPy, instead of a compiled program for each size of image."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..context import cpu
from ..ndarray import NDArray, empty
from ..ndarray.tape import is_recorded

_HOST = cpu()


def memory_of(src: NDArray) -> np.ndarray | None:
    """The memory of a dense array with 3 axes on the host, or None for other arrays and for recorded ones, which only
    operators can change."""
    if src.stype != "default" or src.ndim != 3 or src.context.device_type == "gpu" or is_recorded((src,)):
        return None
    return src._memory()


def colors_of(src: NDArray) -> np.ndarray | None:
    """Like `memory_of`, but None also for arrays other than float32 (H, W, 3) with at least one pixel."""
    memory = memory_of(src) if src.dtype == np.float32 else None
    return memory if memory is not None and memory.shape[2] == 3 and memory.size else None


def empty_like(colors: np.ndarray) -> NDArray:
    """An array of the shape of a float32 image, with uninitialized elements."""
    return empty(colors.shape, ctx=_HOST)


def change_channels(ufunc: np.ufunc, colors: np.ndarray, values: np.ndarray) -> None:
    """Apply a function such as `np.add` to a float32 image and one number, or one for each channel, in place."""
    height, width, channels = colors.shape
    row = np.tile(np.broadcast_to(values.ravel().astype(np.float32), (channels,)), width)
    rows = colors.reshape(height, width * channels)  # NumPy is slow if the last axis has 3 elements
    ufunc(rows, row, out=rows)


def image_from(pixels: np.ndarray, dtype: Any = None) -> NDArray:
    """An array with a copy of these elements, in their dtype unless another is given.

    It is a copy because the memory of arrays is reused: the system's allocator maps new pages for each large image.
    """
    image = empty(pixels.shape, ctx=_HOST, dtype=pixels.dtype if dtype is None else dtype)
    image._memory()[...] = pixels
    return image
