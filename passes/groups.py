"""Groups of nodes that become regions: an acyclic graph in which groups are merged.

    flow   = Dataflow(producers, readers, leaving)           which nodes read which, through virtual nodes
    group  = Group(kind, nodes, last, rows, level, inputs, readers)
    groups = GroupGraph(graph)                               add(node), closes_cycle(before, own), merge(before, own)

A group's level is greater than the levels of all groups that it reads. So a path between two groups contains only
groups of levels between theirs, and a search for one visits few groups.
"""

from __future__ import annotations

from dataclasses import field
from heapq import heappop, heappush

from ..ir.dialects.core import Reduce
from ..ir.graph import Graph, Node, Value
from ..ir.lazy_dataclass import dataclass
from .kinds import Kind, kind_of
from .row_reads import Rows

MAX_RESULTS = 8
"""The most results of a region: all are held in registers until the last is computed."""


@dataclass(frozen=True, kw_only=True)
class Dataflow:
    """Which nodes read which. Virtual nodes are transparent: their readers read their operands.

    `producers` of a node are in order from its last operand to its first. `leaving` are the nodes whose results are
    outputs of the graph.
    """

    producers: dict[Node, list[Node]]
    readers: dict[Node, list[Node]]
    leaving: frozenset[Node]


def find_dataflow(graph: Graph) -> Dataflow:
    """The dataflow between the non-virtual nodes of `graph`."""
    producers: dict[Node, list[Node]] = {}
    readers: dict[Node, list[Node]] = {}
    source: dict[Value, Node] = {}
    for node in graph.nodes:
        sources = list(dict.fromkeys(source[v] for v in reversed(node.inputs) if v in source))
        if kind_of(node) is Kind.VIRTUAL:
            source.update((v, sources[0]) for v in node.outputs if sources)
            continue
        producers[node], readers[node] = sources, []
        source.update((v, node) for v in node.outputs)
        for producer in sources:
            readers[producer].append(node)
    leaving = frozenset(source[v] for v in graph.outputs if v in source)
    return Dataflow(producers=producers, readers=readers, leaving=leaving)


@dataclass(eq=False, slots=True, kw_only=True)
class Group:
    """Nodes that become one region. `last` is the last of them in graph order.

    `rows` are those of a ROW group. `inputs` and `readers` are other groups.
    """

    kind: Kind
    nodes: list[Node]
    last: Node
    rows: Rows | None
    level: int = 0
    inputs: dict[Group, None] = field(default_factory=dict["Group", None])
    readers: dict[Group, None] = field(default_factory=dict["Group", None])

    @property
    def size(self) -> int:
        return len(self.nodes) + len(self.inputs) + len(self.readers)


class GroupGraph:
    """The groups of the nodes added so far. `steps` counts the groups visited by searches and merges."""

    def __init__(self, flow: Dataflow) -> None:
        self.flow = flow
        self.of: dict[Node, Group] = {}
        self.steps = 0

    def add(self, node: Node) -> Group:
        """Create a group with the single node `node`. The groups that it reads must be in the graph."""
        group = Group(kind=kind_of(node), nodes=[node], last=node, rows=_rows_of(node))
        for producer in self.flow.producers[node]:
            before = self.of[producer]
            group.inputs[before] = before.readers[group] = None
        group.level = 1 + max((g.level for g in group.inputs), default=-1)
        self.of[node] = group
        return group

    def closes_cycle(self, before: Group, own: Group) -> bool:
        """True if `own`, which reads `before`, also depends on it through a third group.

        Two searches, from `before` along readers and from `own` along inputs, alternate by cost until they meet or one
        of them is exhausted.
        """
        forward, backward = _Search(before, own, direction=1), _Search(own, before, direction=-1)
        met = False
        while not met and forward.open and backward.open:
            near, far = (forward, backward) if forward.cost <= backward.cost else (backward, forward)
            met = near.advance(far.reached)
        self.steps += forward.steps + backward.steps
        return met

    def merge(self, before: Group, own: Group) -> Group:
        """Merge both groups. `own` reads `before`, and no path connects them through a third group."""
        floor, is_last = before.level, len(before.readers) == 1
        level = own.level if is_last else self._merged_level(before, own)
        kept, taken = (before, own) if before.size >= own.size else (own, before)
        self.steps += taken.size
        kept.kind, kept.last, kept.rows = _joined_kind(before, own), own.last, before.rows or own.rows
        kept.nodes += taken.nodes
        self.of.update((n, kept) for n in taken.nodes)
        for g in taken.inputs:
            del g.readers[taken]
            if g is not kept:
                g.readers[kept] = kept.inputs[g] = None
        for g in taken.readers:
            del g.inputs[taken]
            if g is not kept:
                g.inputs[kept] = kept.readers[g] = None
        kept.level = level
        if level > floor and not is_last:  # the readers of `own` are above its level
            self._raise_readers(kept)
        return kept

    def _merged_level(self, before: Group, own: Group) -> int:
        """The lowest level for both groups, which leaves the levels of most readers as they are."""
        self.steps += len(own.inputs)
        return max([before.level, *(1 + g.level for g in own.inputs if g is not before)])

    def _raise_readers(self, group: Group) -> None:
        """Raise the levels of the groups after `group` above those of their inputs, ordered by their old levels."""
        raised: dict[Group, int] = {group: group.level}
        order = [(group.level, 0, group)]
        while order:
            g = heappop(order)[2]
            g.level = raised[g]
            for reader in g.readers:
                self.steps += 1
                if reader.level > g.level:
                    continue
                if reader not in raised:
                    heappush(order, (reader.level, len(raised), reader))
                raised[reader] = max(raised.get(reader, 0), g.level + 1)


class _Search:
    """Visits the groups on paths from `origin` to `goal`, except the direct edge between them. Groups whose level is
    nearest to the goal's are expanded first."""

    def __init__(self, origin: Group, goal: Group, *, direction: int) -> None:
        """`direction` is 1 along readers, -1 along inputs."""
        self.origin, self.goal, self.direction = origin, goal, direction
        self.reached = {origin}
        self.open = [(0, 0, origin)]
        self.steps = 0

    @property
    def cost(self) -> int:
        """The number of visited groups after the next step."""
        return self.steps + len(self._edges(self.open[0][2]))

    def _edges(self, group: Group) -> dict[Group, None]:
        return group.readers if self.direction > 0 else group.inputs

    def advance(self, targets: set[Group]) -> bool:
        """Expand one group. True if this reaches one of `targets`."""
        group = heappop(self.open)[2]
        for other in self._edges(group):
            self.steps += 1
            if group is self.origin and other is self.goal:
                continue
            if other in targets:
                return True
            if other not in self.reached and (self.goal.level - other.level) * self.direction > 0:
                self.reached.add(other)
                heappush(self.open, (-self.direction * other.level, len(self.reached), other))
        return False


def _joined_kind(before: Group, own: Group) -> Kind:
    for kind in (Kind.CONTRACT, Kind.WINDOW, Kind.ROW, Kind.POINTWISE):
        if kind in (before.kind, own.kind):
            return kind
    return before.kind


def _rows_of(node: Node) -> Rows | None:
    """The rows that a reduction combines."""
    if not isinstance(node.op, Reduce):
        return None
    x = node.inputs[0].type
    return Rows(x.shape, node.op.axes, x.layout.block if x.layout else 1)
