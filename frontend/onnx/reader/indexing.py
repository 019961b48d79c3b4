"""Rules of operators that read, write or order elements at positions."""

from __future__ import annotations

import numpy as np

from ....ir.dialects.core.builder import CoreBuilder
from ....ir.graph import Value
from ....ir.scalar import ReduceOp
from ....ir.types import DType
from .node import OnnxNode, Unsupported, front, limited, rule


def positions(b: CoreBuilder, indices: Value, extent: int) -> Value:
    """Indices counted from the front."""
    signed = indices if indices.type.dtype.is_signed else b.cast(indices, DType.I64)
    return b.select(b.lt(signed, 0), b.add(signed, extent), signed)


@rule("Gather")
def gather(n: OnnxNode) -> Value:
    x, b = n[0], n.b
    axis = n.axis(0, x.type.rank)
    return b.take(x, positions(b, n[1], x.type.shape[axis]), axis)


@rule("GatherND")
def gather_nd(n: OnnxNode) -> Value:
    x, indices, batch, b = n[0], n[1], n.attr("batch_dims", 0), n.b
    axes = tuple(range(batch, batch + indices.type.shape[-1]))
    return b.gather(x, _coordinates(b, indices, [x.type.shape[a] for a in axes]), axes, batch)


def _coordinates(b: CoreBuilder, indices: Value, extents: list[int]) -> Value:
    """Coordinates along the last axis, counted from the front."""
    sizes = b.broadcast_along(b.integers(extents, indices.type.dtype), indices.type.shape, -1)
    return b.select(b.lt(indices, 0), b.add(indices, sizes), indices)


def _grid(b: CoreBuilder, indices: Value, axis: int) -> Value:
    """Coordinates along all axes: the position itself, and `indices` along `axis`."""
    shape, dtype = indices.type.shape, indices.type.dtype
    columns = [indices if k == axis else b.iota(shape, dtype, k) for k in range(len(shape))]
    return b.concat([b.expand_dims(c, -1) for c in columns], len(shape))


@rule("GatherElements")
def gather_elements(n: OnnxNode) -> Value:
    x, b = n[0], n.b
    axis = n.axis(0, x.type.rank)
    return b.gather(x, _grid(b, positions(b, n[1], x.type.shape[axis]), axis), tuple(range(x.type.rank)))


_COMBINED = {"none": "set", "add": ReduceOp.ADD, "mul": ReduceOp.MUL, "max": ReduceOp.MAX, "min": ReduceOp.MIN}


def _combined(n: OnnxNode) -> str | ReduceOp:
    name = n.attr("reduction", "none")
    if name not in _COMBINED:
        raise Unsupported(f"reduction {name!r} is not supported")
    return _COMBINED[name]


@rule("Scatter", "ScatterElements")
def scatter_elements(n: OnnxNode) -> Value:
    x, b = n[0], n.b
    axis = n.axis(0, x.type.rank)
    where = _grid(b, positions(b, n[1], x.type.shape[axis]), axis)
    return b.scatter(x, where, n[2], _combined(n), tuple(range(x.type.rank)))


@rule("ScatterND")
def scatter_nd(n: OnnxNode) -> Value:
    x, indices, b = n[0], n[1], n.b
    count = indices.type.shape[-1]
    where = _coordinates(b, indices, list(x.type.shape[:count]))
    return b.scatter(x, where, n[2], _combined(n), tuple(range(count)))


@rule("OneHot")
def one_hot(n: OnnxNode) -> Value:
    b = n.b
    depth = int(n.known(1).ravel()[0])
    indices = positions(b, b.cast(n[0], DType.I64), depth)
    rank = indices.type.rank + 1
    axis = n.axis(-1, rank)
    shape = limited((*indices.type.shape[:axis], depth, *indices.type.shape[axis:]))
    others = [k for k in range(rank) if k != axis]
    hit = b.eq(b.broadcast(indices, shape, others), b.iota(shape, DType.I64, axis))
    off, on = (b.broadcast_to(b.slice(n[2], [j], [j + 1]), shape) for j in (0, 1))
    return b.select(hit, on, off)


@rule("CumSum", "CumProd")
def cumulative(n: OnnxNode) -> Value:
    x, b = n[0], n.b
    axis = front(int(n.known(1).ravel()[0]), x.type.rank)
    backward = bool(n.attr("reverse", 0))
    op, start = (ReduceOp.ADD, 0) if n.op_type == "CumSum" else (ReduceOp.MUL, 1)
    if n.attr("exclusive", 0):  # shift by one element
        extent, low, high = x.type.shape[axis], [0] * x.type.rank, [0] * x.type.rank
        low[axis], high[axis] = (-1, 1) if backward else (1, -1)
        x = b.pad(x, b.constant(start, x.type.dtype), low, high) if extent else x
    return b.cumulative(op, x, axis, backward)


@rule("TopK")
def top_k(n: OnnxNode) -> list[Value]:
    x, b = n[0], n.b
    axis = n.axis(-1, x.type.rank)
    count = (n.ints(1, "k") or [0])[0]
    order = b.argsort(x, axis, bool(n.attr("largest", 1)), None)
    order = b.slice_axis(order, axis, 0, count)
    return [b.take_along(x, order, axis), b.cast(order, DType.I64)]


@rule("ArgMax", "ArgMin")
def arg_reduce(n: OnnxNode) -> Value:
    x, b = n[0], n.b
    axis = n.axis(0, x.type.rank)
    kind = "max" if n.op_type == "ArgMax" else "min"
    if n.attr("select_last_index", 0):
        place = b.arg_reduce(kind, b.reverse(x, [axis]), axis)
        place = b.sub(b.full_like(place, x.type.shape[axis] - 1), place)
    else:
        place = b.arg_reduce(kind, x, axis)
    return b.expand_dims(place, axis) if n.attr("keepdims", 1) else place


@rule("NonZero", "Unique", "Compress", "NonMaxSuppression")
def sized_by_values(n: OnnxNode) -> Value:
    """Refused unless all operands are known."""
    if n.op_type == "NonZero" and n.names[0] in n.reader.known:
        return n.b.constant(np.array(np.nonzero(n.known(0)), np.int64))
    if n.op_type == "Compress" and n.names[1] in n.reader.known:
        x, axis = n[0], n.attr("axis")
        flat = n.b.reshape(x, (-1,)) if axis is None else x
        kept = np.flatnonzero(n.known(1)).astype(np.int64)
        return n.b.take(flat, n.b.constant(kept), 0 if axis is None else axis)
    raise Unsupported("the shape of the result depends on values of operands")


@rule("TensorScatter")
def tensor_scatter(n: OnnxNode) -> Value:
    """Write `update` into the cache at each batch element's own position along `axis`."""
    x, update, b = n[0], n[1], n.b
    axis, extent = n.axis(-2, x.type.rank), x.type.shape[n.axis(-2, x.type.rank)]
    shape = update.type.shape
    place = b.iota(shape, DType.I64, axis)
    if n.has(2):
        place = b.add(place, b.broadcast_along(b.cast(n[2], DType.I64), shape, 0))
    if n.attr("mode", "linear") == "circular":
        place = b.mod(place, extent)
    return b.scatter(x, _grid(b, place, axis), update, "set", tuple(range(len(shape))))
