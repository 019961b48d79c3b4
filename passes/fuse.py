"""Groups core nodes into regions, each of which becomes one kernel."""

from __future__ import annotations

from dataclasses import dataclass

from ..ir.dialects.core import Cast, Pointwise, Reverse, Slice
from ..ir.graph import Graph, Node
from .manager import Context, Pass
from .regions import INDEX_MAPS, Group, Kind, extract_regions, kind_of
from .row_reads import reads_own_rows


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


_MOST_RESULTS = 8  # of one region: all of them wait in registers until the last is computed


class _Fuser:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.users = graph.users()
        self.outputs = set(graph.outputs)
        self.order = {n: i for i, n in enumerate(graph.nodes)}
        self.group: dict[Node, Group] = {}

    def run(self) -> Graph:
        for node in self.graph.nodes:
            kind = kind_of(node)
            if kind is Kind.VIRTUAL:
                continue
            self.group[node] = Group(kind, node)
            for producer in self._producers(node):
                self._try_join(producer, node)
        self._absorb_prologues()
        return extract_regions(self.graph, self.group)

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
        if not self._acyclic(before, own) or not self._keeps_rows(before, own):
            return
        self._merge(before, own)

    def _keeps_rows(self, before: Group, own: Group) -> bool:
        """Whether both groups as one would read their reductions at their own rows only."""
        rows = before.rows or own.rows
        if rows is None or all(rows[0].count(n) == 1 for n in rows[0] if n != 1):  # extents tell the axes apart
            return True
        members = {*before.nodes, *own.nodes}
        between: set[Node] = set()
        stack = [v for n in members for v in n.inputs]
        while stack:
            source = stack.pop().node
            if source is not None and source not in between and kind_of(source) is Kind.VIRTUAL:
                between.add(source)
                stack.extend(source.inputs)
        return reads_own_rows(sorted(members | between, key=self.order.__getitem__), rows)

    def _merge(self, before: Group, own: Group) -> None:
        before.nodes.extend(own.nodes)
        before.rows = before.rows or own.rows
        before.kind = _joined_kind(before, own)
        for n in own.nodes:
            self.group[n] = before

    def _fits(self, before: Group, own: Group, producer: Node, node: Node) -> bool:
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
                return (
                    isinstance(node.op, INDEX_MAPS)
                    and producer.outputs[0].type.layout is None
                    and _keeps_channels(before, node)
                )
            case Kind.POINTWISE, Kind.ROW:
                return own.rows is not None and producer.outputs[0].type.shape == own.rows[0]
            case _:
                return False

    def _reads_directly(self, node: Node, producer: Node) -> bool:
        return any(v.node is producer for v in node.inputs)

    def _fits_rows(self, before: Group, own: Group, node: Node) -> bool:
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

    def _acyclic(self, before: Group, own: Group) -> bool:
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
        """Join pointwise groups all of whose readers ended up in one region of the same space. A result of the graph
        may join one in which nothing moves: the region then has several results of one shape."""
        for node in reversed(self.graph.nodes):
            before = self.group.get(node)
            if before is None or before.kind is not Kind.POINTWISE or before.nodes[-1] is not node:
                continue
            readers = {id(g): g for g in map(self.group.__getitem__, self._readers(node))}
            if len(readers) != 1:
                continue
            own = next(iter(readers.values()))
            if self._is_output(node) and not self._may_have_results(before, own):
                continue
            if own.kind is Kind.ROW:
                fits = own.rows is not None and node.outputs[0].type.shape == own.rows[0]
            else:
                fits = own.kind is Kind.POINTWISE and _result_space(node) == _result_space(own.nodes[-1])
            if own is not before and fits and self._acyclic(before, own) and self._keeps_rows(before, own):
                before.nodes, own.nodes = [], before.nodes + own.nodes
                for n in own.nodes:
                    self.group[n] = own

    def _may_have_results(self, before: Group, own: Group) -> bool:
        """Whether two groups compute each element of their few results from the elements at the same place."""
        nodes = (*before.nodes, *own.nodes)
        flat = all(isinstance(n.op, Pointwise | Cast) for n in nodes)
        return flat and sum(map(self._is_output, nodes)) <= _MOST_RESULTS


def _joined_kind(before: Group, own: Group) -> Kind:
    for kind in (Kind.CONTRACT, Kind.WINDOW, Kind.ROW, Kind.POINTWISE):
        if kind in (before.kind, own.kind):
            return kind
    return before.kind


def _is_index_map(node: Node) -> bool:
    return isinstance(node.op, INDEX_MAPS)


def _result_space(node: Node) -> tuple[object, ...]:
    """Shape and block of a node's result: what two nodes must share to be computed in one sweep."""
    out = node.outputs[0].type
    return out.shape, out.layout.block if out.layout else 1


def _keeps_channels(before: Group, node: Node) -> bool:
    """Whether blocks of channels stay whole under an index map: one that shifts or turns round an axis breaks them."""
    if not isinstance(node.op, Slice | Reverse):
        return True
    return not any(v.type.layout for n in before.nodes for v in (*n.inputs, *n.outputs))
