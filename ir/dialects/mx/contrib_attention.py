"""Matrix products of multi-head attention on interleaved projections (time, batch, heads * parts * width)."""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING

from ...graph import Value
from .operator import Operator, operator
from .parameters import Positive

if TYPE_CHECKING:
    from .builder import MxBuilder


def head_part(b: MxBuilder, x: Value, heads: int, parts: int, part: int, *, divided: bool = False) -> Value:
    """One of the projections interleaved in x, as (time, batch * heads, width); `divided` by the square root of the
    width."""
    time, batch, channels = x.type.shape
    width, left = divmod(channels, heads * parts)
    if left:
        raise ValueError(f"{channels} channels are not divisible by {heads} heads with {parts} projections")
    split = b.reshape(x, (time, batch, heads, parts, width))
    picked = b.slice_axis(split, 3, part, part + 1)
    return b.reshape(b.mul(picked, 1 / sqrt(width)) if divided else picked, (time, batch * heads, width))


def scores(b: MxBuilder, queries: Value, keys: Value) -> Value:
    """Queries times keys, of each head: (batch * heads, queries, keys)."""
    return b.dot(queries, keys, (1,), (1,), (2,), (2,))


def weighted(b: MxBuilder, attention: Value, values: Value, heads: int) -> Value:
    """Attention times values, as (time, batch, heads * width)."""
    rows = b.dot(attention, values, (0,), (1,), (2,), (0,))
    count, time, width = rows.type.shape
    split = b.reshape(rows, (count // heads, heads, time, width))
    return b.reshape(b.transpose(split, (2, 0, 1, 3)), (time, count // heads, heads * width))


@operator("_contrib_interleaved_matmul_selfatt_qk")
class InterleavedMatmulSelfattQK(Operator):
    """The scores of self attention.

        output = queries . keys^T / sqrt(width), for each head of each instance

    Args:
        queries_keys_values: (time, batch, heads * 3 * width): the query, key and value of each head are interleaved.
        heads: Number of heads.
    Returns:
        (batch * heads, time, time).
    """

    floats = True
    inputs = ("queries_keys_values",)
    heads: Positive

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        queries = head_part(b, inputs[0], self.heads, 3, 0, divided=True)
        return scores(b, queries, head_part(b, inputs[0], self.heads, 3, 1))


@operator("_contrib_interleaved_matmul_selfatt_valatt")
class InterleavedMatmulSelfattValatt(Operator):
    """The values of self attention, weighted.

        output = attention . values, for each head of each instance

    Args:
        queries_keys_values: (time, batch, heads * 3 * width): the query, key and value of each head are interleaved.
        attention: (batch * heads, time, time), the weights.
        heads: Number of heads.
    Returns:
        (time, batch, heads * width).
    """

    floats = True
    inputs = ("queries_keys_values", "attention")
    heads: Positive

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        return weighted(b, inputs[1], head_part(b, inputs[0], self.heads, 3, 2), self.heads)


@operator("_contrib_interleaved_matmul_encdec_qk")
class InterleavedMatmulEncdecQK(Operator):
    """The scores of attention from a decoder to an encoder.

        output = queries . keys^T / sqrt(width), for each head of each instance

    Args:
        queries: (time, batch, heads * width).
        keys_values: (encoder time, batch, heads * 2 * width): the key and value of each head are interleaved.
        heads: Number of heads.
    Returns:
        (batch * heads, time, encoder time).
    """

    floats = True
    inputs = ("queries", "keys_values")
    heads: Positive

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        queries = head_part(b, inputs[0], self.heads, 1, 0, divided=True)
        return scores(b, queries, head_part(b, inputs[1], self.heads, 2, 0))


@operator("_contrib_interleaved_matmul_encdec_valatt")
class InterleavedMatmulEncdecValatt(Operator):
    """The values of an encoder, weighted by attention.

        output = attention . values, for each head of each instance

    Args:
        keys_values: (encoder time, batch, heads * 2 * width): the key and value of each head are interleaved.
        attention: (batch * heads, time, encoder time), the weights.
        heads: Number of heads.
    Returns:
        (time, batch, heads * width).
    """

    floats = True
    inputs = ("keys_values", "attention")
    heads: Positive

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        return weighted(b, inputs[1], head_part(b, inputs[0], self.heads, 2, 1), self.heads)
