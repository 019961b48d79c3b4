"""Plans the memory of values: which values share it. `assign_offsets.py` places the others."""

from __future__ import annotations

from collections import Counter
from math import prod

from ..ir.dialects.core import Concat, Constant, Fused, Relayout, Reshape, Scatter, Slice
from ..ir.graph import Graph, Node, Op, Value
from ..ir.lazy_dataclass import dataclass
from ..ir.once import once
from ..ir.types import TensorType


@dataclass(frozen=True, slots=True)
class View:
    """A value in another value's memory: `offset` in elements, `strides` of the physical dimensions (None: contiguous).

    `renamed` marks the same memory with another shape: such a view requires a contiguous base. With `axis`, `offset`
    counts steps along that physical dimension of the base; the step's length depends on where the base is stored.
    """

    base: Value
    offset: int = 0
    strides: tuple[int, ...] | None = None
    renamed: bool = False
    axis: int | None = None


@dataclass(frozen=True)
class Sharing:
    """`views` are values that share another value's memory. `prepared` values depend only on parameters and constants.
    `placed` pieces (whole, position) are computed inside the result of their concatenation."""

    views: dict[Value, View]
    prepared: frozenset[Value]
    placed: frozenset[tuple[Value, int]]

    def part(self, value: Value, type: TensorType, offset: int, strides: tuple[int, ...] | None) -> Value:
        """A new value for the part of `value` that a kernel takes: a view that begins at the element `offset`."""
        part = Value(type, None, 0)
        self.views[part] = View(value, offset, strides)
        self._wholes[part] = value
        return part

    def whole(self, value: Value) -> Value:
        """The value of the graph of which `value` is a part, or else the value itself."""
        return self._wholes.get(value, value)

    @once
    def _wholes(self) -> dict[Value, Value]:
        return {}

    @once
    def _resolved(self) -> dict[Value, View]:
        """Results of `resolve`. Concatenations of concatenations have long chains of views, and many readers."""
        return {}

    def resolve(self, value: Value) -> View:
        """The view of `value` on the value that owns its memory."""
        if (known := self._resolved.get(value)) is not None:
            return known
        inwards: list[tuple[Value, View]] = []
        while (resolved := self._resolved.get(value)) is None and (view := self.views.get(value)) is not None:
            inwards.append((value, view))
            value = view.base
        resolved = resolved or self._resolved.setdefault(value, View(value))
        for inner, view in reversed(inwards):
            step = 1 if view.axis is None else (resolved.strides or physical_strides(view.base.type))[view.axis]
            strides = resolved.strides or view.strides  # the outermost whole defines the strides of its pieces
            resolved = self._resolved[inner] = View(resolved.base, resolved.offset + view.offset * step, strides)
        return resolved


def share_memory(graph: Graph) -> Sharing:
    """Find results that are views of their operand, pieces that can be computed inside their concatenation, and tensors
    that scatters can change in place."""
    views: dict[Value, View] = {}
    for node in graph.nodes:
        view = view_of(node)
        if view is not None:
            views[node.outputs[0]] = view
    prepared = find_prepared(graph)
    placer = _Placer(graph, views, prepared)
    placed: set[tuple[Value, int]] = set()
    for node in graph.nodes:
        concat = concat_of(node)
        if concat is not None and node.outputs[0] not in prepared:
            positions = placer.place_pieces(node, concat.axis)
            placed.update((node.outputs[0], i) for i in positions)
    scattered = _scattered_in_place(graph, views, prepared)
    views.update(scattered)
    prepared.difference_update(view.base for view in scattered.values())
    return Sharing(views, frozenset(prepared), frozenset(placed))


def _scattered_in_place(graph: Graph, views: dict[Value, View], prepared: set[Value]) -> dict[Value, View]:
    """The results of scatters into tensors that kernels compute and that nothing else reads, such as the zeros to which
    a gradient adds rows: each run writes these, instead of a copy of prepared ones."""
    reads = Counter([*(v for node in graph.nodes for v in node.inputs), *graph.outputs])
    viewed = {view.base for view in views.values()}.union(views)
    result: dict[Value, View] = {}
    for node in graph.nodes:
        x = node.inputs[0] if isinstance(node.op, Scatter) else None
        if x is None or x.node is None or not isinstance(x.node.op, Fused) or x in viewed or reads[x] > 1:
            continue
        if x not in prepared or (len(x.node.inputs) == 0 and node.outputs[0] not in prepared):
            result[node.outputs[0]] = View(x)
    return result


def view_of(node: Node) -> View | None:
    """The node's result as a view of its operand; None if it needs a kernel."""
    op = _sole_op(node)
    if isinstance(op, Reshape):
        return View(node.inputs[0], renamed=True) if node.inputs[0].type.layout is None else None
    if isinstance(op, Relayout):
        same = _is_row_major(node.inputs[0].type) and _is_row_major(node.outputs[0].type)
        return View(node.inputs[0], renamed=True) if same else None
    if isinstance(op, Slice):
        return _leading_slice(op, node)
    return None


def _sole_op(node: Node) -> Op:
    """The op of a node, or the op of a region's only node if it reads the region's inputs directly."""
    if not isinstance(node.op, Fused) or len(node.op.body.nodes) != 1:
        return node.op
    inner = node.op.body.nodes[0]
    return inner.op if inner.inputs == node.op.body.inputs else node.op


