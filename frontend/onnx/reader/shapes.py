"""Rules of operators that create tensors, or change their shape or the order of their elements."""

from __future__ import annotations

from itertools import accumulate
from math import prod

import numpy as np

from ....ir.dialects.core.builder import broadcast_shape
from ....ir.graph import Value
from ....ir.symbolic import is_symbolic
from ....ir.types import DType
from .node import LARGEST_TABLE, Known, OnnxNode, Result, Unsupported, dtype_of, front, integers, limited, rule
from .tensors import array_of


@rule("Constant")
def constant(n: OnnxNode) -> Known:
    for key, dtype in (("value_float", np.float32), ("value_floats", np.float32)):
        if key in n.attributes:
            return np.asarray(n.attributes[key], dtype)
    for key in ("value_int", "value_ints"):
        if key in n.attributes:
            return np.asarray(n.attributes[key], np.int64)
    if "value" not in n.attributes:
        raise Unsupported("only numbers can be constants, not strings and sparse tensors")
    return array_of(n.attributes["value"])


@rule("Shape")
def shape_of(n: OnnxNode) -> Known:
    shape = n[0].type.shape if n.names[0] not in n.reader.known else n.known(0).shape
    part = shape[n.attr("start", 0) : n.attr("end")]
    if any(map(is_symbolic, part)):
        array = np.empty(len(part), object)
        array[:] = part
        return array
    return np.array(part, np.int64)


@rule("Size")
def size_of(n: OnnxNode) -> Known:
    return np.array(n[0].type.size, np.int64)


@rule("ConstantOfShape")
def constant_of_shape(n: OnnxNode) -> Result:
    value = array_of(n.attributes["value"]) if "value" in n.attributes else np.zeros(1, np.float32)
    shape = limited(integers(n.known(0)))
    if value.size != 1:
        raise Unsupported("the value must have one element")
    if any(map(is_symbolic, shape)):
        return n.b.full(tuple(shape), value.ravel()[0], DType.from_numpy(value.dtype))
    return np.broadcast_to(value.reshape(()), shape)


@rule("Range")
def arange(n: OnnxNode) -> Known:
    start, limit, delta = (n.known(i).ravel()[0] for i in range(3))
    if is_zero(delta):
        raise Unsupported("the step is 0")
    if any(map(is_symbolic, (start, limit, delta))):
        start, limit, delta = int(start), int(limit), int(delta)
        return np.arange(start, limit, delta, dtype=np.int64)
    count = max(0, int(np.ceil((limit.astype(np.float64) - start) / delta)))
    limited((count,), LARGEST_TABLE)
    return (start + np.arange(count) * delta).astype(n.known(0).dtype)


@rule("EyeLike")
def eye_like(n: OnnxNode) -> Value:
    t = n[0].type
    dtype = dtype_of(n.attr("dtype")) if "dtype" in n.attributes else t.dtype
    return n.b.constant(np.eye(*limited(t.shape, LARGEST_TABLE), k=n.attr("k", 0)), dtype)


@rule("Reshape")
def reshape(n: OnnxNode) -> Value:
    x = n[0]
    extents = n.ints(1, "shape") or []
    if not n.attr("allowzero", 0):
        extents = [x.type.shape[i] if is_zero(e) else e for i, e in enumerate(extents)]
    unknown = [i for i, e in enumerate(extents) if not is_symbolic(e) and e == -1]
    if unknown:
        rest = prod(e for i, e in enumerate(extents) if i != unknown[0])
        extents[unknown[0]] = x.type.size // rest if not is_zero(rest) else 0
    if prod(extents) != x.type.size:
        raise Unsupported(f"a tensor of shape {x.type.shape} cannot have the shape {tuple(extents)}")
    return n.b.reshape(x, tuple(extents))


def is_zero(extent: int) -> bool:
    """True for a plain 0: extents that vary are not."""
    return not is_symbolic(extent) and extent == 0


@rule("Flatten")
def flatten(n: OnnxNode) -> Value:
    x = n[0]
    axis = n.attr("axis", 1)
    shape = x.type.shape
    axis = axis + len(shape) if axis < 0 else axis
    return n.b.reshape(x, (prod(shape[:axis]), prod(shape[axis:])))


@rule("Transpose")
def transpose(n: OnnxNode) -> Value:
    return n.b.transpose(n[0], n.attr("perm"))


@rule("Squeeze")
def squeeze(n: OnnxNode) -> Value:
    return n.b.squeeze(n[0], n.ints(1, "axes"))


@rule("Unsqueeze")
def unsqueeze(n: OnnxNode) -> Value:
    x, axes = n[0], n.ints(1, "axes") or []
    rank = x.type.rank + len(axes)
    new, extents = {front(a, rank) for a in axes}, iter(x.type.shape)
    return n.b.reshape(x, tuple(1 if k in new else next(extents) for k in range(rank)))


@rule("Expand")
def expand(n: OnnxNode) -> Value:
    x = n[0]
    return n.b.broadcast_to(x, limited(broadcast_shape(x.type.shape, tuple(integers(n.known(1))))))


@rule("Tile")
def tile(n: OnnxNode) -> Value:
    """Each axis is broadcast along a new one before it."""
    x, repeats = n[0], integers(n.known(1))
    shape = x.type.shape
    limited([r * e for r, e in zip(repeats, shape, strict=True)])
    wide = [e for pair in zip(repeats, shape, strict=True) for e in pair]
    spread = n.b.broadcast(x, wide, range(1, 2 * len(shape), 2))
    return n.b.reshape(spread, tuple(r * e for r, e in zip(repeats, shape, strict=True)))


