"""Rebuilds a graph with some of its nodes replaced: the loop that all local rewrites share."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .graph import Graph, GraphBuilder, Node, Value

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
    new: dict[Value, Value] = {v: v for v in graph.inputs}
    changed = False
    for node in graph.nodes:
        operands = tuple(new[v] for v in node.inputs)
        b.origin, b.location = node.name, node.location
        replaced = rule(b, node, operands)
        if replaced is None:
            results = _keep(b, node, operands)
        else:
            changed = True
            results = (replaced,) if isinstance(replaced, Value) else tuple(replaced)
        new.update(zip(node.outputs, results, strict=True))
    return b.build([new[v] for v in graph.outputs]) if changed else graph


def _keep(b: GraphBuilder, node: Node, operands: tuple[Value, ...]) -> tuple[Value, ...]:
    if operands == node.inputs:
        b.append(node)
        return node.outputs
    return b.node(node.op, *operands, name=node.name, location=node.location).outputs
