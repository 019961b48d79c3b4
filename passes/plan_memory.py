"""Plans where values stand: which share memory with others, and at which offset of a block everything else goes."""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass, field
from math import prod

from ..ir.dialects.core import Concat, Constant, Fused, Relayout, Reshape
from ..ir.graph import Graph, Node, Value
from ..ir.types import TensorType

ALIGNMENT = 64  # bytes: a cache line, and the widest vector register


@dataclass(frozen=True, slots=True)
class View:
    """A value that stands in another's memory: `offset` in elements, `strides` of the physical dimensions (None: contiguous).

    `renamed` marks the same memory under another shape: such a view needs its base contiguous.
    """

    base: Value
    offset: int = 0
    strides: tuple[int, ...] | None = None
    renamed: bool = False


@dataclass(frozen=True)
class Sharing:
    """`views` of values that own no memory; `prepared` values depend on parameters and constants alone."""

    views: dict[Value, View]
    prepared: frozenset[Value]

    def resolve(self, value: Value) -> View:
        """The view of `value` on the value that owns its memory."""
        offset, strides = 0, None
        while (view := self.views.get(value)) is not None:
            offset += view.offset
            strides = view.strides or strides  # the outermost whole spaces its pieces
            value = view.base
        return View(value, offset, strides)


def share_memory(graph: Graph) -> Sharing:
    """Find reshapes that are views of their operand, and pieces that can be computed inside their concatenation."""
    views: dict[Value, View] = {}
    for node in graph.nodes:
        if is_alias(node):
            views[node.outputs[0]] = View(node.inputs[0], renamed=True)
    prepared = _find_prepared(graph)
    for node in graph.nodes:
        concat = concat_of(node)
        if concat is not None and node.outputs[0] not in prepared:
            _place_pieces(graph, node, concat.axis, views, prepared)
    return Sharing(views, frozenset(prepared))


def is_alias(node: Node) -> bool:
    """Whether a node's result is its operand's memory under another type."""
    if isinstance(node.op, Reshape):
        return node.inputs[0].type.layout is None
    relayout = node.op
    if isinstance(relayout, Fused) and len(relayout.body.nodes) == 1:
        relayout = relayout.body.nodes[0].op
    if not isinstance(relayout, Relayout):
        return False
    a, b = node.inputs[0].type, node.outputs[0].type
    return _is_vector_of_channels(a) and _is_vector_of_channels(b)


def _is_vector_of_channels(type: TensorType) -> bool:
    """Whether blocked and row-major memory of this type are the same: whole blocks, one pixel, no halo."""
    if prod(type.shape[2:]) != 1:
        return False
    layout = type.layout
    return layout is None or (type.shape[1] % layout.block == 0 and not any(map(any, layout.halo)))


def concat_of(node: Node) -> Concat | None:
    """The concatenation that a region consists of, if it does."""
    if not isinstance(node.op, Fused) or len(node.op.body.nodes) != 1:
        return None
    inner = node.op.body.nodes[0]
    return inner.op if isinstance(inner.op, Concat) and inner.inputs == node.op.body.inputs else None


def _find_prepared(graph: Graph) -> set[Value]:
    prepared = {graph.inputs[i] for i in graph.parameters}
    for node in graph.nodes:
        if isinstance(node.op, Constant) or prepared.issuperset(node.inputs):
            prepared.update(node.outputs)
    return prepared


def _place_pieces(graph: Graph, node: Node, axis: int, views: dict[Value, View], prepared: set[Value]) -> None:
    whole = node.outputs[0]
    strides = physical_strides(whole.type)
    physical_axis = axis
    outer = prod(whole.type.shape[:axis])
    offset = 0
    for piece in node.inputs:
        size = _physical_shape(piece.type)[physical_axis]
        spaced = outer > 1 and any(v.base is piece and v.renamed for v in views.values())
        if not spaced and node.inputs.count(piece) == 1 and _may_stand_inside(graph, piece, whole, views, prepared):
            views[piece] = View(whole, offset * strides[physical_axis], strides if outer > 1 else None)
        offset += size


def _may_stand_inside(graph: Graph, piece: Value, whole: Value, views: dict[Value, View], prepared: set[Value]) -> bool:
    """A piece that a kernel computes anew for this concatenation, in the whole's own layout, and that is not a result of the graph."""
    if piece.node is None or piece in views or piece in prepared or piece in graph.outputs:
        return False
    return isinstance(piece.node.op, Fused) and piece.type.layout == whole.type.layout and piece.type.dtype is whole.type.dtype


def _physical_shape(type: TensorType) -> tuple[int, ...]:
    return type.shape if type.layout is None else type.layout.physical_shape(type.shape)


def physical_strides(type: TensorType) -> tuple[int, ...]:
    """Strides in elements of the contiguous memory of `type`, for each physical dimension."""
    strides: list[int] = []
    step = 1
    for n in reversed(_physical_shape(type)):
        strides.append(step)
        step *= n
    return tuple(reversed(strides))


@dataclass(slots=True)
class Block:
    """A piece of memory that is needed from step `start` to step `end`, both included.

    Blocks with a `zeroed` key hold zeros between the elements that kernels write (halos): such a block shares its place only with blocks of the
    same key, so the zeros are written once.
    """

    nbytes: int
    start: int
    end: int
    zeroed: object = None
    offset: int = field(default=-1)


def assign_offsets(blocks: list[Block]) -> int:
    """Set each block's offset so that blocks needed at the same time do not overlap; return the bytes used in all."""
    ordered = sorted((b for b in blocks if b.zeroed is None), key=lambda b: (-b.nbytes, b.start))
    placed: list[tuple[int, int, Block]] = []
    top = 0
    for number, block in enumerate(ordered):
        block.offset = _lowest_gap(block, placed)
        insort(placed, (block.offset, number, block), key=lambda p: p[:2])
        top = max(top, block.offset + _aligned(block.nbytes))
    return _assign_zeroed([b for b in blocks if b.zeroed is not None], top)


def _lowest_gap(block: Block, placed: list[tuple[int, int, Block]]) -> int:
    offset = 0
    for start, _, other in placed:
        if other.end < block.start or block.end < other.start:
            continue
        if start - offset >= block.nbytes:
            break
        offset = max(offset, start + _aligned(other.nbytes))
    return offset


def _assign_zeroed(blocks: list[Block], top: int) -> int:
    lanes: dict[object, list[Block]] = {}  # for each key the last block of each place
    for block in sorted(blocks, key=lambda b: b.start):
        places = lanes.setdefault(block.zeroed, [])
        for i, last in enumerate(places):
            if last.end < block.start:
                block.offset = last.offset
                places[i] = block
                break
        else:
            block.offset = top
            top += _aligned(block.nbytes)
            places.append(block)
    return top


def _aligned(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT
