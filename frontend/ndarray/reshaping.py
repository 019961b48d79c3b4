"""Computes the shape of a reshaped array from extents and MXNet's codes."""

from __future__ import annotations

from functools import lru_cache
from math import prod

from ..base_errors import ShapeError
from ..tracebacks import cause_of


@lru_cache(4096)
def reshaped(shape: tuple[int, ...], target: tuple[int, ...], reverse: bool) -> tuple[int, ...]:
    """The new shape of an array of `shape` after reshaping to `target`. ShapeError if the sizes differ."""
    extents = target
    if min(target, default=0) <= 0:
        from ...ir.dialects.mx.shape_ops import reshaped as decoded

        try:
            extents = tuple(decoded(shape, target, reverse))
        except ValueError as error:
            raise ShapeError(str(error)) from cause_of(error)
    if prod(extents) != prod(shape):
        raise ShapeError(f"cannot reshape an array of shape {shape}, of {prod(shape)} elements, into {target}")
    return extents
