"""Chooses the physical layout of every value: channels in blocks around convolutions, padding as a halo in the
buffer.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..ir.dialects.core import Broadcast, Concat, Constant, Conv, Pointwise, Reduce, ReduceWindow, Relayout
from ..ir.graph import Graph, GraphBuilder, Node, Value
from ..ir.rewrite import Replacement, rebuild
from ..ir.target import CpuTarget
from ..ir.types import DType, Layout, TensorType
from .manager import Context, Pass

Halo = tuple[tuple[int, int], ...]


def channel_block(target: CpuTarget) -> int:
    """Channels in a block: one vector register of float32, but at least 8 so that short vectors still share cache
    lines.
    """
    return max(8, target.lanes())


@dataclass(frozen=True)
class AssignLayouts(Pass):
    """Give values between convolutions a blocked layout and insert Relayout where a node needs another one.

    A convolution reads and writes blocks; pointwise nodes, pooling and concatenation along channels keep them;
    everything else is row-major. A blocked value's halo is the largest padding among the convolutions that read it,
    so that no kernel tests for borders, and the room that a Winograd transform reads past the end. Needs: core.
    Keeps: values; graph inputs and outputs stay row-major.
    """

    name = "assign-layouts"

    def run(self, graph: Graph, context: Context) -> Graph:
        if not any(isinstance(n.op, Conv) for n in graph.nodes):
            return graph
        block = channel_block(context.target)
        blocked = _choose_blocked(graph, block)
        halos = _collect_halos(graph, blocked, block)
        if not blocked and not halos:
            return graph
        return _Relayouter(graph, blocked, halos, block).run()


def _choose_blocked(graph: Graph, block: int) -> set[Value]:
    blocked: set[Value] = set()
    for node in graph.nodes:
        if _keeps_blocks(node, blocked, block):
            blocked.update(node.outputs)
    return blocked


def _keeps_blocks(node: Node, blocked: set[Value], block: int) -> bool:
    out = node.outputs[0].type
    if out.rank < 3 or out.dtype is not DType.F32:
        return False
    match node.op:
        case Conv():
            return node.op.batch_groups == 1
        case Pointwise():
            return not blocked.isdisjoint(node.inputs)
        case ReduceWindow():
            return node.inputs[0] in blocked and _windows_space(node.op)
        case Concat(axis=1):
            return blocked.issuperset(node.inputs) and all(v.type.shape[1] % block == 0 for v in node.inputs[:-1])
        case _:
            return False


def _windows_space(op: ReduceWindow) -> bool:
    """Whether the window slides over spatial axes alone."""
    return op.window[:2] == (1, 1) and op.strides[:2] == (1, 1) and op.padding[:2] == ((0, 0), (0, 0))


def _accepts_blocks(node: Node, position: int, blocked: set[Value], block: int) -> bool:
    """Whether operand `position` may be read in blocks."""
    match node.op:
        case Conv():
            return position == 0 and _reads_blocks(node, block)
        case Pointwise() | ReduceWindow() | Concat():
            return node.outputs[0] in blocked
        case Reduce():
            return node.op.axes == tuple(range(2, node.inputs[0].type.rank))
        case _:
            return False


def _stays_in_blocks(graph: Graph, blocked: set[Value]) -> set[Node]:
    """Broadcasts along extents of 1 that only pointwise nodes over blocks read: these read the operand's blocks."""
    users = graph.users()
    return {
        node
        for node in graph.nodes
        if isinstance(node.op, Broadcast)
        and node.op.axes == tuple(range(node.outputs[0].type.rank))
        and node.outputs[0] not in graph.outputs
        and all(isinstance(u.op, Pointwise) and u.outputs[0] in blocked for u, _ in users[node.outputs[0]])
    }


def _reads_blocks(node: Node, block: int) -> bool:
    """A convolution over few input channels (an image) reads them row-major: blocks would be mostly padding."""
    return node.inputs[0].type.dtype is DType.F32 and node.inputs[0].type.shape[1] >= block


