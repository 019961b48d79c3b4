"""Regions as data: what sort of kernel each node makes, groups of nodes, and the Fused nodes that they become."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from ..ir.dialects.core import (
    Broadcast,
    Cast,
    Concat,
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
from ..ir.graph import Graph, GraphBuilder, Node, Value


class Kind(Enum):
    """What sort of kernel a node starts, or how it joins one."""

    POINTWISE = "pointwise"
    ROW = "row"  # reductions and the pointwise work around them
    WINDOW = "window"
    CONTRACT = "contract"
    MOVE = "move"  # an index map: transpose, slice, reverse, pad, gather, relayout
    JOIN = "join"  # concatenation: one store for each operand
    VIRTUAL = "virtual"  # read through an index map wherever it is used: broadcast, constant, iota, unit reshape
    OPAQUE = "opaque"  # stays a node of its own

    __hash__ = object.__hash__


_KINDS: dict[type, Kind] = {
    Pointwise: Kind.POINTWISE,
    Cast: Kind.POINTWISE,
    RandomBits: Kind.POINTWISE,
    Reduce: Kind.ROW,
    ReduceWindow: Kind.WINDOW,
    Conv: Kind.CONTRACT,
    Dot: Kind.CONTRACT,
    Transpose: Kind.MOVE,
    Slice: Kind.MOVE,
    Reverse: Kind.MOVE,
    Pad: Kind.MOVE,
    Gather: Kind.MOVE,
    Relayout: Kind.MOVE,
    Concat: Kind.JOIN,
    Broadcast: Kind.VIRTUAL,
    Iota: Kind.VIRTUAL,
}
_READS_MEMORY = (Conv, ReduceWindow)  # read each element many times, also past the border: from memory, not as a map
INDEX_MAPS = (Transpose, Slice, Reverse, Relayout)  # moves through which an expression may be recomputed freely


def kind_of(node: Node) -> Kind:
    """The kind of `node` on its own."""
    if isinstance(node.op, Constant):
        return Kind.VIRTUAL if node.op.value.size == 1 else Kind.OPAQUE
    if isinstance(node.op, Reshape):
        return Kind.VIRTUAL if is_unit_reshape(node) else Kind.OPAQUE
    return _KINDS.get(type(node.op), Kind.OPAQUE)


def is_unit_reshape(node: Node) -> bool:
    """Whether a reshape only adds or drops axes of extent 1, so that it is an index map."""
    before, after = node.inputs[0].type, node.outputs[0].type
    return before.layout is None and [n for n in before.shape if n != 1] == [n for n in after.shape if n != 1]


class Group:
    """Nodes that will be one region; `rows` is the full space and the reduced axes of a ROW group."""

    __slots__ = ("kind", "nodes", "rows")

    def __init__(self, kind: Kind, node: Node) -> None:
        self.kind = kind
        self.nodes = [node]
        self.rows = rows_of(node)


def rows_of(node: Node) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """The space that a reduction walks and the axes that it reduces."""
    if isinstance(node.op, Reduce):
        return node.inputs[0].type.shape, node.op.axes
    return None


def extract_regions(graph: Graph, group: dict[Node, Group]) -> Graph:
    """The graph whose groups are Fused nodes; virtual nodes are copied into every region that reads them, but what a
    convolution or a window reads stands in memory."""
    return _Extractor(graph, group).run()


class _Extractor:
    """Turns groups into Fused nodes, in an order that respects their dependencies."""

    def __init__(self, graph: Graph, group: dict[Node, Group]) -> None:
        self.graph, self.group, self.users = graph, group, graph.users()
        self.outputs = set(graph.outputs)
        self.b = GraphBuilder(graph.name)
        self.b.inputs, self.b.parameters = list(graph.inputs), set(graph.parameters)
        self.b.updates, self.b.random = graph.updates, graph.random
        self.new: dict[Value, Value] = {v: v for v in graph.inputs}
        self.order = {n: i for i, n in enumerate(graph.nodes)}
        self.done: set[int] = set()

    def run(self) -> Graph:
        for value in self.graph.outputs:
            self._need(value)
        return self.b.build([self.new[v] for v in self.graph.outputs])

    def _need(self, value: Value) -> None:
        """Emit what makes `value`, operands first. An explicit stack: graphs are deeper than Python's recursion."""
        stack: list[Value] = [value]
        while stack:
            current = stack[-1]
            if current in self.new:
                stack.pop()
                continue
            assert current.node is not None
            nodes = self._region(current.node)
            missing = [v for v in self._operands(nodes) if v not in self.new]
            if missing:
                stack.extend(missing)
            else:
                self._emit(nodes)
                stack.pop()

    def _region(self, node: Node) -> list[Node]:
        """The nodes of the region that makes `node`'s results, virtual nodes inside included, in order."""
        group = self.group.get(node)
        real = group.nodes if group else [node]
        if (group and group.kind in (Kind.OPAQUE, Kind.JOIN)) or (group is None and isinstance(node.op, Reshape)):
            return real
        found = dict.fromkeys(real)
        stored = {v.node for n in real if isinstance(n.op, _READS_MEMORY) for v in n.inputs}
        stack = [v for n in real for v in n.inputs]
        while stack:
            source = stack.pop().node
            if source is None or source in found or source in stored or kind_of(source) is not Kind.VIRTUAL:
                continue
            found[source] = None
            stack.extend(source.inputs)
        return sorted(found, key=self.order.__getitem__)

    def _operands(self, nodes: list[Node]) -> list[Value]:
        inside = {v for n in nodes for v in n.outputs}
        return list(dict.fromkeys(v for n in nodes for v in n.inputs if v not in inside))

    def _emit(self, nodes: list[Node]) -> None:
        last = nodes[-1]
        group = self.group.get(last)
        lonely = group is None and isinstance(last.op, Reshape | Constant)
        if lonely or (group is not None and group.kind is Kind.OPAQUE):
            self._copy(last)
        elif group is not None and group.kind is Kind.JOIN:
            self._emit_join(last)
        else:
            self._emit_fused(nodes, group.kind if group else Kind.POINTWISE)

    def _copy(self, node: Node) -> None:
        operands = tuple(self.new[v] for v in node.inputs)
        if operands == node.inputs:
            self.b.append(node)
            self.new.update((v, v) for v in node.outputs)
            return
        made = self.b.node(node.op, *operands, name=node.name, location=node.location)
        for old, value in zip(node.outputs, made.outputs, strict=True):
            value.type = old.type
            self.new[old] = value

    def _emit_join(self, node: Node) -> None:
        """A region with an input for each operand, also where several are one value: each is a piece of its own."""
        inner = GraphBuilder("region")
        made = inner.node(node.op, *(inner.input(v.type, v.name) for v in node.inputs), name=node.name)
        self._append(node, Fused(self._typed(inner, made, node), Kind.JOIN.value), node.inputs, node.outputs)

    def _typed(self, inner: GraphBuilder, made: Node, node: Node) -> Graph:
        for old, value in zip(node.outputs, made.outputs, strict=True):
            value.type = old.type
        return inner.build(made.outputs)

    def _append(self, node: Node, op: Fused, operands: Sequence[Value], results: Sequence[Value]) -> None:
        types = [v.type for v in results]
        fused = Node(op, [self.new[v] for v in operands], types, node.name, node.location)
        self.b.append(fused)
        self.new.update(zip(results, fused.outputs, strict=True))

    def _emit_fused(self, nodes: list[Node], kind: Kind) -> None:
        operands = self._operands(nodes)
        inner = GraphBuilder("region")
        body: dict[Value, Value] = {v: inner.input(v.type, v.name) for v in operands}
        for node in nodes:
            made = inner.node(node.op, *(body[v] for v in node.inputs), name=node.name, location=node.location)
            for old, value in zip(node.outputs, made.outputs, strict=True):
                value.type = old.type
                body[old] = value
        results = self._results(nodes)
        op = Fused(inner.build([body[v] for v in results]), kind.value)
        self._append(nodes[-1], op, operands, results)

    def _results(self, nodes: list[Node]) -> list[Value]:
        """The values of real nodes that somebody outside the region reads, also through virtual nodes outside."""
        inside = set(nodes)
        real = [n for n in nodes if n in self.group] or nodes[-1:]
        return [
            v
            for n in real
            for v in n.outputs
            if v in self.outputs or any(self._outside(u, inside) for u, _ in self.users[v])
        ]

    def _outside(self, user: Node, inside: set[Node]) -> bool:
        if user not in inside:
            return True
        if user in self.group:
            return False
        return any(v in self.outputs or any(self._outside(u, inside) for u, _ in self.users[v]) for v in user.outputs)