@rule("Concat")
def concat(n: OnnxNode) -> Value:
    xs = n.operands()
    return n.b.concat(xs, n.axis(1, xs[0].type.rank))


@rule("Slice")
def slice_(n: OnnxNode) -> Value:
    x = n[0]
    rank, shape = x.type.rank, x.type.shape
    starts, ends = n.ints(1, "starts") or [], n.ints(2, "ends") or []
    axes, steps = n.ints(3, "axes") or list(range(len(starts))), n.ints(4, "steps") or [1] * len(starts)
    low, high, step, reversed_axes = [0] * rank, list(shape), [1] * rank, []
    for start, end, axis, stride in zip(starts, ends, axes, steps, strict=True):
        k = front(axis, rank)
        low[k], high[k], step[k] = _bounds(start, end, stride, shape[k])
        if stride < 0:
            reversed_axes.append(k)
    return n.b.reverse(n.b.slice(x, low, high, step), reversed_axes)


def _bounds(start: int, end: int, stride: int, extent: int) -> tuple[int, int, int]:
    """The bounds of a slice with a positive step; of a negative one those of the reversed slice."""
    if is_symbolic(extent) and stride == 1 and not is_symbolic(end) and end >= 2**31 - 1:
        return (start if start >= 0 else extent + start), extent, 1
    first, last, stride = slice(start, end, stride).indices(extent)
    count = len(range(first, last, stride))
    if not count:
        return 0, 0, 1
    return (first, last, stride) if stride > 0 else (first + (count - 1) * stride, first + 1, -stride)


@rule("Split")
def split(n: OnnxNode) -> list[Value]:
    x = n[0]
    axis = n.axis(0, x.type.rank)
    sizes, extent, count = n.ints(1, "split"), x.type.shape[axis], len(n.results)
    if sizes is None:
        each = -(-extent // count)
        sizes = [min(each, max(extent - i * each, 0)) for i in range(count)]
    ends = list(accumulate(sizes))
    return [n.b.slice_axis(x, axis, end - size, end) for size, end in zip(sizes, ends, strict=True)]


@rule("Pad")
def pad(n: OnnxNode) -> Value:
    x, pads, mode, b = n[0], n.ints(1, "pads") or n.attr("paddings") or [], n.attr("mode", "constant"), n.b
    rank, half = x.type.rank, len(pads) // 2
    axes = [front(a, rank) for a in (integers(n.known(3)) if n.has(3) else range(rank))]
    low, high = [0] * rank, [0] * rank
    for i, axis in enumerate(axes):
        low[axis], high[axis] = pads[i], pads[half + i]
    limited([e + p + q for e, p, q in zip(x.type.shape, low, high, strict=True)])
    if mode == "constant":
        fill = n.get(2)
        value = b.constant(n.attr("value", 0.0), x.type.dtype) if fill is None else b.reshape(fill, ())
        return b.pad(x, value, low, high)
    for axis in range(rank):
        if low[axis] or high[axis]:
            positions = np.arange(x.type.shape[axis])
            limited((len(positions) + max(low[axis], 0) + max(high[axis], 0),), LARGEST_TABLE)
            wide = np.pad(positions, (max(low[axis], 0), max(high[axis], 0)), mode)  # type: ignore[call-overload]
            kept = wide[max(-low[axis], 0) : len(wide) - max(-high[axis], 0)]
            x = b.take(x, b.constant(kept.astype(np.int64)), axis)
    return x


@rule("Trilu")
def trilu(n: OnnxNode) -> Value:
    x, b = n[0], n.b
    k = int(n.known(1).ravel()[0]) if n.has(1) else 0
    shape = x.type.shape[-2:]
    row, column = (b.iota(shape, DType.I64, axis) for axis in (0, 1))
    distance = b.sub(column, row)
    kept = b.ge(distance, k) if n.attr("upper", 1) else b.le(distance, k)
    return b.select(b.broadcast_to(kept, x.type.shape), x, b.full_like(x, 0))


@rule("DepthToSpace")
def depth_to_space(n: OnnxNode) -> Value:
    x, size, b = n[0], n.attr("blocksize"), n.b
    batch, channels, height, width = x.type.shape
    rest = channels // (size * size)
    if n.attr("mode", "DCR") == "DCR":
        y = b.transpose(b.reshape(x, (batch, size, size, rest, height, width)), (0, 3, 4, 1, 5, 2))
    else:
        y = b.transpose(b.reshape(x, (batch, rest, size, size, height, width)), (0, 1, 4, 2, 5, 3))
    return b.reshape(y, (batch, rest, height * size, width * size))


@rule("SpaceToDepth")
def space_to_depth(n: OnnxNode) -> Value:
    x, size, b = n[0], n.attr("blocksize"), n.b
    batch, channels, height, width = x.type.shape
    parts = b.reshape(x, (batch, channels, height // size, size, width // size, size))
    if n.attr("mode", "DCR") == "DCR":
        order = (0, 3, 5, 1, 2, 4)
    else:
        order = (0, 1, 3, 5, 2, 4)
    return b.reshape(b.transpose(parts, order), (batch, channels * size * size, height // size, width // size))


@rule("ReverseSequence")
def reverse_sequence(n: OnnxNode) -> Value:
    """Element t of each sequence is its element `length - 1 - t`; elements after the end stay."""
    x, lengths, b = n[0], n.b.cast(n[1], DType.I64), n.b
    batch, time = n.attr("batch_axis", 1), n.attr("time_axis", 0)
    place = b.iota(x.type.shape, DType.I64, time)
    ends = b.broadcast_along(lengths, x.type.shape, batch)
    return b.take_along(x, b.select(b.lt(place, ends), b.sub(b.sub(ends, 1), place), place), time)
