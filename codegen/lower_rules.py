"""The table `RULES` that lowers each primitive of a region to a kernel expression at an index."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from ..ir.dialects.core import (
    Broadcast,
    Cast,
    Constant,
    Conv,
    ConvWeightGradient,
    Dot,
    Gather,
    Iota,
    Pad,
    Pointwise,
    RandomBits,
    Reduce,
    ReduceWindow,
    Relayout,
    Reshape,
    Reverse,
    Size,
    Slice,
    Transpose,
)
from ..ir.graph import GraphError, Node, Op, Value
from ..ir.kernel import Affine, Const, Contract, Expr, Index, Ref, Scalar, Window, affine, index_value
from ..ir.kernel import Cast as CastExpr
from ..ir.kernel import Reduce as ReduceExpr
from ..ir.scalar import ScalarOp
from ..ir.types import DType
from .lower_contract import dilated_load, sum_dtype
from .lower_random import philox_word
from .lower_reshape import reshaped_index


class Region(Protocol):
    """The interface of a region during lowering that rules use. `rows` is set if all reductions share their axes. In
    attention, several axes can count the groups of a product."""

    rows: tuple[tuple[int, ...], tuple[int, ...]] | None
    is_attention: bool

    def read(self, value: Value, index: Index) -> Expr: ...

    def local(self, expr: Expr, index: Index) -> Ref: ...

    def inner_axes(self, node: Node, extents: Sequence[int]) -> Sequence[str]: ...

    def input_name(self, value: Value) -> str | None: ...

    def new_axes(self, extents: Sequence[int]) -> list[str]: ...

    def reduced_axes(self, axes: Sequence[int], shape: Sequence[int]) -> Sequence[str]: ...

    def axes_of(self, index: Index) -> Sequence[str]: ...

    def extent(self, axis: str) -> int: ...


Rule = Callable[[Region, Node, Index], Expr]


def _shift(index: Affine | Expr, scale: int, offset: int) -> Affine | Expr:
    """index * scale + offset."""
    if isinstance(index, Affine):
        return Affine(tuple((a, c * scale) for a, c in index.terms), index.offset * scale + offset)
    scaled = index if scale == 1 else Scalar(ScalarOp.MUL, (index, Const(scale, DType.I64)))
    return scaled if offset == 0 else Scalar(ScalarOp.ADD, (scaled, Const(offset, DType.I64)))


def _pointwise(low: Region, node: Node, index: Index) -> Expr:
    assert isinstance(node.op, Pointwise)
    return Scalar(node.op.op, tuple(low.read(v, index) for v in node.inputs))


def _cast(low: Region, node: Node, index: Index) -> Expr:
    assert isinstance(node.op, Cast)
    return CastExpr(node.op.dtype, low.read(node.inputs[0], index))


def _constant(low: Region, node: Node, index: Index) -> Expr:
    assert isinstance(node.op, Constant)
    return Const(node.op.value.item(), node.outputs[0].type.dtype)


def _size(low: Region, node: Node, index: Index) -> Expr:
    assert isinstance(node.op, Size)
    return Const(node.op.value, node.op.dtype)


def _iota(low: Region, node: Node, index: Index) -> Expr:
    assert isinstance(node.op, Iota)
    return _index_value(index[node.op.axis], node.op.dtype)


def _index_value(index: Affine | Expr, dtype: DType) -> Expr:
    """An index as a number of `dtype`."""
    value = index_value(index)
    return value if dtype is DType.I64 else CastExpr(dtype, value)


def _random_bits(low: Region, node: Node, index: Index) -> Expr:
    """The word of the stream at the element's row-major position."""
    position: Expr = Const(0, DType.I64)
    for i, n in zip(index, node.outputs[0].type.shape, strict=True):
        scaled = Scalar(ScalarOp.MUL, (position, Const(n, DType.I64)))
        position = Scalar(ScalarOp.ADD, (scaled, _index_value(i, DType.I64)))
    words = [low.read(node.inputs[0], (Affine((), word),)) for word in range(4)]
    return philox_word(words, position, lambda e: low.local(e, index))


def _broadcast(low: Region, node: Node, index: Index) -> Expr:
    assert isinstance(node.op, Broadcast)
    source = node.inputs[0]
    mapped = tuple(Affine() if n == 1 else index[a] for n, a in zip(source.type.shape, node.op.axes, strict=True))
    return low.read(source, mapped)


