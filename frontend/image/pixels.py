"""The memory of images: NumPy arrays for OpenCV and NumPy, instead of a compiled program for each size of image."""

from __future__ import annotations

import numpy as np

from ..ndarray import NDArray, from_numpy
from ..ndarray.tape import is_recorded


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


def image_from(pixels: np.ndarray) -> NDArray:
    """An array with these elements and this dtype. It takes over the memory of `pixels` if it is contiguous."""
    return from_numpy(np.ascontiguousarray(pixels))
