"""Lowers a fused region to a Kernel: each value of the region becomes an expression of the point at which it is read.

The region's result is stored over its whole index space. Reading an operand at an index means: a pointwise node
reads its operands at the same index; a transpose, slice or broadcast at a mapped one; a reduction at an index with
new axes; an input of the region is a Load. Values that are read more than once become Locals.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..ir.dialects.core import (
    Broadcast,
    Cast,
    Constant,
    Conv,
    Dot,
    Fused,
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
    Slice,
    Transpose,
)
from ..ir.graph import Graph, GraphError, Node, Op, Value
from ..ir.kernel import (
    Affine,
    Axis,
    AxisKind,
    AxisValue,
    Buffer,
    Const,
    Contract,
    Expr,
    Index,
    Kernel,
    Load,
    Local,
    Ref,
    Scalar,
    Stage,
    Store,
    affine,
)
from ..ir.kernel import Cast as CastExpr
from ..ir.kernel import Reduce as ReduceExpr
from ..ir.scalar import ScalarOp
from ..ir.types import DType, TensorType
from .lower_contract import dilated_load
from .lower_random import philox_word

Strides = tuple[int, ...] | None


class LoweringError(GraphError):
    """A region that has no kernel; the text names the node."""


def lower_region(op: Fused, name: str = "kernel", strides: Sequence[Strides] = ()) -> Kernel:
    """The kernel of a region. Its buffers are the region's inputs `x0, x1, ...` and its results `y0, ...` in order.

    `strides` gives, for inputs and then results, physical strides where a buffer is not contiguous.
    """
    return _Lowering(op.body, op.kind, name, strides).kernel()


def lower_concat(
    node_inputs: Sequence[TensorType], out: TensorType, axis: int, position: int, name: str, strides: Sequence[Strides]
) -> Kernel:
    """The kernel that copies operand `position` of a concatenation into its place in the result."""
    source = node_inputs[position]
    axes = tuple(Axis(f"i{k}", n) for k, n in enumerate(source.shape))
    begin = sum(t.shape[axis] for t in node_inputs[:position])
    index: Index = tuple(affine((a.name, 1)) for a in axes)
    target: Index = tuple(affine((a.name, 1), offset=begin if k == axis else 0) for k, a in enumerate(axes))
    buffers = (_buffer("x0", source, strides[0]), _buffer("y0", out, strides[1], written=True))
    return Kernel(name, buffers, (), axes, (Store("y0", target, Load("x0", index)),))


def _buffer(name: str, type: TensorType, strides: Strides, *, written: bool = False) -> Buffer:
    return Buffer(name, type.dtype, type.shape, type.layout, strides, written)


class _Lowering:
    """One region being lowered. Axes are named i0.. (the result's), r0.. (reduced), in the order in which they
    appear.
    """

    def __init__(self, body: Graph, kind: str, name: str, strides: Sequence[Strides]) -> None:
        self.body, self.kind, self.name = body, kind, name
        strides = strides or (None,) * (len(body.inputs) + len(body.outputs))
        self.inputs = {v: f"x{i}" for i, v in enumerate(body.inputs)}
        self.buffers = [_buffer(f"x{i}", v.type, s) for i, (v, s) in enumerate(zip(body.inputs, strides, strict=False))]
        rest = strides[len(body.inputs) :]
        self.buffers += [
            _buffer(f"y{i}", v.type, s, written=True) for i, (v, s) in enumerate(zip(body.outputs, rest, strict=True))
        ]
        self.axes: list[Axis] = []
        self.stages: list[Stage] = []
        self.locals: dict[tuple[Value, Index], str] = {}
        self.users = body.users()
        self.rows = _row_space(body) if kind == "row" else None

    def kernel(self) -> Kernel:
        if self.rows is not None:
            self._add_row_axes(*self.rows)
        self._lower_results()
        return Kernel(self.name, tuple(self.buffers), (), tuple(self.axes), tuple(self.stages))

    def _lower_results(self) -> None:
        for i, value in enumerate(self.body.outputs):
            index = self._row_index(value) if self.rows else self._space(value.type.shape, i)
            expr = self.read(value, index)
            self.stages.append(Store(f"y{i}", index, expr))

    def _space(self, shape: tuple[int, ...], result: int) -> Index:
        """Parallel axes over `shape`, which all results of a region without rows share."""
        if result:
            if self.body.outputs[0].type.shape != shape:
                raise LoweringError(f"region with results of shapes {self.body.outputs[0].type.shape} and {shape}")
            first = next(s for s in self.stages if isinstance(s, Store))
            return first.index
        channels = _grouped_channels(self.body)
        return tuple(self._result_index(k, n, channels) for k, n in enumerate(shape))

    def _result_index(self, k: int, n: int, groups: int) -> Affine:
        """The index along dimension k: one axis, or group and channel in group for a grouped convolution."""
        if k != 1 or groups == 1:
            return affine((self._axis(f"i{k}", n), 1))
        return affine((self._axis("g", groups), n // groups), (self._axis("i1", n // groups), 1))

    def _axis(self, name: str, extent: int, kind: AxisKind = AxisKind.PARALLEL) -> str:
        self.axes.append(Axis(name, extent, kind))
        return name

    def _add_row_axes(self, shape: tuple[int, ...], reduced: tuple[int, ...]) -> None:
        """One axis for each dimension of the rows' space; all reductions of the region share the reduced ones."""
        for k, n in enumerate(shape):
            self._axis(f"{'r' if k in reduced else 'i'}{k}", n, AxisKind.REDUCE if k in reduced else AxisKind.PARALLEL)

    def _row_index(self, value: Value) -> Index:
        """The index of a result of rows: the full space, the rows, or the rows among axes of extent 1."""
        shape = value.type.shape
        if shape == tuple(a.extent for a in self.axes):
            return tuple(affine((a.name, 1)) for a in self.axes)
        rows = [a for a in self.axes if a.kind is AxisKind.PARALLEL]
        if len(shape) == len(rows):
            return tuple(affine((a.name, 1)) for a in rows)
        kept = iter(affine((a.name, 1)) for a in rows if a.extent != 1)
        return tuple(Affine() if n == 1 else next(kept) for n in shape)

    # -- expressions

    def read(self, value: Value, index: Index) -> Expr:
        """The expression of `value` at `index`."""
        name = self.inputs.get(value)
        if name is not None:
            return Load(name, index)
        local = self.locals.get((value, index))
        if local is not None:
            return Ref(local)
        node = value.node
        assert node is not None
        rule = _RULES.get(type(node.op))
        if rule is None:
            raise LoweringError(f"{node.describe()} has no kernel on this target")
        expr = rule(self, node, index)
        return self._share(value, index, expr) if self._is_shared(value, node) else expr

    def _is_shared(self, value: Value, node: Node) -> bool:
        """Whether a value becomes a Local: a reduction that a row waits for, and what costs something and is read
        more than once.
        """
        if self.rows is not None and isinstance(node.op, Reduce):
            return True
        return isinstance(node.op, _COSTLY) and len(self.users[value]) + (value in self.body.outputs) > 1

    def _share(self, value: Value, index: Index, expr: Expr) -> Expr:
        made = self.local(expr, index)
        self.locals[value, index] = made.local
        return made

    def local(self, expr: Expr, index: Index) -> Ref:
        """A new Local that holds `expr` at the points of `index`."""
        name = f"t{sum(isinstance(s, Local) for s in self.stages)}"
        used = tuple(a for i in index if isinstance(i, Affine) for a, _ in i.terms)
        self.stages.append(Local(name, used, expr))
        return Ref(name)

    def load(self, value: Value, index: Index, other: Const) -> Expr:
        """A padded read, which only an input of the region has."""
        return Load(self.input_name(value), index, other)

    def input_name(self, value: Value) -> str:
        """The buffer of a value that must be an input of the region."""
        name = self.inputs.get(value)
        if name is None:
            raise LoweringError(f"region {self.name}: a padded read of a value that is computed inside")
        return name

    def new_axes(self, extents: Sequence[int]) -> list[str]:
        first = sum(a.kind is AxisKind.REDUCE for a in self.axes)
        return [self._axis(f"r{first + k}", n, AxisKind.REDUCE) for k, n in enumerate(extents)]


_COSTLY = (Pointwise, Cast, Reduce, ReduceWindow, Conv, Dot)


def _row_space(body: Graph) -> tuple[tuple[int, ...], tuple[int, ...]]:
    reduce = next(n for n in body.nodes if isinstance(n.op, Reduce))
    assert isinstance(reduce.op, Reduce)
    return reduce.inputs[0].type.shape, reduce.op.axes


def _grouped_channels(body: Graph) -> int:
    return next((n.op.groups for n in body.nodes if isinstance(n.op, Conv)), 1)


def _shift(index: Affine | Expr, scale: int, offset: int) -> Affine | Expr:
    """index * scale + offset."""
    if isinstance(index, Affine):
        return Affine(tuple((a, c * scale) for a, c in index.terms), index.offset * scale + offset)
    scaled = index if scale == 1 else Scalar(ScalarOp.MUL, (index, Const(scale, DType.I64)))
    return scaled if offset == 0 else Scalar(ScalarOp.ADD, (scaled, Const(offset, DType.I64)))


def _pointwise(low: _Lowering, node: Node, index: Index) -> Expr:
    assert isinstance(node.op, Pointwise)
    return Scalar(node.op.op, tuple(low.read(v, index) for v in node.inputs))


def _cast(low: _Lowering, node: Node, index: Index) -> Expr:
    assert isinstance(node.op, Cast)
    return CastExpr(node.op.dtype, low.read(node.inputs[0], index))


def _constant(low: _Lowering, node: Node, index: Index) -> Expr:
    assert isinstance(node.op, Constant)
    return Const(node.op.value.item(), node.outputs[0].type.dtype)


def _iota(low: _Lowering, node: Node, index: Index) -> Expr:
    assert isinstance(node.op, Iota)
    return _index_value(index[node.op.axis], node.op.dtype)


def _index_value(index: Affine | Expr, dtype: DType) -> Expr:
    """An index as a number of `dtype`."""
    value = index
    if isinstance(index, Affine):
        value = Const(index.offset, DType.I64)
        for axis, scale in index.terms:
            term = AxisValue(axis) if scale == 1 else Scalar(ScalarOp.MUL, (AxisValue(axis), Const(scale, DType.I64)))
            value = term if value == Const(0, DType.I64) else Scalar(ScalarOp.ADD, (term, value))
    assert not isinstance(value, Affine)
    return value if dtype is DType.I64 else CastExpr(dtype, value)


def _random_bits(low: _Lowering, node: Node, index: Index) -> Expr:
    """The element's row-major position picks its word of the stream."""
    position: Expr = Const(0, DType.I64)
    for i, n in zip(index, node.outputs[0].type.shape, strict=True):
        scaled = Scalar(ScalarOp.MUL, (position, Const(n, DType.I64)))
        position = Scalar(ScalarOp.ADD, (scaled, _index_value(i, DType.I64)))
    return philox_word(low.input_name(node.inputs[0]), position, lambda e: low.local(e, index))


def _broadcast(low: _Lowering, node: Node, index: Index) -> Expr:
    assert isinstance(node.op, Broadcast)
    source = node.inputs[0]
    mapped = tuple(Affine() if n == 1 else index[a] for n, a in zip(source.type.shape, node.op.axes, strict=True))
    return low.read(source, mapped)


def _unit_reshape(low: _Lowering, node: Node, index: Index) -> Expr:
    kept = iter([i for i, n in zip(index, node.outputs[0].type.shape, strict=True) if n != 1])
    return low.read(node.inputs[0], tuple(Affine() if n == 1 else next(kept) for n in node.inputs[0].type.shape))


def _transpose(low: _Lowering, node: Node, index: Index) -> Expr:
    assert isinstance(node.op, Transpose)
    mapped: list[Affine | Expr] = [Affine()] * len(index)
    for i, p in zip(index, node.op.permutation, strict=True):
        mapped[p] = i
    return low.read(node.inputs[0], tuple(mapped))


def _slice(low: _Lowering, node: Node, index: Index) -> Expr:
    assert isinstance(node.op, Slice)
    mapped = tuple(_shift(i, s, b) for i, s, b in zip(index, node.op.step, node.op.start, strict=True))
    return low.read(node.inputs[0], mapped)


def _reverse(low: _Lowering, node: Node, index: Index) -> Expr:
    assert isinstance(node.op, Reverse)
    shape = node.outputs[0].type.shape
    mapped = tuple(
        _shift(i, -1, n - 1) if k in node.op.axes else i for k, (i, n) in enumerate(zip(index, shape, strict=True))
    )
    return low.read(node.inputs[0], mapped)


def _pad(low: _Lowering, node: Node, index: Index) -> Expr:
    assert isinstance(node.op, Pad)
    filler = low.read(node.inputs[1], ())
    if any(node.op.interior) or not isinstance(filler, Const):
        raise LoweringError(f"{node.describe()}: interior or computed padding has no kernel on this target")
    mapped = tuple(_shift(i, 1, -lo) for i, lo in zip(index, node.op.low, strict=True))
    return low.load(node.inputs[0], mapped, filler)


def _relayout(low: _Lowering, node: Node, index: Index) -> Expr:
    return low.read(node.inputs[0], index)


def _gather(low: _Lowering, node: Node, index: Index) -> Expr:
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


def _reduce(low: _Lowering, node: Node, index: Index) -> Expr:
    assert isinstance(node.op, Reduce)
    shape = node.inputs[0].type.shape
    if low.rows is not None:
        names = iter([f"r{a}" for a in node.op.axes])
    else:
        names = iter(low.new_axes([shape[a] for a in node.op.axes]))
    kept = iter(index)
    mapped: list[Affine | Expr] = []
    inner: list[str] = []
    for k in range(len(shape)):
        if k in node.op.axes:
            inner.append(next(names))
            mapped.append(affine((inner[-1], 1)))
        else:
            mapped.append(next(kept))
    return ReduceExpr(node.op.op, tuple(inner), low.read(node.inputs[0], tuple(mapped)))


def _reduce_window(low: _Lowering, node: Node, index: Index) -> Expr:
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
    operand = low.load(node.inputs[0], tuple(mapped), other) if padded else low.read(node.inputs[0], tuple(mapped))
    return ReduceExpr(op.op, tuple(used), operand)


def _conv(low: _Lowering, node: Node, index: Index) -> Expr:
    """x[n, g * I + c, s * o + d * k - p, ...] * w[g * O + o, c, k, ...] over channels c of the group and the kernel's
    window.
    """
    assert isinstance(node.op, Conv)
    x, w = node.inputs
    op = node.op
    if op.batch_groups != 1:
        raise LoweringError(f"{node.describe()}: groups of the batch have no kernel on this target")
    channel, *window = low.new_axes(w.type.shape[1:])
    batch, out, *space = index
    assert isinstance(out, Affine)
    group = out.terms[:1] if op.groups > 1 else ()
    terms = tuple((g, w.type.shape[1]) for g, _ in group)
    mapped: list[Affine] = [_as_affine(batch), affine(*terms, (channel, 1))]
    for i, k, stride, (lo, _), dilation in zip(space, window, op.strides, op.padding, op.rhs_dilation, strict=True):
        at = _as_affine(_shift(i, stride, -lo))
        mapped.append(Affine((*at.terms, (k, dilation)), at.offset))
    rhs = low.read(w, (out, *(affine((a, 1)) for a in (channel, *window))))
    return Contract(_conv_input(low, op, x, tuple(mapped)), rhs, (channel, *window))


def _conv_input(low: _Lowering, op: Conv, x: Value, index: tuple[Affine, ...]) -> Expr:
    zero = Const(0.0, x.type.dtype)
    if any(d != 1 for d in op.lhs_dilation):
        return dilated_load(low.input_name(x), index, (1, 1, *op.lhs_dilation), zero)
    return low.load(x, index, zero) if any(map(any, op.padding)) else low.read(x, index)


def _as_affine(index: Affine | Expr) -> Affine:
    assert isinstance(index, Affine)
    return index


def _dot(low: _Lowering, node: Node, index: Index) -> Expr:
    assert isinstance(node.op, Dot)
    op, (x, w) = node.op, node.inputs
    names = low.new_axes([x.type.shape[a] for a in op.lhs_contract])
    inner = [affine((a, 1)) for a in names]
    nbatch = len(op.lhs_batch)
    nfree = x.type.rank - nbatch - len(inner)
    lhs = _operand_index(
        x.type.rank, op.lhs_batch, op.lhs_contract, index[:nbatch], inner, index[nbatch : nbatch + nfree]
    )
    rhs = _operand_index(w.type.rank, op.rhs_batch, op.rhs_contract, index[:nbatch], inner, index[nbatch + nfree :])
    return Contract(low.read(x, lhs), low.read(w, rhs), tuple(names))


def _operand_index(
    rank: int, batch: Sequence[int], contract: Sequence[int], outer: Index, inner: Sequence[Affine], free: Index
) -> Index:
    at: dict[int, Affine | Expr] = {**dict(zip(batch, outer, strict=True)), **dict(zip(contract, inner, strict=True))}
    rest = iter(free)
    return tuple(at[k] if k in at else next(rest) for k in range(rank))


_RULES: dict[type[Op], Callable[[_Lowering, Node, Index], Expr]] = {
    Pointwise: _pointwise,
    Cast: _cast,
    Constant: _constant,
    Iota: _iota,
    RandomBits: _random_bits,
    Broadcast: _broadcast,
    Reshape: _unit_reshape,
    Transpose: _transpose,
    Slice: _slice,
    Reverse: _reverse,
    Pad: _pad,
    Relayout: _relayout,
    Gather: _gather,
    Reduce: _reduce,
    ReduceWindow: _reduce_window,
    Conv: _conv,
    Dot: _dot,
}