def _reshape(low: Region, node: Node, index: Index) -> Expr:
    x = node.inputs[0]
    return low.read(x, reshaped_index(index, node.outputs[0].type.shape, x.type.shape, low.extent))


def _transpose(low: Region, node: Node, index: Index) -> Expr:
    assert isinstance(node.op, Transpose)
    mapped: list[Affine | Expr] = [Affine()] * len(index)
    for i, p in zip(index, node.op.permutation, strict=True):
        mapped[p] = i
    return low.read(node.inputs[0], tuple(mapped))


def _slice(low: Region, node: Node, index: Index) -> Expr:
    assert isinstance(node.op, Slice)
    mapped = tuple(_shift(i, s, b) for i, s, b in zip(index, node.op.step, node.op.start, strict=True))
    return low.read(node.inputs[0], mapped)


def _reverse(low: Region, node: Node, index: Index) -> Expr:
    assert isinstance(node.op, Reverse)
    shape = node.outputs[0].type.shape
    mapped = tuple(
        _shift(i, -1, n - 1) if k in node.op.axes else i for k, (i, n) in enumerate(zip(index, shape, strict=True))
    )
    return low.read(node.inputs[0], mapped)


def _pad(low: Region, node: Node, index: Index) -> Expr:
    assert isinstance(node.op, Pad)
    mapped = tuple(_shift(i, 1, -lo) for i, lo in zip(index, node.op.low, strict=True))
    steps = tuple(n + 1 for n in node.op.interior)
    return _read_padded(low, node.inputs[0], mapped, steps, low.read(node.inputs[1], ()))


def _read_padded(low: Region, value: Value, index: Index, steps: Sequence[int], other: Expr) -> Expr:
    """`value` with `steps - 1` times `other` between its elements along each dimension, and `other` around it.

    For an input of the region this is a padded Load. A computed value is read at the nearest position inside, and a
    select chooses it or `other`.
    """
    name = low.input_name(value)
    if name is not None and isinstance(other, Const) and all(isinstance(i, Affine) for i in index):
        return dilated_load(name, tuple(i for i in index if isinstance(i, Affine)), tuple(steps), other)
    inside: Expr | None = None
    mapped: list[Affine | Expr] = []
    for i, step, n in zip(index, steps, value.type.shape, strict=True):
        if step == 1 and isinstance(i, Affine) and _stays_inside(low, i, n):
            mapped.append(i)
            continue
        position, test = _position(_index_value(i, DType.I64), step, n)
        inside = test if inside is None else Scalar(ScalarOp.AND, (inside, test))
        mapped.append(_clamp(position, n))
    if 0 in value.type.shape:
        return other
    expr = low.read(value, tuple(mapped))
    return expr if inside is None else Scalar(ScalarOp.SELECT, (inside, expr, other))


def _position(spread: Expr, step: int, n: int) -> tuple[Expr, Expr]:
    """The index of the element at position `spread` among elements `step` apart, and the test that one of the n
    elements is there."""
    zero = Const(0, DType.I64)
    position = spread if step == 1 else Scalar(ScalarOp.DIV, (spread, Const(step, DType.I64)))
    above = Scalar(ScalarOp.GE, (position, zero))
    test = Scalar(ScalarOp.AND, (above, Scalar(ScalarOp.LT, (position, Const(n, DType.I64)))))
    if step == 1:
        return position, test
    on = Scalar(ScalarOp.EQ, (Scalar(ScalarOp.MOD, (spread, Const(step, DType.I64))), zero))
    return position, Scalar(ScalarOp.AND, (test, on))


def _stays_inside(low: Region, index: Affine, n: int) -> bool:
    ends = [c * (low.extent(axis) - 1) for axis, c in index.terms]
    least, most = sum(min(0, e) for e in ends), sum(max(0, e) for e in ends)
    return index.offset + least >= 0 and index.offset + most < n


def _relayout(low: Region, node: Node, index: Index) -> Expr:
    return low.read(node.inputs[0], index)


