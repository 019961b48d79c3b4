"""Splits a graph with gradients into a forward and a backward graph, and selects the residuals between them.

Every node that the gradients depend on is on one of two sides. The forward graph computes it and saves the values that
the other side reads, or the backward graph computes it (again, if the forward graph needs it too). Saving costs bytes,
recomputing costs work (`recompute_cost.py`); a minimum cut of the graph of these costs has the lowest total. Nodes that
are never recomputed and nodes that depend on a cotangent have a fixed side, so the remaining nodes form small connected
components, which are cut separately.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain

from ..ir.dialects.core import Constant, without_dead_nodes
from ..ir.dialects.core.split import Source, Split
from ..ir.graph import Graph, GraphBuilder, Node, Value
from ..ir.rewrite import repeat
from ..ir.symbolic import typical
from .minimum_cut import MinimumCut
from .recompute_cost import has_own_kernel, keeping_cost, moves_only, reads_memory, recomputing_cost


def partition(
    joint: Graph,
    cotangents: int,
    gradients: int,
    free_inputs: Collection[int] | None = None,
    free_outputs: Collection[int] | None = None,
    price: int = 1,
) -> Split:
    """The forward and the backward graph of `differentiate`'s result; see `Split`.

    The last `cotangents` inputs are cotangents. The last `gradients` outputs before those of checks and those that
    update inputs are gradients. Saving an input or output at a free position costs nothing: by default all outputs, and
    all inputs that the forward graph does not update. Contractions, random draws, sorts, factorizations and loops are
    never recomputed. The backward graph does the late updates of `joint`. Saving a byte costs `price` times its
    traffic: at a high price less is saved and more is recomputed.
    """
    graph = _Joint(joint, cotangents, gradients)
    if free_inputs is None:
        free_inputs = [i for i in range(len(graph.inputs)) if i not in graph.updated]
    if free_outputs is None:
        free_outputs = range(len(graph.outputs))
    places = {v: Source(i, False) for i, v in reversed(list(enumerate(graph.outputs))) if i in free_outputs}
    places.update({v: Source(i, True) for i, v in enumerate(graph.inputs) if i in free_inputs})
    order = graph.backward_order(_Cut(graph, places, price).recomputed())
    return _split(graph, order, places)


class _Joint:
    """The parts of a graph with gradients, and the dependencies of its nodes."""

    def __init__(self, graph: Graph, cotangents: int, gradients: int) -> None:
        self.graph = graph
        end = graph.num_results
        self.outputs, self.gradients = graph.outputs[: end - gradients], graph.outputs[end - gradients : end]
        self.flags = graph.outputs[end : end + len(graph.checks)]
        """The outputs of checks."""
        updated = dict(zip(graph.updates, graph.outputs[end + len(graph.checks) :], strict=True))
        self.updated = {i: v for i, v in updated.items() if i not in graph.late}
        self.updated_late = {i: v for i, v in updated.items() if i in graph.late}
        count = len(graph.inputs) - cotangents
        self.inputs, self.cotangents = graph.inputs[:count], dict.fromkeys(graph.inputs[count:])
        self.results = (*self.gradients, *self.updated_late.values())
        """What the backward graph returns."""
        self.needed = _needed(graph.nodes, self.results)
        self.forward = _needed(graph.nodes, (*self.outputs, *self.flags, *self.updated.values()))
        self.late = self._late_nodes()

    def _late_nodes(self) -> set[Node]:
        """The nodes that the backward graph must compute: nodes that depend on a cotangent, nodes with their own kernel
        that the forward graph does not need, and all nodes that depend on these."""
        reached = set(self.cotangents)
        late: set[Node] = set()
        for node in self.graph.nodes:
            unneeded = node not in self.forward and recomputing_cost(node) is None
            if unneeded or not reached.isdisjoint(node.inputs):
                late.add(node)
                reached.update(node.outputs)
        return late

    def is_late(self, value: Value) -> bool:
        """True if only the backward graph computes or receives the value."""
        return value.node in self.late or value in self.cotangents

    def backward_order(self, recomputed: set[Node]) -> list[Node]:
        """The nodes of the backward graph in order; recomputed nodes directly precede their first reader."""
        done: set[Node] = set()
        order: list[Node] = []
        last = _producers(self.results, recomputed)
        for node in chain((n for n in self.graph.nodes if n in self.needed and n in self.late), last):
            order += _with_operands(node, recomputed, done)
        return order


def _producers(values: Iterable[Value], among: set[Node]) -> list[Node]:
    """The nodes in `among` that compute the values."""
    return [v.node for v in values if v.node is not None and v.node in among]


def _needed(nodes: Sequence[Node], values: Iterable[Value]) -> set[Node]:
    """The nodes that `values` depend on."""
    live = set(values)
    needed: set[Node] = set()
    for node in reversed(nodes):
        if not live.isdisjoint(node.outputs):
            needed.add(node)
            live.update(node.inputs)
    return needed


def _with_operands(node: Node, recomputed: set[Node], done: set[Node]) -> Iterator[Node]:
    """The node, preceded by the nodes of `recomputed` that it depends on and that are not in `done`."""
    stack = [node]
    while stack:
        top = stack[-1]
        missing = [n for n in _producers(top.inputs, recomputed) if n not in done]
        stack += missing
        if missing:
            continue
        stack.pop()
        if top not in done:
            done.add(top)
            yield top


# -- the cut


class _Cut:
    """The costs as a graph with capacities: nodes and values on the source's side belong to the forward graph.

    source -> node: the cost of recomputing it. node -> value: the cost of saving a value for a reader on the other
    side. Vertices are the nodes whose side is not fixed, and the values that several of them read.
    """

    def __init__(self, graph: _Joint, free: Collection[Value], price: int) -> None:
        self.graph, self.free, self.price = graph, free, price
        self.cut: MinimumCut[Node | Value] = MinimumCut()
        self.open = {n for n in graph.needed - graph.late if n not in graph.forward or recomputing_cost(n) is not None}
        self.readers = self._readers()
        self.results = frozenset(graph.results)
        self.stored = {*graph.inputs, *self._read_by_kernels(graph.forward)}
        """Values that the forward graph has in memory in any case."""
        self.stored.update(v for n in graph.forward if has_own_kernel(n) for v in n.outputs)
        self.read_by_kernels = self._read_by_kernels(graph.late & graph.needed)

    def recomputed(self) -> set[Node]:
        """The nodes that both sides could compute and that the cut assigns to the backward graph."""
        for node in self.graph.graph.nodes:
            if node in self.open:
                self._add_node(node)
        for value in self.readers:
            if value not in self.free:
                self._add_value(value)
        later = self.cut.sink_side()
        return {n for n in self.open if n in later}

    def _readers(self) -> dict[Value, list[Node]]:
        """The nodes that read each value of the forward graph for the gradients."""
        graph = self.graph
        readers: dict[Value, list[Node]] = {}
        for node in (n for n in graph.graph.nodes if n in graph.needed):
            for value in dict.fromkeys(node.inputs):
                if not graph.is_late(value):
                    readers.setdefault(value, []).append(node)
        readers.update((v, []) for v in graph.results if v not in readers and not graph.is_late(v))
        return readers

    def _add_node(self, node: Node) -> None:
        self.cut.add_vertex(node)
        if node in self.graph.forward:
            self.cut.add_source(node, typical(self._cost_again(node)))
            return
        for producer in _producers(node.inputs, self.open):
            if producer not in self.graph.forward:  # on the forward side only if its operands are
                self.cut.add_edge(node, producer)

    def _cost_again(self, node: Node) -> int:
        """The work of recomputing a node, and the memory traffic for results that kernels on the backward side read."""
        cost = recomputing_cost(node)
        assert cost is not None
        free = moves_only(node) or isinstance(node.op, Constant)
        written = [] if free else [v for v in node.outputs if v in self.read_by_kernels]
        return cost + sum(keeping_cost(v, True) for v in written)

    def _read_by_kernels(self, nodes: Collection[Node]) -> set[Value]:
        """Values that nodes of `nodes` read from memory, directly or through moves."""
        read: set[Value] = set()
        for node in reversed(self.graph.graph.nodes):
            reads = node in nodes and reads_memory(node)
            if reads or (moves_only(node) and not read.isdisjoint(node.outputs)):
                read.update(node.inputs)
        return read

    def _add_value(self, value: Value) -> None:
        readers, cost = self.readers[value], typical(self.price * keeping_cost(value, value in self.stored))
        producer = value.node if value.node in self.open else None
        if value in self.results or not self.graph.late.isdisjoint(readers):
            if producer is not None:  # if computed on the forward side, it is saved
                self.cut.add_sink(producer, cost)
            return
        later = [n for n in readers if n in self.open]
        if not later:
            return
        if producer is None:
            self.cut.add_source(value, cost)
        else:
            self.cut.add_edge(producer, value, cost)
        for node in later:
            self.cut.add_edge(value, node)


# -- the two graphs


def _split(graph: _Joint, order: Sequence[Node], places: dict[Value, Source]) -> Split:
    computed = {v for n in order for v in n.outputs} | graph.cotangents.keys()
    states = [graph.inputs[i] for i in graph.updated_late]
    read = dict.fromkeys(v for v in chain(*(n.inputs for n in order), graph.results, states) if v not in computed)
    kept = [v for v in read if v not in places]
    places = {**places, **{v: Source(len(graph.outputs) + i, False) for i, v in enumerate(kept)}}
    residuals = tuple(places[v] for v in read)
    forward = _forward(graph, kept)
    return Split(forward, _backward(graph, order, list(read), residuals), residuals)


def _forward(graph: _Joint, kept: Sequence[Value]) -> Graph:
    joint = graph.graph
    parameters = frozenset(i for i in joint.parameters if i < len(graph.inputs))
    outputs = (*graph.outputs, *kept, *graph.flags, *graph.updated.values())
    forward = replace(
        joint,
        inputs=graph.inputs,
        outputs=outputs,
        parameters=parameters,
        updates=tuple(graph.updated),
        late=frozenset(),
    )
    return without_dead_nodes(forward)


def _backward(graph: _Joint, order: Sequence[Node], read: Sequence[Value], residuals: Sequence[Source]) -> Graph:
    b = GraphBuilder(f"{graph.graph.name}_backward")
    new: dict[Value, Value] = {}
    for value, source in zip(read, residuals, strict=True):
        parameter = source.is_input and source.position in graph.graph.parameters
        new[value] = b.input(value.type, value.name, parameter=parameter)
    new.update({v: b.input(v.type, v.name) for v in graph.cotangents})
    repeat(b, order, new)
    b.updates = tuple(new[graph.inputs[i]].index for i in graph.updated_late)
    return b.build([new[v] for v in graph.results])
