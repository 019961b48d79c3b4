"""The largest difference between the outputs of two programs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .errors import ToolError


def difference(ours: Sequence[np.ndarray], theirs: Sequence[np.ndarray], engine: str) -> float:
    """The largest difference of any element, relative to the output's largest element; infinite if an element is finite
    on only one side. ToolError if the shapes of the outputs differ.
    """
    if [a.shape for a in ours] != [a.shape for a in theirs]:
        raise ToolError(
            f"{engine}: outputs have shapes {[a.shape for a in theirs]}, those of mxforge {[a.shape for a in ours]}"
        )
    return max((_difference(a, b) for a, b in zip(ours, theirs, strict=True)), default=0.0)


def _difference(ours: np.ndarray, theirs: np.ndarray) -> float:
    if not ours.size:
        return 0.0
    a, b = ours.astype(np.float64), theirs.astype(np.float64)
    odd = ~(np.isfinite(a) & np.isfinite(b))
    if not np.array_equal(a[odd], b[odd], equal_nan=True):
        return float("inf")
    a, b = np.where(odd, 0, a), np.where(odd, 0, b)
    scale = float(np.abs(b).max())
    worst = float(np.abs(a - b).max())
    return worst / scale if scale else worst