def _leading_slice(op: Slice, node: Node) -> View | None:
    """A slice that is one contiguous piece: it cuts only one axis, and all axes before it have extent 1."""
    x, out = node.inputs[0].type, node.outputs[0].type
    if x.layout is not None or any(s != 1 for s in op.step):
        return None
    cut = [k for k, (n, m) in enumerate(zip(x.shape, out.shape, strict=True)) if n != m]
    if len(cut) > 1 or (cut and prod(x.shape[: cut[0]]) != 1):
        return None
    strides = physical_strides(x)
    return View(node.inputs[0], sum(b * s for b, s in zip(op.start, strides, strict=True)), renamed=True)


def _is_row_major(type: TensorType) -> bool:
    """True if the memory of this type is that of a row-major value: in blocks of one channel, or whole blocks of one
    pixel, without a halo."""
    layout = type.layout
    if layout is None:
        return True
    one = layout.block == 1 or (prod(type.shape[2:]) == 1 and type.shape[1] % layout.block == 0)
    return one and not any(map(any, layout.halo))


def _is_channels_last(type: TensorType) -> bool:
    layout = type.layout
    return layout is not None and layout.block == type.shape[1] and not any(map(any, layout.halo))


def concat_of(node: Node) -> Concat | None:
    """The Concat of a node or of a single-node region; None otherwise."""
    op = _sole_op(node)
    return op if isinstance(op, Concat) else None


def find_prepared(graph: Graph) -> set[Value]:
    """The values that depend only on parameters and constants. A parameter that each run replaces is none."""
    prepared = {graph.inputs[i] for i in graph.parameters if i not in graph.updates}
    for node in graph.nodes:
        known = isinstance(node.op, Constant) or prepared.issuperset(node.inputs)
        if known and not node.op.effects():
            prepared.update(node.outputs)
    return prepared


class _Placer:
    """Places pieces inside their concatenations: adds them to `views`."""

    def __init__(self, graph: Graph, views: dict[Value, View], prepared: set[Value]) -> None:
        self.views, self.prepared = views, prepared
        self.unstrided = {v for node in graph.nodes if not node.op.reads_strided for v in node.inputs}
        """The values that some node reads only if they are contiguous."""
        self.returned = {_owner(v, views) for v in graph.outputs}
        self.viewers: dict[Value, list[tuple[Value, View]]] = {}
        for inner, view in views.items():
            self.viewers.setdefault(view.base, []).append((inner, view))

    def place_pieces(self, node: Node, axis: int) -> list[int]:
        """Compute operands of a concatenation inside the result where possible; return their positions."""
        whole = node.outputs[0]
        strides = physical_strides(whole.type)
        if axis == 1 and _is_channels_last(whole.type):
            axis = len(strides) - 1
        spaced = prod(_physical_shape(whole.type)[:axis]) > 1  # then a piece is not contiguous
        owners = [_owner(v, self.views) for v in node.inputs]
        pieces_of = Counter(owners)
        placed: list[int] = []
        offset = 0
        for i, (piece, owner) in enumerate(zip(node.inputs, owners, strict=True)):
            contiguous = spaced and (owner is not piece or self._needs_contiguous(piece))
            if not contiguous and pieces_of[owner] == 1 and self._can_be_placed(owner, whole):
                view = self.views[owner] = View(whole, offset, strides if spaced else None, axis=axis)
                self.viewers.setdefault(whole, []).append((owner, view))
                placed.append(i)
            offset += _physical_shape(piece.type)[axis]
        return placed

    def _needs_contiguous(self, value: Value) -> bool:
        """True if `value` must be contiguous: a reader of it, or of a view of it, requires that, or a view has
        different axes."""
        return value in self.unstrided or any(
            view.renamed or not _has_axes_of(inner, value, view.axis) or self._needs_contiguous(inner)
            for inner, view in self.viewers.get(value, ())
        )

    def _can_be_placed(self, piece: Value, whole: Value) -> bool:
        """True if a kernel computes the piece for this concatenation, in the whole's order of memory and dtype, and the
        piece is not an output of the graph."""
        if piece.node is None or piece in self.views or piece in self.prepared or piece in self.returned:
            return False
        same = piece.type.layout == whole.type.layout or (
            _is_channels_last(piece.type) and _is_channels_last(whole.type)
        )
        return isinstance(piece.node.op, Fused) and same and piece.type.dtype is whole.type.dtype


def _has_axes_of(piece: Value, whole: Value, axis: int | None) -> bool:
    """True if a piece differs from the whole only along the concatenation axis."""
    mine, its = _physical_shape(piece.type), _physical_shape(whole.type)
    return len(mine) == len(its) and all(n == m or k == axis for k, (n, m) in enumerate(zip(mine, its, strict=True)))


def _owner(value: Value, views: dict[Value, View]) -> Value:
    """The value whose whole memory is `value`'s memory with another shape."""
    while (view := views.get(value)) is not None and view.renamed and view.base.type.nbytes == value.type.nbytes:
        value = view.base
    return value


def _physical_shape(type: TensorType) -> tuple[int, ...]:
    return type.shape if type.layout is None else type.layout.physical_shape(type.shape)


def physical_strides(type: TensorType) -> tuple[int, ...]:
    """Strides in elements of contiguous memory of `type`, per physical dimension."""
    strides: list[int] = []
    step = 1
    for n in reversed(_physical_shape(type)):
        strides.append(step)
        step *= n
    return tuple(reversed(strides))
