"""Rules of Fourier transforms and of what surrounds them: products with matrices of sines and cosines."""

from __future__ import annotations

import numpy as np

from ....ir.dialects.core.builder import CoreBuilder
from ....ir.graph import Value
from .node import LARGEST_TABLE, OnnxNode, Unsupported, front, limited, rule


@rule("DFT")
def dft(n: OnnxNode) -> Value:
    x, b = n[0], n.b
    rank = x.type.rank
    axis = n.attr("axis", 1) if n.opset < 20 else int(n.known(2).ravel()[0]) if n.has(2) else -2
    axis = front(axis, rank)
    length = int(n.known(1).ravel()[0]) if n.has(1) else None
    inverse, onesided = bool(n.attr("inverse", 0)), bool(n.attr("onesided", 0))
    if inverse and onesided:
        return _real_inverse(b, x, axis, length)
    result = transformed(b, x, axis, length or x.type.shape[axis], inverse)
    if onesided:
        result = b.slice_axis(result, axis, 0, result.type.shape[axis] // 2 + 1)
    return result


def _real_inverse(b: CoreBuilder, x: Value, axis: int, length: int | None) -> Value:
    """The real signal of the first half of its spectrum."""
    half = x.type.shape[axis]
    length = length or 2 * (half - 1)
    used = length // 2 + 1
    limited((used, length), LARGEST_TABLE)
    x = _resized(b, x, axis, used)
    turns = np.outer(np.arange(used), np.arange(length)) * (2 * np.pi / length)
    twice = np.full((used, 1), 2.0)
    twice[0] = 1.0
    if length % 2 == 0:
        twice[-1] = 1.0
    real, imaginary = _parts(b, x)
    assert imaginary is not None
    total = b.sub(
        _product(b, real, twice * np.cos(turns) / length, axis),
        _product(b, imaginary, twice * np.sin(turns) / length, axis),
    )
    return b.expand_dims(total, -1)


def transformed(b: CoreBuilder, x: Value, axis: int, length: int, inverse: bool) -> Value:
    """The Fourier transform along an axis; the last axis has the real and imaginary parts."""
    limited((length, length), LARGEST_TABLE)
    real, imaginary = _parts(b, _resized(b, x, axis, length))
    turns = np.outer(np.arange(length), np.arange(length)) * (2 * np.pi / length)
    cosine, sine = np.cos(turns), np.sin(turns) * (1 if inverse else -1)
    if inverse:
        cosine, sine = cosine / length, sine / length
    first, second = _product(b, real, cosine, axis), _product(b, real, sine, axis)
    if imaginary is not None:
        first = b.sub(first, _product(b, imaginary, sine, axis))
        second = b.add(second, _product(b, imaginary, cosine, axis))
    return b.concat([b.expand_dims(first, -1), b.expand_dims(second, -1)], first.type.rank)


def _resized(b: CoreBuilder, x: Value, axis: int, length: int) -> Value:
    """Zeros appended, or elements cut off, along an axis."""
    high = [0] * x.type.rank
    high[axis] = length - x.type.shape[axis]
    return b.pad(x, b.constant(0, x.type.dtype), [0] * x.type.rank, high) if high[axis] else x


def _parts(b: CoreBuilder, x: Value) -> tuple[Value, Value | None]:
    """The real and the imaginary part."""
    last, count = x.type.rank - 1, x.type.shape[-1]
    if count not in (1, 2):
        raise Unsupported("the last axis must have one or two elements")
    parts = [b.squeeze(b.slice_axis(x, last, i, i + 1), (last,)) for i in range(count)]
    return parts[0], parts[1] if count == 2 else None


def _product(b: CoreBuilder, x: Value, matrix: np.ndarray, axis: int) -> Value:
    moved = b.dot(x, b.constant(matrix, x.type.dtype), (), (), (axis,), (0,))
    rank = x.type.rank
    return b.transpose(moved, [*range(axis), rank - 1, *range(axis, rank - 1)])


@rule("STFT")
def stft(n: OnnxNode) -> Value:
    """The transform of each frame of a signal (batch, length, 1 or 2)."""
    x, b = n[0], n.b
    step = int(n.known(1).ravel()[0])
    window = n.get(2)
    length = int(n.known(3).ravel()[0]) if n.has(3) else window.type.shape[0] if window is not None else 0
    _, extent, parts = x.type.shape
    count = 1 + (extent - length) // step
    limited((count, length), LARGEST_TABLE)
    places = np.arange(count)[:, None] * step + np.arange(length)
    frames = b.take(x, b.constant(places), 1)  # (batch, frames, length, parts)
    if window is not None:
        low = (length - window.type.shape[0]) // 2
        whole = b.pad(window, b.constant(0, window.type.dtype), [low], [length - window.type.shape[0] - low])
        frames = b.mul(frames, b.broadcast_along(whole, frames.type.shape, 2))
    result = transformed(b, frames, 2, length, False)
    return b.slice_axis(result, 2, 0, length // 2 + 1) if n.attr("onesided", 1) and parts == 1 else result
