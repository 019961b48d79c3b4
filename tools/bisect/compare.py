"""Compares the values of a tensor with those expected, up to rounding."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import Any

import numpy as np

from ...ir.dialects.core.numerics import round_bfloat16
from ...ir.lazy_dataclass import dataclass
from ...ir.types import DType, TensorType

Array = np.ndarray[Any, Any]

EPSILON = {DType.F16: 2.0**-10, DType.BF16: 2.0**-7, DType.F32: 2.0**-23, DType.F64: 2.0**-52}
"""The distance from 1 to the next number of each dtype of floats."""


@dataclass(frozen=True)
class Difference:
    """How the values of a tensor differ from those expected.

    `largest` and `allowed` are in units of the largest element expected. `count` elements differ by more than that and
    their noise; at `index`, the first of them, is `found` instead of `expected`. Numbers that are not floats must be
    equal. `largest` is infinite if an element is finite on only one side.
    """

    name: str
    type: TensorType
    largest: float
    allowed: float
    count: int
    index: tuple[int, ...]
    found: float
    expected: float

    @property
    def is_wrong(self) -> bool:
        """True if an element differs by more than is allowed."""
        return self.count > 0

    def text(self) -> str:
        """The difference in words."""
        what = f"{self.name} {self.type.description}" if self.name else self.type.description
        shown = f"expected {self.expected:.9g}, found {self.found:.9g}"
        where = f"{self.count} of {self.type.size} elements, first at {list(self.index)}: {shown}"
        if not self.type.dtype.is_float:
            return f"{what} differs in {where}"
        return f"{what} differs by {self.largest:.1e} of its largest element (allowed {self.allowed:.1e}), in {where}"


def tolerance(dtype: DType, requested: float | None = None) -> float:
    """The difference of floats that counts as rounding, in units of the largest element: half of the digits of the
    dtype, unless it is `requested`. 0 for other dtypes."""
    if not dtype.is_float:
        return 0.0
    return sqrt(EPSILON[dtype]) if requested is None else requested


def in_dtype(values: Array, dtype: DType) -> Array:
    """The values as the interpreter takes them: numbers of the dtype; float32 for BF16."""
    if dtype is DType.BF16:
        return round_bfloat16(np.asarray(values, np.float32))
    return np.asarray(values).astype(dtype.numpy)


def compare(
    name: str,
    type: TensorType,
    actual: Array,
    expected: Array,
    noise: Array | float = 0.0,
    requested: float | None = None,
) -> Difference:
    """The difference of two arrays of this type. Floats may differ by `tolerance` of the largest element, and each
    element by its `noise` in addition, see `rounding_noise`."""
    wide_found, wide = (np.asarray(a, np.float64) for a in (actual, expected))
    with np.errstate(all="ignore"):
        distance = np.abs(wide_found - wide)
    same = (actual == expected) | (np.isnan(wide_found) & np.isnan(wide))
    distance = np.where(same, 0.0, np.where(np.isfinite(distance), distance, np.inf))
    limit = tolerance(type.dtype, requested)
    scale = float(np.max(np.abs(wide), initial=0.0, where=np.isfinite(wide)))
    wrong = distance > limit * scale + noise
    index = tuple(map(int, np.unravel_index(np.argmax(wrong), wrong.shape))) if wrong.any() else ()
    at = (float(wide_found[index]), float(wide[index])) if wrong.any() else (0.0, 0.0)
    return Difference(
        name, type, float(distance.max(initial=0.0)) / (scale or 1.0), limit, int(wrong.sum()), index, *at
    )


def worst(differences: Sequence[Difference]) -> Difference | None:
    """The first that is wrong; else the one that is nearest to what is allowed. None for no differences."""
    wrong = [d for d in differences if d.is_wrong]
    return wrong[0] if wrong else max(differences, key=lambda d: d.largest / (d.allowed or 1.0), default=None)
