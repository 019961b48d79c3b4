"""Rebuilds a graph with some of its nodes replaced: the loop that all local rewrites share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from .graph import Graph, GraphBuilder, Node, Value
from .symbolic import without_guards

Replacement = Value | Sequence[Value] | None
Rule = Callable[[GraphBuilder, Node, tuple[Value, ...]], Replacement]


def rebuild(graph: Graph, rule: Rule, builder: GraphBuilder | None = None) -> Graph:
    """Call `rule` on every node, with the node's operands in the new graph.

    The rule returns the node's new results, built with the builder that it receives, or None to keep the node. New
    nodes get the name and location of the node that they replace, unless the rule passes others. Graph inputs stay the
    same values. If the rule keeps every node, `graph` itself is returned.
    """
    b = builder if builder is not None else GraphBuilder(graph.name)
    b.inputs, b.parameters = list(graph.inputs), set(graph.parameters)
    b.updates, b.random, b.late, b.private = graph.updates, graph.random, graph.late, graph.private
    b.checks = graph.checks
    new: dict[Value, Value] = {}  # of the values that have another one in the new graph
    changed = False
    for node in graph.nodes:
        operands = tuple([new.get(v, v) for v in node.inputs]) if new else node.inputs
        b.origin, b.location = node.name, node.location
        replaced = rule(b, node, operands)
        if replaced is None:
            kept = keep(b, node, operands)
            if kept is node:
                continue
            results: Sequence[Value] = kept.outputs
        else:
            changed = True
            results = (replaced,) if isinstance(replaced, Value) else tuple(replaced)
        new.update(zip(node.outputs, results, strict=True))
    return b.build([new.get(v, v) for v in graph.outputs]) if changed else graph


def keep(b: GraphBuilder, node: Node, operands: tuple[Value, ...]) -> Node:
    """Add `node` to a new graph: the node itself if its operands are the same, else a node with the same op."""
    if operands == node.inputs:
        kept = node
    elif _have_types(operands, node.inputs):
        kept = node.on(operands)
    else:
        return b.node(node.op, *operands, name=node.name, location=node.location)
    b.append(kept)
    return kept


def repeat(b: GraphBuilder, nodes: Iterable[Node], new: dict[Value, Value]) -> None:
    """Add nodes to a graph on other operands. `new` has the new operands of values from outside, and receives the new
    results. Types are inferred only where operands have other types."""
    for node in nodes:
        operands = tuple([new[v] for v in node.inputs])
        if _have_types(operands, node.inputs):
            types = [v.type for v in node.outputs]
            copy = Node(node.op, operands, types, node.name or b.origin, node.location or b.location)
            b.append(copy)
        else:
            copy = b.node(node.op, *operands, name=node.name, location=node.location)
        new.update(zip(node.outputs, copy.outputs, strict=True))


def _have_types(operands: Sequence[Value], others: Sequence[Value]) -> bool:
    with without_guards():
        return all([v.type is w.type or v.type == w.type for v, w in zip(operands, others, strict=True)])
