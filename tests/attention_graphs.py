"""Graphs with attention: a product, functions of the rows of its result, and a product of these."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from mxforge.ir.dialects.mx.builder import MxBuilder
from mxforge.ir.dialects.mx.contrib_attention import (
    InterleavedMatmulEncdecQK,
    InterleavedMatmulEncdecValatt,
    InterleavedMatmulSelfattQK,
    InterleavedMatmulSelfattValatt,
)
from mxforge.ir.dialects.mx.nn_softmax import Softmax
from mxforge.ir.graph import Graph, Value
from mxforge.ir.types import DType, TensorType

F32 = DType.F32
Function = Callable[[MxBuilder, Value], Value]


def softmax(b: MxBuilder, x: Value) -> Value:
    return Softmax(axis=-1).decompose(b, x)


def attention(
    shape: tuple[int, int, int] = (3, 50, 16),
    *,
    keys: int = 45,
    scores: Function = lambda b, x: x,
    weights: Function = softmax,
    dtype: DType = F32,
) -> Graph:
    """queries (heads, rows, width), keys, values -> weights(scores(queries . keys^T)) . values."""
    heads, rows, width = shape
    b = MxBuilder("attention")
    q, k, v = (b.input(TensorType((heads, n, width), dtype)) for n in (rows, keys, keys))
    x = weights(b, scores(b, b.dot(q, k, (0,), (0,), (2,), (2,))))
    return b.build([b.dot(x, v, (0,), (0,), (2,), (1,))])


def masked(b: MxBuilder, x: Value) -> Value:
    """x / 4 plus a mask for each column of each head."""
    heads, _, n = x.type.shape
    mask = b.input(TensorType((heads, 1, n), x.type.dtype))
    return b.add(b.mul(x, 0.25), b.broadcast_to(mask, x.type.shape))


def chosen(b: MxBuilder, x: Value) -> Value:
    """x where a mask for each row and column of all heads is not zero, else a low number."""
    mask = b.input(TensorType(x.type.shape[1:], DType.I32))
    chosen = b.gt(b.broadcast_to(b.reshape(mask, (1, *mask.type.shape)), x.type.shape), 12)
    return b.select(chosen, x, b.full_like(x, -1e4))


def causal(b: MxBuilder, x: Value) -> Value:
    row, column = (b.iota(x.type.shape, DType.I32, axis) for axis in (1, 2))
    return b.select(b.le(column, row), x, b.full_like(x, -1e4))


def with_lengths(b: MxBuilder, x: Value) -> Value:
    lengths = b.input(TensorType(x.type.shape[:-1], DType.I32))
    return Softmax(axis=-1, use_length=True).decompose(b, x, lengths)


def with_heads(b: MxBuilder, x: Value) -> Value:
    """The softmax of scores as (batch, heads, rows, columns) with a mask for each batch, as (batch * heads, ...)."""
    heads, rows, n = x.type.shape
    split = b.reshape(x, (heads // 3, 3, rows, n))
    mask = b.input(TensorType((heads // 3, 1, 1, n), x.type.dtype))
    weights = softmax(b, b.add(split, b.broadcast_to(mask, split.type.shape)))
    return b.reshape(weights, x.type.shape)


def heads_of_a_layer(batch: int, time: int, heads: int, width: int, dtype: DType = F32) -> Graph:
    """The attention of a BERT layer: (batch, time, 3 * heads * width), the projections, -> (batch, time, heads *
    width)."""
    b = MxBuilder("layer")
    x = b.input(TensorType((batch, time, 3 * heads * width), dtype))
    parts = [b.slice_axis(x, 2, k * heads * width, (k + 1) * heads * width) for k in range(3)]
    split = [b.transpose(b.reshape(p, (batch, time, heads, width)), (0, 2, 1, 3)) for p in parts]
    q, k, v = (b.reshape(s, (batch * heads, time, width)) for s in split)
    weights = softmax(b, b.mul(b.dot(q, k, (0,), (0,), (2,), (2,)), width**-0.5))
    mixed = b.reshape(b.dot(weights, v, (0,), (0,), (2,), (1,)), (batch, heads, time, width))
    return b.build([b.reshape(b.transpose(mixed, (0, 2, 1, 3)), (batch, time, heads * width))])


def interleaved_self(time: int, batch: int, heads: int, width: int, dtype: DType = F32) -> Graph:
    b = MxBuilder("self")
    x = b.input(TensorType((time, batch, heads * 3 * width), dtype))
    weights = softmax(b, InterleavedMatmulSelfattQK(heads=heads).decompose(b, x))
    return b.build([InterleavedMatmulSelfattValatt(heads=heads).decompose(b, x, weights)])


def interleaved_encdec(time: int, keys: int, batch: int, heads: int, width: int) -> Graph:
    b = MxBuilder("encdec")
    q = b.input(TensorType((time, batch, heads * width), F32))
    kv = b.input(TensorType((keys, batch, heads * 2 * width), F32))
    weights = softmax(b, InterleavedMatmulEncdecQK(heads=heads).decompose(b, q, kv))
    return b.build([InterleavedMatmulEncdecValatt(heads=heads).decompose(b, kv, weights)])


def arrays_of(graph: Graph) -> list[np.ndarray]:
    """Normal numbers for floats, and lengths from 1 for integers."""
    rng = np.random.default_rng(0)
    return [
        rng.standard_normal(t.shape).astype(t.dtype.numpy)
        if t.dtype.is_float
        else rng.integers(1, 40, t.shape).astype(t.dtype.numpy)
        for t in graph.input_types()
    ]
