"""Reverse-mode differentiation of nodes: the traversal that passes, loops, branches and calls share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from ...graph import Graph, GraphError, Node, Value
from .builder import CoreBuilder
from .primitive import Gradients, Primitive

Rule = Callable[[CoreBuilder, Node, Sequence[Value | None], Sequence[int]], Gradients]
"""Differentiates one node. Arguments: the builder, the node, the cotangent of each result (or None), the positions of
the operands whose cotangents are needed. Returns a cotangent or None for each operand."""


def vjp_of(b: CoreBuilder, node: Node, cotangents: Sequence[Value | None], needed: Sequence[int]) -> Gradients:
    """The rule of the node's primitive."""
    assert isinstance(node.op, Primitive)
    return node.op.pull(b, node, cotangents, needed)


def pull_back(
    b: CoreBuilder,
    nodes: Sequence[Node],
    cotangents: Mapping[Value, Value],
    wrt: Sequence[Value],
    rule: Rule = vjp_of,
) -> list[Value]:
    """Append the cotangents of `wrt` to `b`, from `cotangents` of results of `nodes`; zeros without dependence.

    Only nodes between `wrt` and these results are differentiated, each by `rule`; GraphError names a node without a
    gradient. As in MXNet, a loss among `nodes` has its own gradient even if no cotangent reaches it.
    """
    nodes = list(nodes)  # can be b.nodes itself, which grows
    active = active_values(nodes, wrt)
    sums = {v: g for v, g in cotangents.items() if v in active}
    location = b.location
    for node in reversed(nodes):
        of_outputs = [sums.get(v) for v in node.outputs]
        if None in of_outputs and not active.isdisjoint(node.inputs) and _has_own_cotangents(node):
            of_outputs = [_or_zeros(b, g, v) for g, v in zip(of_outputs, node.outputs, strict=True)]
        if all(g is None for g in of_outputs):
            continue
        b.location = node.location
        _pull_back_node(b, node, of_outputs, sums, active, rule)
    b.location = location
    return [sums[v] if v in sums else b.full_like(v, 0) for v in wrt]


def _has_own_cotangents(node: Node) -> bool:
    return isinstance(node.op, Primitive) and node.op.has_own_cotangents(node)


def _or_zeros(b: CoreBuilder, cotangent: Value | None, value: Value) -> Value | None:
    """The cotangent of a value: zeros if there is none, and None if the value can have none."""
    return b.full_like(value, 0) if cotangent is None and value.type.dtype.has_cotangent else cotangent


def active_values(nodes: Iterable[Node], wrt: Iterable[Value]) -> set[Value]:
    """The values that can have cotangents and depend on `wrt` through such values."""
    active = {v for v in wrt if v.type.dtype.has_cotangent}
    extend_active(active, nodes)
    return active


def extend_active(active: set[Value], nodes: Iterable[Node]) -> None:
    """Add the results of `nodes`, which follow those that `active` was made of; see `active_values`."""
    for node in nodes:
        if not active.isdisjoint(_differentiable(node)):
            active.update(v for v in node.outputs if v.type.dtype.has_cotangent)


def _differentiable(node: Node) -> Sequence[Value]:
    """The operands that can have a cotangent."""
    if not isinstance(node.op, Primitive):
        return node.inputs
    return [node.inputs[i] for i in node.op.differentiable(len(node.inputs))]


def _pull_back_node(
    b: CoreBuilder,
    node: Node,
    cotangents: Sequence[Value | None],
    sums: dict[Value, Value],
    active: set[Value],
    rule: Rule,
) -> None:
    if not isinstance(node.op, Primitive):
        raise GraphError(f"{node.describe()} is not a core primitive: decompose the graph before it is differentiated")
    first = len(b.nodes)
    needed = [i for i, v in enumerate(node.inputs) if v in active]
    for operand, g in zip(node.inputs, rule(b, node, cotangents, needed), strict=True):
        if g is None or operand not in active:
            continue
        sums[operand] = b.add(sums[operand], g) if operand in sums else g
    if node.name:
        for added in b.nodes[first:]:
            added.name = added.name or f"{node.name}_backward"


def gradient_graph(
    graph: Graph, wrt: Sequence[int], seeds: Sequence[int], *, forward: bool = False, rule: Rule = vjp_of
) -> Graph:
    """inputs + one cotangent per output in `seeds` -> one cotangent per input in `wrt`.

    With `forward` the outputs of `graph` come first. The new graph shares nodes and values with `graph`; `rule`
    differentiates each node.
    """
    b = CoreBuilder(f"{graph.name}_gradient")
    b.inputs, b.nodes, b.parameters = list(graph.inputs), list(graph.nodes), set(graph.parameters)
    cotangents: dict[Value, Value] = {}
    for i in seeds:
        output = graph.outputs[i]
        g = b.input(output.type.with_layout(None), f"{output.name}_cotangent" if output.name else "cotangent")
        cotangents[output] = b.add(cotangents[output], g) if output in cotangents else g
    gradients = pull_back(b, graph.nodes, cotangents, [graph.inputs[i] for i in wrt], rule)
    return without_dead_nodes(b.build([*(graph.outputs if forward else ()), *gradients]))


def without_dead_nodes(graph: Graph) -> Graph:
    """The graph without nodes that no output depends on."""
    live = set(graph.outputs)
    kept: list[Node] = []
    for node in reversed(graph.nodes):
        if not live.isdisjoint(node.outputs):
            kept.append(node)
            live.update(node.inputs)
    return replace(graph, nodes=tuple(reversed(kept)))


def cotangent_positions(values: Iterable[Value]) -> list[int]:
    """Positions of the values that can have a cotangent."""
    return [i for i, v in enumerate(values) if v.type.dtype.has_cotangent]
