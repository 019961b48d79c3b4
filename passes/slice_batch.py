"""Runs the convolutional part of a network on a few rows of the batch at a time, so that what one layer writes is still
in the cache when the next layer reads it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from math import prod
from typing import Any

from ..ir.dialects.core import (
    Broadcast,
    Cast,
    Concat,
    Constant,
    Conv,
    CoreBuilder,
    Dot,
    Pad,
    Pointwise,
    Reduce,
    ReduceWindow,
    Reshape,
    Scan,
    Slice,
    Transpose,
)
from ..ir.graph import Graph, Node, Op, Value
from ..ir.lazy_dataclass import dataclass
from ..ir.rewrite import repeat
from ..ir.symbolic import concrete, deferred, is_symbolic
from .eliminate import EliminateDeadCode
from .manager import Context, Pass

SLICES = "slices of the batch"
"""The name of the loop over slices."""


@dataclass(frozen=True)
class SliceBatch(Pass):
    """Replace the nodes up to the last convolution, or the pooling after it, by a Scan over slices of the batch.

    A layer of a large batch writes more than the caches hold, so the next one reads it from memory; a slice is the most
    rows for which the largest layer reads and writes at most `Capabilities.slice_bytes`. It divides the batch, and is
    one row of a batch of unknown size. Only nodes of which each row depends on the same row of the data are sliced, up
    to a place where one value connects them with the rest; batches that need at most twice those bytes are not. Needs:
    core, after batch norms are folded. Keeps: values.
    """

    name = "slice-batch"

    def run(self, graph: Graph, context: Context) -> Graph:
        limit = context.target.slice_bytes
        batch = _batch_of(graph) if limit else None
        if batch is None or context.options.training or graph.updates or graph.random:
            return graph
        part = _find_part(graph, batch)
        if part is None or part.row_bytes * batch <= 2 * limit:
            return graph
        divisors = () if is_symbolic(batch) else [n for n in range(1, batch) if batch % n == 0]
        count = max([n for n in divisors if n * part.row_bytes <= limit], default=1)
        return EliminateDeadCode().run(_sliced(graph, part, batch, count), context)


def rows_of_slices(graph: Graph) -> int | None:
    """The rows of a slice in a graph that this pass changed; None if it did not."""
    loop = next((node for node in graph.nodes if isinstance(node.op, Scan) and node.name == SLICES), None)
    return None if loop is None else loop.inputs[0].type.shape[1]


def _batch_of(graph: Graph) -> int | None:
    """The rows of the data of the first convolution; None if there is none."""
    first = next((node for node in graph.nodes if isinstance(node.op, Conv)), None)
    rows = 1 if first is None else first.inputs[0].type.shape[0]
    return None if not is_symbolic(rows) and rows == 1 else rows


@dataclass(frozen=True)
class _Part:
    """Nodes that are sliced, the inputs of the graph that they read in slices, and their result. `copied` are those
    whose results have equal rows, which others can need too. `row_bytes`: what the largest layer reads and writes for
    one row."""

    nodes: tuple[Node, ...]
    data: tuple[Value, ...]
    result: Value
    copied: frozenset[Node]
    row_bytes: int


def _find_part(graph: Graph, batch: int) -> _Part | None:
    """The most convolutions that can be sliced; None if there are fewer than two."""
    data = [v for i, v in enumerate(graph.inputs) if i not in graph.parameters and v.type.layout is None]
    inputs = [v for v in data if v.type.shape[:1] == (batch,)]
    nodes, copied = _row_by_row(graph, inputs, batch)
    last = _last_uses(graph, nodes)
    rows, alive = set(inputs), set(inputs)
    best: tuple[int, Value] | None = None
    layers = list[int]()
    convolutions = used = 0
    is_open = True  # whether a smaller result can replace the best one: no matrix product came after it
    for number, node in enumerate(nodes):
        if isinstance(node.op, Conv | ReduceWindow):
            layers.append(_row_bytes([*rows.intersection(node.inputs), *node.outputs]))
        rows.update(node.outputs)
        if node not in copied:
            alive.update(node.outputs)
        alive = {v for v in alive if last.get(v, -1) > number}
        convolutions += isinstance(node.op, Conv)
        is_open = is_open and not isinstance(node.op, Dot)
        if len(alive) != 1 or alive.intersection(inputs):
            continue
        (result,) = alive
        if convolutions > used or (is_open and best is not None and _is_smaller(result, best[1])):
            best, used, is_open = (number, result), convolutions, True
    if best is None or used < 2:
        return None
    chosen = nodes[: best[0] + 1]
    read = {v for node in chosen for v in node.inputs}
    return _Part(
        tuple(chosen), tuple(v for v in inputs if v in read), best[1], frozenset(copied), deferred(_largest, *layers)
    )


def _row_by_row(graph: Graph, inputs: Sequence[Value], batch: int) -> tuple[list[Node], set[Node]]:
    """The nodes of which each row depends on one row of the inputs, and those of them whose rows are equal."""
    varying = {v for i, v in enumerate(graph.inputs) if i not in graph.parameters}
    rows, nodes, equal = set(inputs), list[Node](), set[Node]()
    for node in graph.nodes:
        is_row = [v in rows for v in node.inputs]
        is_equal = varying.isdisjoint(node.inputs)
        if not is_equal:
            varying.update(node.outputs)
        if all(row or v not in varying for row, v in zip(is_row, node.inputs, strict=True)):
            if _on_rows(node, is_row, batch, 1) is None:
                continue
            nodes.append(node)
            rows.update(node.outputs)
            if is_equal:
                equal.add(node)
    return nodes, equal


def _last_uses(graph: Graph, nodes: Sequence[Node]) -> dict[Value, int]:
    """The position in `nodes` of the last one that reads each value; their number if another node or the caller
    does."""
    positions = {node: number for number, node in enumerate(nodes)}
    last: dict[Value, int] = {}
    for node in graph.nodes:
        for v in node.inputs:
            last[v] = max(last.get(v, -1), positions.get(node, len(nodes)))
    return {**last, **dict.fromkeys(graph.outputs, len(nodes))}


def _is_smaller(value: Value, other: Value) -> bool:
    return concrete(_row_bytes([value])) < concrete(_row_bytes([other]))


def _largest(*numbers: int) -> int:
    return max(numbers)


def _row_bytes(values: Iterable[Value]) -> int:
    return sum(prod(v.type.shape[1:]) * v.type.dtype.itemsize for v in values)


def _on_rows(node: Node, is_row: Sequence[bool], batch: int, count: int) -> Op | None:
    """The op of `node` for `count` rows of the operands with `is_row`; the others are the same for all rows. None if a
    row of the result depends on other rows."""
    if len(node.outputs) != 1 or node.outputs[0].type.shape[:1] != (batch,):
        return None
    rule = _RULES.get(type(node.op))
    if rule is not None:
        return node.op if rule(node.op, is_row) else None
    match node.op:
        case Broadcast() as op:
            own = op.axes[:1] == (0,) if is_row[0] else 0 not in op.axes
            return replace(op, shape=(count, *op.shape[1:])) if own else None
        case Slice() as op:
            return replace(op, stop=(count, *op.stop[1:])) if is_row[0] else None
        case Reshape() as op:
            return replace(op, shape=(count, *op.shape[1:])) if is_row[0] else None
        case _:
            return None


_RULES: dict[type[Op], Callable[[Any, Sequence[bool]], bool]] = {
    Pointwise: lambda op, is_row: all(is_row),
    Cast: lambda op, is_row: is_row[0],
    Conv: lambda op, is_row: tuple(is_row) == (True, False) and op.batch_groups == 1,
    Dot: lambda op, is_row: tuple(is_row) == (True, False) and 0 not in op.lhs_batch + op.lhs_contract,
    Concat: lambda op, is_row: op.axis > 0 and all(is_row),
    Reduce: lambda op, is_row: is_row[0] and 0 not in op.axes,
    ReduceWindow: lambda op, is_row: is_row[0] and op.window[0] == 1 and op.padding[0] == (0, 0),
    Transpose: lambda op, is_row: is_row[0] and op.permutation[0] == 0,
    Pad: lambda op, is_row: tuple(is_row) == (True, False) and not (op.low[0] or op.high[0] or op.interior[0]),
}
"""For an op that is the same for fewer rows: whether each row of the result depends on one row of the operands."""


def _sliced(graph: Graph, part: _Part, batch: int, count: int) -> Graph:
    """The graph with a loop over slices of `count` rows."""
    inside = set(part.nodes)
    invariants, scalars = _invariants(part)
    b = CoreBuilder(graph.name)
    b.inputs, b.parameters, b.private, b.checks = list(graph.inputs), set(graph.parameters), graph.private, graph.checks
    new: dict[Value, Value] = {v: v for v in graph.inputs}
    outside = [node for node in graph.nodes if node not in inside or node in part.copied]
    after = _after(outside, part.result)
    repeat(b, [node for node in outside if node not in after], new)
    slices = [b.reshape(v, (batch // count, count, *v.type.shape[1:])) for v in part.data]
    body = _body(graph.name, part, invariants, scalars, batch, count)
    scan = Scan(body, batch // count, 0, len(slices))
    stacked = b.add_node(scan, *slices, *(new[v] for v in invariants), name=SLICES)
    new[part.result] = b.reshape(stacked, part.result.type.shape)
    repeat(b, [node for node in outside if node in after], new)
    return b.build([new[v] for v in graph.outputs])


def _invariants(part: _Part) -> tuple[list[Value], list[Node]]:
    """What the nodes read that is the same for all rows, and the constant scalars among it, which the loop repeats."""
    inside = {*part.data, *(v for node in part.nodes for v in node.outputs)}
    read = dict.fromkeys(v for node in part.nodes for v in node.inputs if v not in inside)
    scalars = {v: v.node for v in read if v.node is not None and isinstance(v.node.op, Constant) and not v.type.rank}
    return [v for v in read if v not in scalars], list(scalars.values())


def _after(nodes: Sequence[Node], result: Value) -> set[Node]:
    """The nodes that depend on the result."""
    values, after = {result}, set[Node]()
    for node in nodes:
        if not values.isdisjoint(node.inputs):
            values.update(node.outputs)
            after.add(node)
    return after


def _body(
    name: str, part: _Part, invariants: Sequence[Value], scalars: Sequence[Node], batch: int, count: int
) -> Graph:
    """The part for one slice of each of its data."""
    b = CoreBuilder(name)
    new = {v: b.input(replace(v.type, shape=(count, *v.type.shape[1:])), v.name) for v in part.data}
    rows = set(new)
    new.update({v: b.input(v.type, v.name) for v in invariants})
    repeat(b, scalars, new)
    for node in part.nodes:
        op = _on_rows(node, [v in rows for v in node.inputs], batch, count)
        assert op is not None
        copy = b.node(op, *(new[v] for v in node.inputs), name=node.name, location=node.location)
        rows.update(node.outputs)
        new.update(zip(node.outputs, copy.outputs, strict=True))
    return b.build([new[part.result]])
