"""Joins primitives into calls, each of which is compiled as one function."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...ir.dialects.core import LQ, LU, Call, Cond, Constant, HostCallback, Scan, SymmetricEigen, While
from ...ir.graph import Graph, GraphBuilder, Node, Value
from ...ir.lazy_dataclass import dataclass
from ...passes.manager import Context, Pass
from ...passes.plan_memory import find_prepared

APART = (Cond, HostCallback, LQ, LU, Scan, SymmetricEigen, While)
"""Steps of their own: branches and loops run other steps, and the host computes the others."""

_LARGEST_CONSTANT = 1 << 10
"""Bytes of a constant that is part of the text of a module; larger ones are constants of the program."""


@dataclass(frozen=True)
class Outline(Pass):
    """Replace primitives by calls of graphs that contain them, as few as the order of the other nodes allows.

    What depends only on parameters is in calls of its own, which run once. Small constants are copied into each call.
    Needs: core without regions and layouts. Keeps: values, and the nodes that are steps of their own.
    """

    name = "outline"

    def run(self, graph: Graph, context: Context) -> Graph:
        outliner = _Outliner(graph)
        for nodes in _calls_in_order(graph):
            if isinstance(nodes[0].op, APART):
                outliner.keep(nodes[0])
            else:
                outliner.call(nodes)
        return outliner.graph()


def _calls_in_order(graph: Graph) -> list[list[Node]]:
    """The nodes of each call, and each node that is a step of its own; without the constants.

    The stage of a node is the most steps of their own on a way to it. A call has all other nodes of a stage: those that
    depend only on parameters, or the rest.
    """
    prepared = find_prepared(graph)
    stages: dict[Value, int] = {}
    groups: dict[tuple[int, bool, int], list[Node]] = {}
    for number, node in enumerate(graph.nodes):
        stage = max((stages.get(v, 0) for v in node.inputs), default=0)
        apart = isinstance(node.op, APART)
        stages.update((v, stage + apart) for v in node.outputs)
        if not isinstance(node.op, Constant):
            rank = number if apart else int(node.outputs[0] not in prepared)
            groups.setdefault((stage, apart, rank), []).append(node)
    return [groups[key] for key in sorted(groups)]


class _Outliner:
    """Builds the graph of calls. `values` maps values of the old graph to those of the new one."""

    def __init__(self, graph: Graph) -> None:
        self.old, self.users, self.outputs = graph, graph.users(), frozenset(graph.outputs)
        self.values: dict[Value, Value] = {v: v for v in graph.inputs}
        self.nodes: list[Node] = []

    def keep(self, node: Node) -> None:
        """Add a node as it is."""
        self._append(node.on([self._outer(v) for v in node.inputs]), node.outputs)

    def call(self, nodes: Sequence[Node]) -> None:
        """Add a call of the graph of these nodes."""
        inside, results = {v for n in nodes for v in n.outputs}, self._results(nodes)
        b = GraphBuilder(self.old.name)
        known: dict[Value, Value] = {}
        operands: list[Value] = []
        for value in dict.fromkeys(v for n in nodes for v in n.inputs if v not in inside):
            if value.node is not None and _is_small_constant(value.node):
                known[value] = b.add_node(value.node.op, name=value.node.name)
            else:
                operands.append(self._outer(value))
                known[value] = b.input(value.type, value.name)
        for node in nodes:
            copy = b.node(node.op, *(known[v] for v in node.inputs), name=node.name, location=node.location)
            known.update(zip(node.outputs, copy.outputs, strict=True))
        op = Call(b.build([known[v] for v in results]))
        self._append(Node(op, operands, [v.type for v in results]), results)

    def graph(self) -> Graph:
        """The graph of the calls and nodes so far."""
        outputs = tuple([self._outer(v) for v in self.old.outputs])
        return replace(self.old, nodes=tuple(self.nodes), outputs=outputs)

    def _results(self, nodes: Sequence[Node]) -> list[Value]:
        """The results of nodes that others read."""
        members = set(nodes)
        produced = [v for n in nodes for v in n.outputs]
        return [v for v in produced if v in self.outputs or any(user not in members for user, _ in self.users[v])]

    def _append(self, node: Node, results: Sequence[Value]) -> None:
        self.nodes.append(node)
        self.values.update(zip(results, node.outputs, strict=True))

    def _outer(self, value: Value) -> Value:
        """The value in the new graph, to which its constants are added when they are first read."""
        if value not in self.values:
            assert value.node is not None
            self._append(value.node.on(()), value.node.outputs)
        return self.values[value]


def _is_small_constant(node: Node) -> bool:
    return isinstance(node.op, Constant) and node.outputs[0].type.nbytes <= _LARGEST_CONSTANT
