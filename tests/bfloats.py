"""NumPy's side of tests of bfloat16, which NumPy lacks."""

from __future__ import annotations

import numpy as np


def rounded(x: np.ndarray) -> np.ndarray:
    """float32 values rounded to bfloat16, ties to even; other dtypes unchanged."""
    if x.dtype != np.float32:
        return x
    bits = x.view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)