def _gather(low: Region, node: Node, index: Index) -> Expr:
    """Coordinates along `axes` are loaded and clamped; the other axes follow the result's trailing index."""
    assert isinstance(node.op, Gather)
    x, indices = node.inputs
    leading = indices.type.rank - 1
    rest = iter(index[leading:])
    mapped: list[Affine | Expr] = []
    for axis in range(x.type.rank):
        if axis < node.op.batch:
            mapped.append(index[axis])
        elif axis in node.op.axes:
            at = (*index[:leading], Affine((), node.op.axes.index(axis)))
            mapped.append(_clamp(CastExpr(DType.I64, low.read(indices, at)), x.type.shape[axis]))
        else:
            mapped.append(next(rest))
    return low.read(x, tuple(mapped))


def _clamp(index: Expr, extent: int) -> Expr:
    above = Scalar(ScalarOp.MAX, (index, Const(0, DType.I64)))
    return Scalar(ScalarOp.MIN, (above, Const(extent - 1, DType.I64)))


def _reduce(low: Region, node: Node, index: Index) -> Expr:
    assert isinstance(node.op, Reduce)
    shape = node.inputs[0].type.shape
    names = iter(low.reduced_axes(node.op.axes, shape))
    indices = iter(index)
    mapped: list[Affine | Expr] = []
    inner: list[str] = []
    for k in range(len(shape)):
        if k in node.op.axes:
            inner.append(next(names))
            mapped.append(affine((inner[-1], 1)))
            continue
        mapped.append(next(indices))
        if low.rows is not None and mapped[-1] not in (Affine(), affine((f"i{k}", 1))):
            raise GraphError(f"{node.describe()} is read at a row other than the one it reduces")
    return ReduceExpr(node.op.op, tuple(inner), low.read(node.inputs[0], tuple(mapped)))


def _reduce_window(low: Region, node: Node, index: Index) -> Expr:
    assert isinstance(node.op, ReduceWindow)
    op = node.op
    names = iter(low.new_axes([n for n in op.window if n != 1]))
    used: list[str] = []
    mapped: list[Affine | Expr] = []
    for k, i in enumerate(index):
        at = _shift(i, op.strides[k], -op.padding[k][0])
        if op.window[k] != 1:
            assert isinstance(at, Affine)
            used.append(next(names))
            at = Affine((*at.terms, (used[-1], op.dilation[k])), at.offset)
        mapped.append(at)
    dtype = node.inputs[0].type.dtype
    padded = any(map(any, op.padding))
    other = Const(op.op.neutral(dtype), dtype)
    x, ones = node.inputs[0], (1,) * len(mapped)
    operand = _read_padded(low, x, tuple(mapped), ones, other) if padded else low.read(x, tuple(mapped))
    return ReduceExpr(op.op, tuple(used), operand)


def _conv(low: Region, node: Node, index: Index) -> Expr:
    """x[n, g * I + c, position, ...] * w[g * O + o, c, k, ...] over channels c of the group and the kernel's window."""
    assert isinstance(node.op, Conv)
    x, w = node.inputs
    op = node.op
    if op.batch_groups != 1:
        raise GraphError(f"{node.describe()}: groups of the batch have no kernel on this target")
    window = [int(n) for n in w.type.shape[2:]]  # code has a plain number of taps
    channel, *taps = low.new_axes((w.type.shape[1], *window))
    batch, out, *space = index
    assert isinstance(out, Affine)
    windows = _windows(op, x.type.shape[2:], _axes(tuple(space)), taps)
    groups, filters = (out.terms[:1], out.terms[1:]) if op.groups > 1 else ((), out.terms)
    channels = affine(*((g, w.type.shape[1]) for g, _ in groups), (channel, 1))
    return Contract(
        lhs=low.read(x, (batch, channels, *(affine((v.name, 1)) for v in windows))),
        rhs=low.read(w, (out, *(affine((a, 1)) for a in (channel, *taps)))),
        batch=tuple(g for g, _ in groups),
        rows=_axes((batch, *space)),
        columns=tuple(a for a, _ in filters),
        inner=(channel, *taps),
        accumulator=op.accumulator or sum_dtype(x.type.dtype),
        dtype=node.outputs[0].type.dtype,
        windows=windows,
    )