def winograd_room(op: Conv, out: TensorType, kernel: tuple[int, ...]) -> Halo:
    """Elements past the end that a transform over tiles of four outputs reads, for each spatial axis."""
    unit = (1,) * len(kernel)
    transforms = kernel == (3, 3) and op.strides == unit and op.rhs_dilation == unit and op.groups == 1
    return tuple((0, -n % 4 if transforms else 0) for n in out.shape[2:])


def _needed_halo(node: Node) -> Halo:
    op = node.op
    assert isinstance(op, Conv)
    kernel = node.inputs[1].type.shape[2:]
    if any(d != 1 for d in op.lhs_dilation):
        return ((0, 0),) * len(kernel)
    room = winograd_room(op, node.outputs[0].type, kernel)
    return tuple((max(0, lo), max(0, hi) + extra) for (lo, hi), (_, extra) in zip(op.padding, room, strict=True))


def _collect_halos(graph: Graph, blocked: set[Value], block: int) -> dict[Value, Halo]:
    halos: dict[Value, Halo] = {}
    for node in graph.nodes:
        if isinstance(node.op, Conv) and _accepts_blocks(node, 0, blocked, block):
            value, needed = node.inputs[0], _needed_halo(node)
            halos[value] = _union(halos.get(value, needed), needed)
    for node in reversed(graph.nodes):  # pieces of a concatenation stand inside the whole
        if isinstance(node.op, Concat) and node.outputs[0] in blocked and node.outputs[0] in halos:
            for value in node.inputs:
                halos[value] = _union(halos.get(value, halos[node.outputs[0]]), halos[node.outputs[0]])
    return halos


def _union(a: Halo, b: Halo) -> Halo:
    return tuple((max(x[0], y[0]), max(x[1], y[1])) for x, y in zip(a, b, strict=True))


class _Relayouter:
    """Rebuilds the graph with the chosen layouts; one Relayout for each value and layout that somebody needs."""

    def __init__(self, graph: Graph, blocked: set[Value], halos: dict[Value, Halo], block: int) -> None:
        self.graph, self.blocked, self.halos, self.block = graph, blocked, halos, block
        self.through = _stays_in_blocks(graph, blocked)
        self.copies: dict[tuple[Value, Layout | None], Value] = {}

    def run(self) -> Graph:
        b = GraphBuilder(self.graph.name)
        new = rebuild(self.graph, self._rule, b)
        outputs = [self._as(b, v, None) for v in new.outputs]
        return b.build(outputs)

    def _layout(self, old: Value) -> Layout:
        return Layout(self.block, self.halos.get(old, ((0, 0),) * (old.type.rank - 2)))

    def _rule(self, b: GraphBuilder, node: Node, operands: tuple[Value, ...]) -> Replacement:
        wanted = tuple(
            self._operand(b, node, i, old, v) for i, (old, v) in enumerate(zip(node.inputs, operands, strict=True))
        )
        if wanted == node.inputs and node.outputs[0] not in self.blocked:
            return None
        made = b.node(node.op, *wanted, name=node.name, location=node.location)
        for old, value in zip(node.outputs, made.outputs, strict=True):
            value.type = value.type.with_layout(self._layout(old) if old in self.blocked else None)
        return made.outputs

    def _operand(self, b: GraphBuilder, node: Node, position: int, old: Value, value: Value) -> Value:
        if isinstance(node.op, Conv) and position == 0 and _reads_blocks(node, self.block):
            return value if value.type.layout else self._as(b, value, self._layout(old))
        if node in self.through:
            return value
        if _accepts_blocks(node, position, self.blocked, self.block):
            needs = isinstance(node.op, Pointwise | Concat | ReduceWindow) and not _is_virtual(old)
            return self._as(b, value, self._layout(old)) if needs and value.type.layout is None else value
        return self._as(b, value, None)

    def _as(self, b: GraphBuilder, value: Value, layout: Layout | None) -> Value:
        if value.type.layout == layout:
            return value
        found = self.copies.get((value, layout))
        if found is None:
            found = b.add_node(Relayout(layout), value, name=value.node.name if value.node else value.name)
            self.copies[value, layout] = found
        return found


def _is_virtual(value: Value) -> bool:
    """Broadcasts and constants are read through an index map and never stand in memory."""
    return value.node is not None and isinstance(value.node.op, Broadcast | Constant)
