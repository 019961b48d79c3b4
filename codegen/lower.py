"""Lowers a fused region to a Kernel: each value of the region becomes an expression of the point at which it is read.

The region's result is stored over its whole index space. A pointwise node reads its operands at the index of its
result; a transpose, slice or broadcast at a mapped index; a reduction at an index with new axes. Reading an input of
the region is a Load. Values that are read more than once become Locals.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from ..ir.dialects.core import Cast, Conv, ConvWeightGradient, Dot, Fused, Pointwise, Reduce, ReduceWindow, Slice
from ..ir.graph import Graph, GraphError, Node, Value
from ..ir.kernel import (
    Affine,
    Axis,
    AxisKind,
    AxisValue,
    Buffer,
    Expr,
    Index,
    Kernel,
    Load,
    Local,
    Ref,
    Stage,
    Store,
    affine,
    walk,
)
from ..ir.symbolic import concrete
from ..ir.types import TensorType
from .lower_rules import RULES

Strides = tuple[int, ...] | None


class LoweringError(GraphError):
    """A region has no kernel; the message names the node."""


def lower_region(op: Fused, name: str = "kernel", strides: Sequence[Strides] = ()) -> Kernel:
    """The kernel of a region. Its buffers are the region's inputs `x0, x1, ...` and its results `y0, ...` in order.

    `strides` lists, for inputs and then results, physical strides where a buffer is not contiguous.
    """
    return Lowering(op.body, op.kind, name, strides).kernel()


def lower_concat(
    source: TensorType, out: TensorType, axis: int, begin: int, name: str, strides: Sequence[Strides]
) -> Kernel:
    """The kernel that copies an operand of a concatenation into its place in the result, which begins at `begin` along
    the axis."""
    axes = tuple(Axis(f"i{k}", n) for k, n in enumerate(source.shape))
    index: Index = tuple(affine((a.name, 1)) for a in axes)
    target: Index = tuple(affine((a.name, 1), offset=begin if k == axis else 0) for k, a in enumerate(axes))
    buffers = (_buffer("x0", source, strides[0]), _buffer("y0", out, strides[1], written=True))
    return Kernel(name, buffers, (), axes, (Store("y0", target, Load("x0", index)),))


def _buffer(name: str, type: TensorType, strides: Strides, *, written: bool = False) -> Buffer:
    return Buffer(name, type.dtype, type.shape, type.layout, strides, written)


class Lowering:
    """One region during its lowering. Axes of the result are named i0, i1, ..., reduced axes r0, r1, ..., in the order
    in which they appear.
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
        self.known: dict[tuple[Value, Index], Expr] = {}
        self.inner: dict[Node, Sequence[str]] = {}
        self.users = body.users()
        self.rows = _row_space(body) if kind == "row" else None
        self.is_attention = kind == "attention"
        self.is_simple_contraction = kind == "contract" and len(body.outputs) == 1 and not _reads_parts(body)

    def kernel(self) -> Kernel:
        if self.rows is not None:
            self._add_row_axes(*self.rows)
        self._lower_results()
        return Kernel(self.name, tuple(self.buffers), (), tuple(self.axes), tuple(self.stages))

    def _lower_results(self) -> None:
        if self.kind in ("pointwise", "contract") and len(self.body.outputs) > 1:
            self._lower_results_at_once()
            return
        for i, value in enumerate(self.body.outputs):
            index = self._index_of_result(value, i)
            expr = self.read(value, index)
            self.stages.append(Store(f"y{i}", index, expr))

    def _index_of_result(self, value: Value, position: int) -> Index:
        if self.rows:
            return self._row_index(value)
        if self.is_attention and position:  # a number for each row, as the reductions that the first result reads
            return next(i for v, i in self.known if v.node is not None and isinstance(v.node.op, Reduce))
        return self._space(value.type.shape, position)

    def _lower_results_at_once(self) -> None:
        """Compute all results of a point before storing the first, which can overwrite an operand."""
        index = self._space(self.body.outputs[0].type.shape, 0)
        if any(v.type.shape != self.body.outputs[0].type.shape for v in self.body.outputs):
            raise LoweringError(f"region with results of shapes {[v.type.shape for v in self.body.outputs]}")
        results: list[Expr] = []
        for value in self.body.outputs:
            expr = self.read(value, index)
            results.append(expr if isinstance(expr, Ref) else self.local(expr, index))
        self.stages += [Store(f"y{i}", index, expr) for i, expr in enumerate(results)]

    def _space(self, shape: tuple[int, ...], result: int) -> Index:
        """Parallel axes over `shape`, which all results of a region without rows share."""
        if result:
            if self.body.outputs[0].type.shape != shape:
                raise LoweringError(f"region with results of shapes {self.body.outputs[0].type.shape} and {shape}")
            first = next(s for s in self.stages if isinstance(s, Store))
            return first.index
        grouped, groups = _grouped_dimension(self.body)
        return tuple(self._result_index(k, n, groups if k == grouped else 1) for k, n in enumerate(shape))

    def _result_index(self, k: int, n: int, groups: int) -> Affine:
        """The index along dimension k: one axis, or two for the filters of a grouped convolution (the group, and the
        filter within the group)."""
        if groups == 1:
            return affine((self._axis(f"i{k}", n), 1))
        return affine((self._axis("g", groups), n // groups), (self._axis(f"i{k}", n // groups), 1))

    def _axis(self, name: str, extent: int, kind: AxisKind = AxisKind.PARALLEL) -> str:
        self.axes.append(Axis(name, extent, kind))
        return name

    def _add_row_axes(self, shape: tuple[int, ...], reduced: tuple[int, ...]) -> None:
        """Add one axis for each dimension of the rows' space, which all reductions of the region share. A row dimension
        of extent 1 gets none, so that a value has the same index whether it is read through a reshape or not.
        """
        for k, n in enumerate(shape):
            if n == 1 and k not in reduced:
                continue
            self._axis(f"{'r' if k in reduced else 'i'}{k}", n, AxisKind.REDUCE if k in reduced else AxisKind.PARALLEL)

    def _row_index(self, value: Value) -> Index:
        """The index of a result of a row region: over the full space, or over the rows, with or without dimensions of
        extent 1."""
        assert self.rows is not None
        shape, names = value.type.shape, {a.name for a in self.axes}
        if concrete(shape) == concrete(self.rows[0]):  # a value over the rows has fewer axes, or extents of 1
            along = ({f"i{k}", f"r{k}"} & names for k in range(len(shape)))
            return tuple(affine((own.pop(), 1)) if own else Affine() for own in along)
        rows = iter(affine((a.name, 1)) for a in self.axes if a.kind is AxisKind.PARALLEL)
        return tuple(Affine() if n == 1 else next(rows) for n in shape)

    # -- expressions

    def read(self, value: Value, index: Index) -> Expr:
        """The expression of `value` at `index`."""
        name = self.inputs.get(value)
        if name is not None:
            return Load(name, index)
        if self.is_attention:
            index = tuple(Affine() if n == 1 else i for i, n in zip(index, value.type.shape, strict=True))
        elif value.node is not None and isinstance(value.node.op, Conv | ConvWeightGradient | Dot):
            index = self._with_unit_axes(value, index)
        known = self.known.get((value, index))
        if known is not None:
            return known
        node = value.node
        assert node is not None
        rule = RULES.get(type(node.op))
        if rule is None:
            raise LoweringError(f"{node.describe()} has no kernel on this target")
        expr = rule(self, node, index)
        return self._share(value, index, expr) if self._is_shared(value, node) else expr

    def _with_unit_axes(self, value: Value, index: Index) -> Index:
        """The index of a contraction's result with an axis for each dimension, even where a dimension of extent 1 is
        read at the constant index 0."""
        unit = {a.name for a in self.axes if a.extent == 1}
        shape = enumerate(value.type.shape)
        own = [affine((f"i{k}", 1)) if n == 1 and f"i{k}" in unit else Affine() for k, n in shape]
        return tuple(o if i == Affine() else i for o, i in zip(own, index, strict=True))

    def _is_shared(self, value: Value, node: Node) -> bool:
        """True if a value becomes a Local: a reduction in a row region, or a costly value that is read repeatedly."""
        if (self.rows is not None or self.is_attention) and isinstance(node.op, Reduce):
            return True
        return isinstance(node.op, _COSTLY) and len(self.users[value]) + (value in self.body.outputs) > 1

    def _share(self, value: Value, index: Index, expr: Expr) -> Expr:
        """A Local for `expr`; in the epilogue of a contraction with one sum and result a small `expr` itself, because
        most emitters of contractions require such epilogues as one expression."""
        inline = self.is_simple_contraction and sum(1 for _ in islice(walk(expr), _INLINE_LIMIT)) < _INLINE_LIMIT
        shared = self.known[value, index] = expr if inline else self.local(expr, index)
        return shared

    def local(self, expr: Expr, index: Index) -> Ref:
        """A new Local that holds `expr` at the points of `index`."""
        name = f"t{sum(isinstance(s, Local) for s in self.stages)}"
        self.stages.append(Local(name, tuple(self.axes_of(index)), expr))
        return Ref(name)

    def axes_of(self, index: Index) -> Sequence[str]:
        """The axes on which an index depends, in the order in which it names them."""
        return tuple(dict.fromkeys(self._axes_of(index)))

    def _axes_of(self, index: Index) -> Iterator[str]:
        """The axes on which an index depends, directly or through loaded elements."""
        for part in index:
            if isinstance(part, Affine):
                yield from (axis for axis, _ in part.terms)
                continue
            for expr in walk(part):
                if isinstance(expr, AxisValue):
                    yield expr.axis
                elif isinstance(expr, Load):
                    yield from self._axes_of(expr.index)
                elif isinstance(expr, Ref):
                    yield from next(s.axes for s in self.stages if isinstance(s, Local) and s.name == expr.local)

    def input_name(self, value: Value) -> str | None:
        """The buffer of a value if it is an input of the region, else None."""
        return self.inputs.get(value)

    def extent(self, axis: str) -> int:
        """The extent of an axis that was added before."""
        extent = next(a.extent for a in self.axes if a.name == axis)
        assert isinstance(extent, int)
        return extent

    def inner_axes(self, node: Node, extents: Sequence[int]) -> Sequence[str]:
        """The axes over which a contraction is reduced, which are the same wherever it is read."""
        if node not in self.inner:
            self.inner[node] = self.new_axes(extents)
        return self.inner[node]

    def reduced_axes(self, axes: Sequence[int], shape: Sequence[int]) -> Sequence[str]:
        """The axes over which a reduction runs along dimensions `axes` of its operand's shape: new ones, except that
        all reductions over rows, and over the keys of attention, have the same."""
        if self.rows is not None:
            return [f"r{a}" for a in axes]
        if self.is_attention:
            return self._keys()
        return self.new_axes([shape[a] for a in axes])

    def _keys(self) -> Sequence[str]:
        """The axis over which attention sums its values."""
        last = next(n for n in reversed(self.body.nodes) if isinstance(n.op, Dot))
        assert isinstance(last.op, Dot)
        return self.inner_axes(last, [last.inputs[0].type.shape[a] for a in last.op.lhs_contract])

    def new_axes(self, extents: Sequence[int]) -> list[str]:
        first = sum(a.kind is AxisKind.REDUCE for a in self.axes)
        return [self._axis(f"r{first + k}", n, AxisKind.REDUCE) for k, n in enumerate(extents)]


_INLINE_LIMIT = 64  # nodes in an expression below which it is recomputed wherever it is read
_COSTLY = (Pointwise, Cast, Reduce, ReduceWindow, Conv, ConvWeightGradient, Dot)


def _reads_parts(body: Graph) -> bool:
    """True if a region reads pieces of what it computes."""
    return any(isinstance(n.op, Slice) and n.inputs[0].node is not None for n in body.nodes)


def _row_space(body: Graph) -> tuple[tuple[int, ...], tuple[int, ...]]:
    reduce = next(n for n in body.nodes if isinstance(n.op, Reduce))
    assert isinstance(reduce.op, Reduce)
    return reduce.inputs[0].type.shape, reduce.op.axes


def _grouped_dimension(body: Graph) -> tuple[int, int]:
    """The dimension of the filters in the result of a convolution or of its weight gradient, and the number of
    groups."""
    for node in body.nodes:
        if isinstance(node.op, Conv | ConvWeightGradient):
            return int(isinstance(node.op, Conv)), node.op.groups
    return 0, 1
