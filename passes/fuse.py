"""Groups core nodes into regions, each of which becomes one kernel."""

from __future__ import annotations

from dataclasses import dataclass
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
from .manager import Context, Pass


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
_INDEX_MAPS = (Transpose, Slice, Reverse, Relayout)  # moves through which an expression may be recomputed freely


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


@dataclass(frozen=True)
class Fuse(Pass):
    """Replace groups of nodes by Fused nodes whose bodies are the groups.

    A contraction takes the pointwise chain behind it; reductions over the same rows take the pointwise work before,
    between and behind them (softmax, layer norm: one region); pointwise nodes and index maps join while an
    intermediate has one reader. Broadcasts, scalars and unit reshapes are copied into every region that reads them.
    Needs: core, layouts assigned. Keeps: values; opaque nodes (large constants, reshapes, loops) stay as they are.
    """

    name = "fuse"

    def run(self, graph: Graph, context: Context) -> Graph:
        return _Fuser(graph).run()


class _Group:
    """Nodes that will be one region; `rows` is the full space and the reduced axes of a ROW group."""

    __slots__ = ("kind", "nodes", "rows")

    def __init__(self, kind: Kind, node: Node) -> None:
        self.kind = kind
        self.nodes = [node]
        self.rows = _rows(node)


def _rows(node: Node) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """The space that a reduction walks and the axes that it reduces."""
    if isinstance(node.op, Reduce):
        return node.inputs[0].type.shape, node.op.axes
    return None


class _Fuser:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.users = graph.users()
        self.outputs = set(graph.outputs)
        self.group: dict[Node, _Group] = {}

    def run(self) -> Graph:
        for node in self.graph.nodes:
            kind = kind_of(node)
            if kind is Kind.VIRTUAL:
                continue
            self.group[node] = _Group(kind, node)
            for producer in self._producers(node):
                self._try_join(producer, node)
        self._absorb_prologues()
        return _Extractor(self.graph, self.group, self.users).run()

    def _producers(self, node: Node) -> list[Node]:
        """The nodes of other groups that `node` reads, through virtual nodes too; contractions and reductions first."""
        found: dict[Node, None] = {}
        stack = list(node.inputs)
        while stack:
            source = stack.pop().node
            if source is None:
                continue
            if kind_of(source) is Kind.VIRTUAL:
                stack.extend(source.inputs)
            else:
                found[source] = None
        order = {Kind.CONTRACT: 0, Kind.ROW: 1, Kind.WINDOW: 2}
        return sorted(found, key=lambda n: order.get(self.group[n].kind, 3))

    def _readers(self, node: Node) -> set[Node]:
        """The real nodes that read the results of `node`, through virtual ones too."""
        found: set[Node] = set()
        stack = list(node.outputs)
        while stack:
            for user, _ in self.users[stack.pop()]:
                if kind_of(user) is Kind.VIRTUAL:
                    stack.extend(user.outputs)
                else:
                    found.add(user)
        return found

    def _is_output(self, node: Node) -> bool:
        """Whether a result of `node` leaves the graph, through virtual nodes too."""
        stack = list(node.outputs)
        while stack:
            value = stack.pop()
            if value in self.outputs:
                return True
            for user, _ in self.users[value]:
                if kind_of(user) is Kind.VIRTUAL:
                    stack.extend(user.outputs)
        return False

    def _try_join(self, producer: Node, node: Node) -> None:
        before, own = self.group[producer], self.group[node]
        if before is own or not self._fits(before, own, producer, node):
            return
        if not self._acyclic(before, own):
            return
        self._merge(before, own)

    def _merge(self, before: _Group, own: _Group) -> None:
        before.nodes.extend(own.nodes)
        before.rows = before.rows or own.rows
        before.kind = _joined_kind(before, own)
        for n in own.nodes:
            self.group[n] = before

    def _fits(self, before: _Group, own: _Group, producer: Node, node: Node) -> bool:
        sole = not self._is_output(producer) and all(self.group.get(r) is own for r in self._readers(producer))
        if before.kind is Kind.ROW and own.kind in (Kind.ROW, Kind.POINTWISE):
            return self._fits_rows(before, own, node)
        if not sole:
            return False
        same_space = _result_space(producer) == _result_space(node) and self._reads_directly(node, producer)
        match before.kind, own.kind:
            case Kind.POINTWISE, Kind.POINTWISE:
                return same_space or _is_index_map(node)
            case ((Kind.CONTRACT | Kind.WINDOW), Kind.POINTWISE):
                return same_space and isinstance(node.op, Pointwise | Cast)
            case Kind.MOVE, Kind.POINTWISE:
                return same_space
            case Kind.POINTWISE, Kind.MOVE:
                return isinstance(node.op, _INDEX_MAPS) and producer.outputs[0].type.layout is None
            case Kind.POINTWISE, Kind.ROW:
                return own.rows is not None and producer.outputs[0].type.shape == own.rows[0]
            case _:
                return False

    def _reads_directly(self, node: Node, producer: Node) -> bool:
        return any(v.node is producer for v in node.inputs)

    def _fits_rows(self, before: _Group, own: _Group, node: Node) -> bool:
        """Rows of one space may share a region: its results then have the full space or that of the reduced rows."""
        if own.rows is not None:
            return own.rows == before.rows
        assert before.rows is not None
        shape, axes = before.rows
        reduced = tuple(n for i, n in enumerate(shape) if i not in axes)
        out = node.outputs[0].type
        squeezed = tuple(n for n in out.shape if n != 1)
        if out.layout is not None:
            return False
        return out.shape == shape or squeezed == tuple(n for n in reduced if n != 1)

    def _acyclic(self, before: _Group, own: _Group) -> bool:
        """Whether nothing outside both groups stands between them."""
        members = set(before.nodes)
        joined = members | set(own.nodes)
        stack = [p for n in own.nodes for p in self._producers(n) if p not in joined]
        seen: set[Node] = set()
        while stack:
            node = stack.pop()
            if node in members:
                return False
            if node in seen:
                continue
            seen.add(node)
            stack.extend(self._dependencies(node))
        return True

    def _dependencies(self, node: Node) -> list[Node]:
        """What `node` waits for: the operands of its whole group."""
        group = self.group.get(node)
        return [v.node for n in (group.nodes if group else [node]) for v in n.inputs if v.node is not None]

    def _absorb_prologues(self) -> None:
        """Join pointwise groups all of whose readers ended up in one region of the same space."""
        for node in reversed(self.graph.nodes):
            before = self.group.get(node)
            if (
                before is None
                or before.kind is not Kind.POINTWISE
                or before.nodes[-1] is not node
                or self._is_output(node)
            ):
                continue
            readers = {id(g): g for g in map(self.group.__getitem__, self._readers(node))}
            if len(readers) != 1:
                continue
            own = next(iter(readers.values()))
            if own.kind is Kind.ROW:
                fits = own.rows is not None and node.outputs[0].type.shape == own.rows[0]
            else:
                fits = own.kind is Kind.POINTWISE and _result_space(node) == _result_space(own.nodes[-1])
            if own is not before and fits and self._acyclic(before, own):
                before.nodes, own.nodes = [], before.nodes + own.nodes
                for n in own.nodes:
                    self.group[n] = own