def _conv_weight_gradient(low: Region, node: Node, index: Index) -> Expr:
    """x[n, g * I + c, position, ...] * dy[n, g * O + o, ...] over images n and positions of the convolution."""
    assert isinstance(node.op, ConvWeightGradient)
    x, dy = node.inputs
    op = node.op
    image, *space = low.new_axes((dy.type.shape[0], *dy.type.shape[2:]))
    out, channel, *taps = index
    assert isinstance(out, Affine)
    windows = _windows(op, x.type.shape[2:], space, _axes(tuple(taps)))
    groups, filters = (out.terms[:1], out.terms[1:]) if op.groups > 1 else ((), out.terms)
    own = _axes((channel,))
    channels = affine(*((g, node.outputs[0].type.shape[1]) for g, _ in groups), *((c, 1) for c in own))
    return Contract(
        lhs=low.read(x, (affine((image, 1)), channels, *(affine((v.name, 1)) for v in windows))),
        rhs=low.read(dy, (affine((image, 1)), out, *(affine((a, 1)) for a in space))),
        batch=tuple(g for g, _ in groups),
        rows=(*own, *(v.tap for v in windows)),
        columns=tuple(a for a, _ in filters),
        inner=(image, *space),
        accumulator=sum_dtype(x.type.dtype),
        dtype=node.outputs[0].type.dtype,
        windows=windows,
    )


def _windows(
    op: Conv | ConvWeightGradient, sizes: Sequence[int], space: Sequence[str], taps: Sequence[str]
) -> tuple[Window, ...]:
    interior = op.lhs_dilation if isinstance(op, Conv) else (1,) * len(sizes)
    return tuple(
        Window(
            name=f"p{k}",
            out=space[k],
            tap=taps[k],
            extent=n,
            stride=op.strides[k],
            dilation=op.rhs_dilation[k],
            low=op.padding[k][0],
            interior=interior[k],
        )
        for k, n in enumerate(sizes)
    )


def _axes(index: Index) -> tuple[str, ...]:
    """The axes of an index of which each part is one axis or 0; GraphError for any other index."""
    axes = [i.terms[0][0] for i in index if isinstance(i, Affine) and i.terms]
    if index != tuple(affine((a, 1)) for a in axes):
        raise GraphError(f"a contraction is read at {index}, not at one axis for each dimension")
    return tuple(axes)


def _dot(low: Region, node: Node, index: Index) -> Expr:
    assert isinstance(node.op, Dot)
    op, (x, w) = node.op, node.inputs
    names = low.inner_axes(node, [x.type.shape[a] for a in op.lhs_contract])
    inner = [affine((a, 1)) for a in names]
    count = len(op.lhs_batch)
    end = x.type.rank - len(inner)
    batch, rows, columns = index[:count], index[count:end], index[end:]
    return Contract(
        lhs=low.read(x, _operand_index(x.type.rank, op.lhs_batch, op.lhs_contract, batch, inner, rows)),
        rhs=low.read(w, _operand_index(w.type.rank, op.rhs_batch, op.rhs_contract, batch, inner, columns)),
        batch=_roles(low, batch),
        rows=_roles(low, rows),
        columns=_roles(low, tuple(Affine(i.terms) if isinstance(i, Affine) else i for i in columns)),
        inner=tuple(names),
        accumulator=op.accumulator or sum_dtype(x.type.dtype),
        dtype=node.outputs[0].type.dtype,
    )


def _roles(low: Region, index: Index) -> tuple[str, ...]:
    return tuple(low.axes_of(index)) if low.is_attention else _axes(index)


def _operand_index(
    rank: int, batch: Sequence[int], contract: Sequence[int], outer: Index, inner: Sequence[Affine], free: Index
) -> Index:
    at: dict[int, Affine | Expr] = {**dict(zip(batch, outer, strict=True)), **dict(zip(contract, inner, strict=True))}
    rest = iter(free)
    return tuple(at[k] if k in at else next(rest) for k in range(rank))


RULES: dict[type[Op], Rule] = {
    Pointwise: _pointwise,
    Cast: _cast,
    Constant: _constant,
    Iota: _iota,
    Size: _size,
    RandomBits: _random_bits,
    Broadcast: _broadcast,
    Reshape: _reshape,
    Transpose: _transpose,
    Slice: _slice,
    Reverse: _reverse,
    Pad: _pad,
    Relayout: _relayout,
    Gather: _gather,
    Reduce: _reduce,
    ReduceWindow: _reduce_window,
    Conv: _conv,
    ConvWeightGradient: _conv_weight_gradient,
    Dot: _dot,
}
