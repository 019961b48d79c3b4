"""Replaces groups of nodes by Fused nodes whose bodies are the groups."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import replace

from ..ir.dialects.core import Constant, Fused, Reshape
from ..ir.graph import Graph, GraphBuilder, Node, Value
from ..ir.lazy_dataclass import dataclass
from .groups import Group
from .kinds import Kind, kind_of, windowed_operands


def extract_regions(graph: Graph, group_of: Mapping[Node, Group], copied: Container[Node] = ()) -> Graph:
    """The graph with each group replaced by a Fused node. Virtual nodes, and those in `copied`, which are in no group,
    are copied into every region that reads them, except operands over which windows slide, which are values in memory.
    """
    return _Extractor(graph, group_of, copied).run()


@dataclass(frozen=True, kw_only=True)
class _Region:
    """Nodes in order, including the virtual nodes that they read; their operands; the results that other nodes read.

    A region of kind OPAQUE is a single node that is not replaced.
    """

    kind: Kind
    nodes: Sequence[Node]
    operands: Sequence[Value]
    results: Sequence[Value]


class _Extractor:
    """Emits the regions that outputs of the graph depend on, each after the regions that it reads. Outputs that the
    graph computes first are first: what only they read is not kept until the others are computed."""

    def __init__(self, graph: Graph, group_of: Mapping[Node, Group], copied: Container[Node]) -> None:
        self.graph, self.group_of, self.copied = graph, group_of, copied
        self.users, self.outputs = graph.users(), frozenset(graph.outputs)
        self.order = {n: i for i, n in enumerate(graph.nodes)}
        self.computed: dict[Value, Value] = {v: v for v in graph.inputs}
        self.nodes: list[Node] = []

    def run(self) -> Graph:
        for value in sorted(self.graph.outputs, key=lambda v: self.order[v.node] if v.node is not None else -1):
            self._need(value)
        outputs = tuple(self.computed[v] for v in self.graph.outputs)
        return replace(self.graph, nodes=tuple(self.nodes), outputs=outputs)

    def _need(self, value: Value) -> None:
        """Emit the region of `value` after the regions of its operands. Uses an explicit stack: graphs are deeper than
        Python's recursion limit."""
        stack: list[Value | _Region] = [value]
        while stack:
            current = stack.pop()
            if isinstance(current, _Region):
                if current.results[0] not in self.computed:
                    self._emit(current)
            elif current not in self.computed:
                region = self._region(current)
                stack.append(region)
                stack.extend(v for v in dict.fromkeys(region.operands) if v not in self.computed)

    # -- regions

    def _region(self, value: Value) -> _Region:
        """The region that computes `value`."""
        assert value.node is not None
        node, group = value.node, self.group_of.get(value.node)
        if group is None and isinstance(node.op, Reshape | Constant):
            return _Region(kind=Kind.OPAQUE, nodes=(node,), operands=node.inputs, results=node.outputs)
        if group is not None and group.kind in (Kind.OPAQUE, Kind.JOIN):
            return _Region(kind=group.kind, nodes=(node,), operands=node.inputs, results=node.outputs)
        members = group.nodes if group is not None else [node]
        nodes = self._with_virtual_nodes(members)
        inside = {v for n in nodes for v in n.outputs}
        operands = dict.fromkeys(v for n in nodes for v in n.inputs if v not in inside)
        kind = group.kind if group is not None else Kind.POINTWISE
        return _Region(kind=kind, nodes=nodes, operands=tuple(operands), results=self._results(members, set(nodes)))

    def _with_virtual_nodes(self, members: Sequence[Node]) -> list[Node]:
        """The members of a region and the virtual nodes that they read, in graph order."""
        nodes = dict.fromkeys(members)
        stored = {v.node for n in members for v in windowed_operands(n)}
        stack = [v for n in members for v in n.inputs]
        while stack:
            source = stack.pop().node
            if source is None or source in nodes or source in stored or not self._is_copied(source):
                continue
            nodes[source] = None
            stack.extend(source.inputs)
        return sorted(nodes, key=self.order.__getitem__)

    def _is_copied(self, node: Node) -> bool:
        return kind_of(node) is Kind.VIRTUAL or node in self.copied

    def _results(self, members: Sequence[Node], inside: set[Node]) -> list[Value]:
        """The members' values that are read outside the region, directly or through virtual nodes."""
        ordered = sorted(members, key=self.order.__getitem__)
        return [v for n in ordered for v in n.outputs if self._is_read_outside(v, inside)]

    def _is_read_outside(self, value: Value, inside: set[Node]) -> bool:
        if value in self.outputs:
            return True
        return any(
            user not in inside
            or (user not in self.group_of and any(self._is_read_outside(v, inside) for v in user.outputs))
            for user, _ in self.users[value]
        )

    # -- Fused nodes

    def _emit(self, region: _Region) -> None:
        last = region.nodes[-1]
        operands = [self.computed[v] for v in region.operands]
        if region.kind is Kind.OPAQUE:
            new = self._unchanged(last, operands)
        else:
            op = Fused(_body(region), region.kind.value)
            new = Node(op, operands, [v.type for v in region.results], last.name, last.location)
        self.nodes.append(new)
        self.computed.update(zip(region.results, new.outputs, strict=True))

    def _unchanged(self, node: Node, operands: Sequence[Value]) -> Node:
        return node if tuple(operands) == node.inputs else node.on(operands)


def _body(region: _Region) -> Graph:
    """The nodes of a region as a graph. A concatenation has one input per operand, even if two operands are the same
    value, because each is a separate piece."""
    b = GraphBuilder("region")
    inputs = [b.input(v.type, v.name) for v in region.operands]
    if region.kind is Kind.JOIN:
        b.append(region.nodes[0].on(inputs))
        return b.build(b.nodes[0].outputs)
    copies = dict(zip(region.operands, inputs, strict=True))
    for node in region.nodes:
        b.append(node.on([copies[v] for v in node.inputs]))
        copies.update(zip(node.outputs, b.nodes[-1].outputs, strict=True))
    return b.build([copies[v] for v in region.results])
