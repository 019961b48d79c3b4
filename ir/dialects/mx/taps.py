"""Weighted sums of a few slices along an axis, as interpolation needs them, from tables of positions and weights."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ...graph import Value

if TYPE_CHECKING:
    from .builder import MxBuilder

Array = np.ndarray[Any, Any]
Taps = tuple[Array, Array]
"""Positions (taps, new extent) along the old axis, and weights of the same shape."""

_MOST = 16
"""The most taps of a gradient. With more it is a product with the matrix of weights."""


def blend(b: MxBuilder, x: Value, axis: int, taps: Taps) -> Value:
    """sum of weights[k, i] * x[positions[k, i]] along an axis. The gradient is such a sum too, and adds no element of
    memory twice."""
    return b.custom_gradient(partial(_blended, axis, taps), partial(_pulled, axis, taps), x)[0]


def _blended(axis: int, taps: Taps, b: MxBuilder, x: Value) -> Value:
    total: Value | None = None
    for positions, weights in zip(*taps, strict=True):
        part = b.take(x, b.constant(positions), axis)
        scale = b.broadcast_along(b.constant(weights, x.type.dtype), part.type.shape, axis)
        total = b.mul(part, scale) if total is None else b.add(total, b.mul(part, scale))
    assert total is not None
    return total


def _pulled(
    axis: int, taps: Taps, b: MxBuilder, operands: Sequence[Value], results: object, cotangents: Sequence[Value]
) -> Sequence[Value]:
    """The gradient with respect to x."""
    n = operands[0].type.shape[axis]
    back = transposed(taps, n)
    if len(back[0]) <= _MOST:
        return [_blended(axis, back, b, cotangents[0])]
    matrix = np.zeros((taps[0].shape[1], n))
    np.add.at(matrix, (np.broadcast_to(np.arange(len(matrix)), taps[0].shape), taps[0]), taps[1])
    return [multiply(b, cotangents[0], axis, b.constant(matrix, cotangents[0].type.dtype))]


def multiply(b: MxBuilder, x: Value, axis: int, matrix: Value) -> Value:
    """x with its elements along an axis multiplied by a matrix (old extent, new extent)."""
    y = b.contract(x, matrix, axis, 0)
    last = y.type.rank - 1
    return b.transpose(y, (*range(axis), last, *range(axis, last)))


def transposed(taps: Taps, n: int) -> Taps:
    """The taps of the transposed sums, which have `n` elements. Missing taps have the weight 0."""
    used = taps[1].ravel() != 0
    columns = np.tile(np.arange(len(taps[0][0])), len(taps[0]))
    old, new, weights = taps[0].ravel()[used], columns[used], taps[1].ravel()[used]
    order = np.lexsort((new, old))
    old, new, weights = old[order], new[order], weights[order]
    counts = np.bincount(old, minlength=n)
    rank = np.arange(len(old)) - np.repeat(np.cumsum(counts) - counts, counts)
    positions, shares = np.zeros((max(1, counts.max()), n), np.int64), np.zeros((max(1, counts.max()), n))
    positions[rank, old], shares[rank, old] = new, weights
    return positions, shares
