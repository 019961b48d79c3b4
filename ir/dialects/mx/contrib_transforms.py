"""Linear transforms of the last axis: discrete Fourier transforms and count sketches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...graph import Value
from ...types import DType
from .operator import Operator, operator
from .parameters import Int

if TYPE_CHECKING:
    from .builder import MxBuilder


def _waves(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Cosines and sines of the angles 2 pi j k / count, for all pairs of positions j and frequencies k."""
    angles = 2 * np.pi * (np.outer(np.arange(count), np.arange(count)) % count) / count
    return np.cos(angles), np.sin(angles)


@operator("_contrib_fft")
class FFT(Operator):
    """The Fourier transform of the last axis.

        output[2k] + i * output[2k + 1] = sum_j data[j] * exp(-2 pi i j k / d)

    Args:
        data: (..., d).
        compute_size: Accepted for MXNet's programs; unused.
    Returns:
        (..., 2 * d), real and imaginary parts interleaved.
    """

    floats = True
    compute_size: Int = 128

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        """A product with a matrix: exact up to rounding, and fast for the usual extents of a few hundred."""
        (x,) = inputs
        count = x.type.shape[-1]
        cosines, sines = _waves(count)
        matrix = np.stack([cosines, -sines], -1).reshape(count, 2 * count)
        return b.contract(x, b.constant(matrix, x.type.dtype), x.type.rank - 1, 0)


@operator("_contrib_ifft")
class InverseFFT(Operator):
    """The real part of the inverse Fourier transform of the last axis, not divided by its length.

    Args:
        data: (..., 2 * d), real and imaginary parts interleaved.
        compute_size: Accepted for MXNet's programs; unused.
    Returns:
        (..., d).
    """

    floats = True
    compute_size: Int = 128

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        (x,) = inputs
        if x.type.shape[-1] % 2:
            raise ValueError(f"the last axis of data should have an even extent, got shape {x.type.shape}")
        cosines, sines = _waves(x.type.shape[-1] // 2)
        matrix = np.stack([cosines, -sines], 1).reshape(x.type.shape[-1], -1)
        return b.contract(x, b.constant(matrix, x.type.dtype), x.type.rank - 1, 0)


@operator("_contrib_count_sketch")
class CountSketch(Operator):
    """Projects rows to fewer numbers by summing signed elements.

        output[n, h[i]] += s[i] * data[n, i]

    Args:
        data: (N, d).
        h: (1, d), positions in the result.
        s: (1, d), signs.
        out_dim: Length of a row of the result.
        processing_batch_size: Accepted for MXNet's programs; unused.
    Returns:
        (N, out_dim).
    """

    floats = True
    inputs = ("data", "h", "s")
    out_dim: Int
    processing_batch_size: Int = 32

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        x, places, signs = inputs
        *lead, count = x.type.shape
        if places.type.size != count or signs.type.size != count:
            raise ValueError(
                f"h and s should have {count} numbers, got shapes {places.type.shape} and {signs.type.shape}"
            )
        rows = b.reshape(x, (-1, count)) if x.type.rank != 2 else x
        signed = b.mul(rows, b.broadcast_to(b.reshape(signs, (1, count)), rows.type.shape))
        at = b.reshape(b.cast(places, DType.I32), (count, 1))
        zeros = b.full((rows.type.shape[0], self.out_dim), 0, x.type.dtype)
        sketch = b.scatter(zeros, at, b.transpose(signed, (1, 0)), "add", (1,))
        return b.reshape(sketch, (*lead, self.out_dim))
