"""Rules of branches and loops, whose bodies are nested graphs that read tensors of the outer graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....ir.dialects.core.builder import CoreBuilder
from ....ir.graph import Graph, Value
from ....ir.types import DType, TensorType
from .node import Defined, Known, OnnxNode, Results, Rule, TensorSequence, Unsupported, front, rule
from .tensors import constant

_UNROLLED = 64
"""Loops of at most this many steps are repeated in the graph, so that what a step computes with its number is known."""


def _names_read(graph: Any) -> list[str]:
    """The tensors that a nested graph and the graphs inside it read."""
    names: dict[str, None] = {}
    for node in graph.node:
        names.update(dict.fromkeys(node.input))
        for attribute in node.attribute:
            if attribute.HasField("g"):
                names.update(dict.fromkeys(_names_read(attribute.g)))
    names.update((output.name, None) for output in graph.output)
    return list(names)


def _captured(n: OnnxNode, *graphs: Any) -> list[str]:
    """The outer values that nested graphs read."""
    names = dict.fromkeys(name for graph in graphs for name in _names_read(graph))
    known = n.reader.known
    return [name for name in names if name in n.reader.values and name not in known]


def _inlined(n: OnnxNode, graph: Any, operands: Sequence[Defined]) -> list[Defined]:
    """The results of a nested graph whose nodes are repeated here."""
    inner = n.reader.nested(n.b)
    inner.values, inner.sequences = dict(n.reader.values), dict(n.reader.sequences)
    inner.initializers(graph.initializer)
    for info, operand in zip(graph.input, operands, strict=True):
        inner.define(info.name, operand)
    inner.nodes(graph.node)
    inner.raise_problems()
    return [inner.defined(o.name) for o in graph.output]


def _body(
    n: OnnxNode, graph: Any, types: Sequence[TensorType], captured: Sequence[str]
) -> tuple[CoreBuilder, list[Value]]:
    """A builder with the nested graph on inputs of these types and then the captured values, and its results."""
    b = CoreBuilder(graph.name or "body")
    inner = n.reader.nested(b)
    inner.initializers(graph.initializer)
    for info, t in zip(graph.input, types, strict=True):
        inner.define(info.name, b.input(t, info.name))
    for name in captured:
        inner.define(name, b.input(n.reader.values[name].type, name))
    inner.nodes(graph.node)
    inner.raise_problems()
    return b, [inner.value(o.name) for o in graph.output]


@rule("If")
def if_(n: OnnxNode) -> Results:
    branches = n.attributes["then_branch"], n.attributes["else_branch"]
    if n.names[0] in n.reader.known:
        return _inlined(n, branches[0 if n.known(0).ravel()[0] else 1], ())
    captured = _captured(n, *branches)
    graphs: list[Graph] = []
    for branch in branches:
        b, results = _body(n, branch, (), captured)
        graphs.append(b.build(results))
    if graphs[0].output_types() != graphs[1].output_types():
        raise Unsupported("the branches have results of different types")
    then, otherwise = graphs
    return n.b.cond(n.b.reshape(n[0], ()), then, otherwise, *(n.reader.values[name] for name in captured))


@rule("Loop")
def loop(n: OnnxNode) -> Results:
    body = n.attributes["body"]
    limit = int(n.known(0).ravel()[0]) if n.has(0) and n.names[0] in n.reader.known else None
    started = not n.has(1) or n.names[1] in n.reader.known
    if limit is not None and limit <= _UNROLLED and started:
        results = _unrolled(n, body, limit)
        if results is not None:
            return results
    return _repeated(n, body, limit)


def _unrolled(n: OnnxNode, body: Any, limit: int) -> list[Defined] | None:
    """The results of a loop whose conditions are all known; None if one is not."""
    going: Known = n.known(1) if n.has(1) else np.array(True)
    carried: list[Defined] = [n.reader.defined(name) for name in n.names[2:]]
    stacks: list[list[Value]] = [[] for _ in range(len(body.output) - 1 - len(carried))]
    step = 0
    while step < limit and going.ravel()[0]:
        condition, *results = _inlined(n, body, [np.array(step, np.int64), going, *carried])
        if not isinstance(condition, np.ndarray):
            return None
        going, carried = condition, results[: len(carried)]
        for stack, value in zip(stacks, results[len(carried) :], strict=True):
            stack.append(n.b.expand_dims(_value(n, value), 0))
        step += 1
    if step == 0 and stacks:
        raise Unsupported("the loop has no steps, so the shape of what they stack is not known")
    return [*carried, *(n.b.concat(stack, 0) for stack in stacks)]


def _value(n: OnnxNode, result: Defined) -> Value:
    if isinstance(result, TensorSequence):
        raise Unsupported("the loop stacks sequences")
    return result if isinstance(result, Value) else constant(n.b, result)


def _repeated(n: OnnxNode, body: Any, limit: int | None) -> Results:
    """A loop of the graph: a scan if the number of steps is known, else a loop that stacks nothing."""
    b, carried = n.b, [n[i] for i in range(2, len(n.names))]
    captured = _captured(n, body)
    outer = [n.reader.values[name] for name in captured]
    scalar, flag = TensorType((), DType.I64), TensorType((), DType.BOOL)
    types = [scalar, flag, *(v.type for v in carried)]
    inner, (condition, *results) = _body(n, body, types, captured)
    stacked = results[len(carried) :]
    same = condition is inner.inputs[1]
    if limit is not None and same and not n.has(1):
        step = inner.add(inner.inputs[0], 1)
        graph = inner.build([step, condition, *results])
        start = [b.constant(0), b.constant(True), *carried]
        return b.scan(graph, start, (), outer, limit)[2:]
    if stacked:
        raise Unsupported("the number of steps depends on values, and so does the shape of what they stack")
    step = inner.add(inner.inputs[0], 1)
    graph = inner.build([step, inner.reshape(condition, ()), *results, *inner.inputs[2 + len(carried) :]])
    test = CoreBuilder("condition")
    operands = [test.input(t) for t in graph.input_types()]
    going = operands[1]
    first = b.reshape(n[1], ()) if n.has(1) else b.constant(True)
    if n.has(0):
        if limit is None:
            raise Unsupported("the largest number of steps must be a constant")
        going = test.and_(going, test.lt(operands[0], limit))
    cond = test.build([going])
    final = b.while_(cond, graph, b.constant(0), first, *carried, *outer, limit=limit)
    return final[2 : 2 + len(carried)]


@rule("Scan")
def scan(n: OnnxNode) -> Results:
    if n.opset < 9:
        raise Unsupported("the version of operator set 8 is not supported")
    body, count, b = n.attributes["body"], n.attr("num_scan_inputs"), n.b
    carries = [n[i] for i in range(len(n.names) - count)]
    scanned = [n[i] for i in range(len(carries), len(n.names))]
    backward = n.attr("scan_input_directions", [0] * count)
    axes = n.attr("scan_input_axes", [0] * count)
    slices = []
    for x, axis, reverse in zip(scanned, axes, backward, strict=True):
        k = front(axis, x.type.rank)
        first = b.transpose(x, [k, *(a for a in range(x.type.rank) if a != k)])
        slices.append(b.reverse(first, [0]) if reverse else first)
    captured = _captured(n, body)
    types = [*(v.type for v in carries), *(TensorType(v.type.shape[1:], v.type.dtype) for v in slices)]
    inner, results = _body(n, body, types, captured)
    outer = [n.reader.values[name] for name in captured]
    done = b.scan(inner.build(results), carries, slices, outer, slices[0].type.shape[0])
    stacks = done[len(carries) :]
    directions = n.attr("scan_output_directions", [0] * len(stacks))
    places = n.attr("scan_output_axes", [0] * len(stacks))
    return [*done[: len(carries)], *map(lambda *a: _placed(b, *a), stacks, places, directions)]


def _placed(b: CoreBuilder, x: Value, axis: int, backward: int) -> Value:
    """A stack whose first axis moves to `axis`."""
    k = front(axis, x.type.rank)
    order = [*range(1, k + 1), 0, *range(k + 1, x.type.rank)]
    return b.transpose(b.reverse(x, [0]) if backward else x, order)


RULES_WITH_GRAPHS: tuple[Rule, ...] = (if_, loop, scan)
