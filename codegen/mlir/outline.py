"""Joins primitives into calls, each of which is compiled as one function."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...ir.dialects.core import (
    Broadcast,
    Call,
    Cond,
    Constant,
    Conv,
    HostCallback,
    Scan,
    Transpose,
    While,
)
from ...ir.graph import Graph, GraphBuilder, Node, Value
from ...ir.lazy_dataclass import dataclass
from ...passes.manager import Context, Pass
from ...passes.plan_memory import find_prepared

APART = (Cond, HostCallback, Scan, While)
"""Steps of their own: branches and loops run other steps, and Python functions are called."""

_LARGEST_CONSTANT = 1 << 10
"""Bytes of a constant that is part of the text of a module; larger ones are constants of the program."""


@dataclass(frozen=True)
class Outline(Pass):
    """Replace primitives by calls of graphs that contain them, as few as the order of the other nodes allows.

    What depends only on parameters is in calls of its own, which run once. Small constants, broadcasts, and transposes
    that only convolutions read are copied into each call. Needs: core without regions and layouts. Keeps: values, and
    the nodes that are steps of their own.
    """

    name = "outline"

    def run(self, graph: Graph, context: Context) -> Graph:
        outliner = _Outliner(graph)
        for nodes in outliner.calls_in_order():
            if isinstance(nodes[0].op, APART):
                outliner.keep(nodes[0])
            else:
                outliner.call(nodes)
        return outliner.graph()


class _Outliner:
    """Builds the graph of calls. `values` maps values of the old graph to those of the new one."""

    def __init__(self, graph: Graph) -> None:
        self.old, self.users, self.outputs = graph, graph.users(), frozenset(graph.outputs)
        self.copied = {node for node in graph.nodes if self._is_copied(node)}
        self.values: dict[Value, Value] = {v: v for v in graph.inputs}
        self.nodes: list[Node] = []

    def calls_in_order(self) -> list[list[Node]]:
        """The nodes of each call, and each node that is a step of its own; without constants and copied nodes.

        The stage of a node is the most steps of their own on a way to it. A call has all other nodes of a stage: those
        that depend only on parameters, or the rest.
        """
        prepared = find_prepared(self.old)
        stages: dict[Value, int] = {}
        groups: dict[tuple[int, bool, int], list[Node]] = {}
        for number, node in enumerate(self.old.nodes):
            stage = max((stages.get(v, 0) for v in node.inputs), default=0)
            apart = isinstance(node.op, APART)
            stages.update((v, stage + apart) for v in node.outputs)
            if not isinstance(node.op, Constant) and node not in self.copied:
                rank = number if apart else int(node.outputs[0] not in prepared)
                groups.setdefault((stage, apart, rank), []).append(node)
        return [groups[key] for key in sorted(groups)]

    def keep(self, node: Node) -> None:
        """Add a node as it is."""
        self._append(node.on([self._outer(v) for v in node.inputs]), node.outputs)

    def call(self, nodes: Sequence[Node]) -> None:
        """Add a call of the graph of these nodes."""
        call = _Body(self.old.name, self.copied)
        for node in nodes:
            call.add(node)
        results = self._results(nodes)
        body = call.builder.build([call.values[v] for v in results])
        operands = [self._outer(v) for v in call.operands]
        self._append(Node(Call(body), operands, [v.type for v in results]), results)

    def graph(self) -> Graph:
        """The graph of the calls and nodes so far."""
        outputs = tuple([self._outer(v) for v in self.old.outputs])
        return replace(self.old, nodes=tuple(self.nodes), outputs=outputs)

    def _is_copied(self, node: Node) -> bool:
        result = node.outputs[0]
        if isinstance(node.op, Constant):
            return result.type.nbytes <= _LARGEST_CONSTANT
        readers = [user.op for user, _ in self.users[result]]
        if result in self.outputs or any(isinstance(op, APART) for op in readers):
            return False
        weights = isinstance(node.op, Transpose) and bool(readers) and all(isinstance(op, Conv) for op in readers)
        return weights or isinstance(node.op, Broadcast)

    def _results(self, nodes: Sequence[Node]) -> list[Value]:
        """The results of nodes that others read."""
        members = set(nodes)
        produced = [v for n in nodes for v in n.outputs]
        return [v for v in produced if v in self.outputs or self._is_read_by_others(v, members)]

    def _is_read_by_others(self, value: Value, members: set[Node]) -> bool:
        return any(
            self._is_read_by_others(user.outputs[0], members) if user in self.copied else user not in members
            for user, _ in self.users[value]
        )

    def _append(self, node: Node, results: Sequence[Value]) -> None:
        self.nodes.append(node)
        self.values.update(zip(results, node.outputs, strict=True))

    def _outer(self, value: Value) -> Value:
        """The value in the new graph, to which its constants are added when they are first read."""
        if value not in self.values:
            assert value.node is not None
            self._append(value.node.on(()), value.node.outputs)
        return self.values[value]


class _Body:
    """The graph of a call under construction; `operands` are the values of the outer graph that it reads."""

    def __init__(self, name: str, copied: set[Node]) -> None:
        self.builder, self.copied = GraphBuilder(name), copied
        self.values: dict[Value, Value] = {}
        self.operands: list[Value] = []

    def add(self, node: Node) -> None:
        """Add a node, after the copied nodes that it reads."""
        operands = [self._value(v) for v in node.inputs]
        copy = self.builder.node(node.op, *operands, name=node.name, location=node.location)
        self.values.update(zip(node.outputs, copy.outputs, strict=True))

    def _value(self, value: Value) -> Value:
        if value not in self.values:
            if value.node in self.copied:
                self.add(value.node)
            else:
                self.operands.append(value)
                self.values[value] = self.builder.input(value.type, value.name)
        return self.values[value]