def _joined_kind(before: _Group, own: _Group) -> Kind:
    for kind in (Kind.CONTRACT, Kind.WINDOW, Kind.ROW, Kind.POINTWISE):
        if kind in (before.kind, own.kind):
            return kind
    return before.kind


def _is_index_map(node: Node) -> bool:
    return isinstance(node.op, _INDEX_MAPS)


def _result_space(node: Node) -> tuple[object, ...]:
    """Shape and block of a node's result: what two nodes must share to be computed in one sweep."""
    out = node.outputs[0].type
    return out.shape, out.layout.block if out.layout else 1


class _Extractor:
    """Turns groups into Fused nodes, in an order that respects their dependencies."""

    def __init__(self, graph: Graph, group: dict[Node, _Group], users: dict[Value, list[tuple[Node, int]]]) -> None:
        self.graph, self.group, self.users = graph, group, users
        self.outputs = set(graph.outputs)
        self.b = GraphBuilder(graph.name)
        self.b.inputs, self.b.parameters, self.b.updates = list(graph.inputs), set(graph.parameters), graph.updates
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
        stack = [v for n in real for v in n.inputs]
        while stack:
            source = stack.pop().node
            if source is None or source in found or kind_of(source) is not Kind.VIRTUAL:
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
        last = nodes[-1]
        fused = Node(op, [self.new[v] for v in operands], [v.type for v in results], last.name, last.location)
        self.b.append(fused)
        self.new.update(zip(results, fused.outputs, strict=True))

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
