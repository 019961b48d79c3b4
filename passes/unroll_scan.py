"""Unrolls loops of known length: each step becomes ordinary nodes."""

from __future__ import annotations

from functools import partial

from ..ir.dialects.core import CoreBuilder, Scan
from ..ir.graph import Graph, GraphBuilder, Node, Op, Value
from ..ir.lazy_dataclass import dataclass
from ..ir.rewrite import Replacement, rebuild
from ..ir.symbolic import is_symbolic
from .kinds import Kind, kind_of
from .manager import Context, Pass


@dataclass(frozen=True)
class UnrollScan(Pass):
    """Replace a Scan by its steps if all its steps together have at most `limit` nodes, not counting virtual ones.

    Longer loops, and those of symbolic length, are as fast and compile as fast as one step. All steps have the same
    shapes, so they compile to the same kernels: the program gets more launches, not more code. Slices of scanned
    operands and pieces of stacked results are views, which memory planning finds. Needs: core. Keeps: values.
    """

    name = "unroll-scan"
    limit: int = 256

    def run(self, graph: Graph, context: Context) -> Graph:
        if not any(_unrolls(n.op, self.limit) for n in graph.nodes):
            return graph
        unroll = partial(_unroll, self.limit)
        return self.run(rebuild(graph, unroll, CoreBuilder(graph.name)), context)


def _unrolls(op: Op, limit: int) -> bool:
    return isinstance(op, Scan) and not is_symbolic(op.length) and _size(op) <= limit


def _unroll(limit: int, b: GraphBuilder, node: Node, operands: tuple[Value, ...]) -> Replacement:
    op = node.op
    if not isinstance(op, Scan) or not _unrolls(op, limit):
        return None
    assert isinstance(b, CoreBuilder)
    first = len(b.nodes)
    results = _unroll_scan(b, op, operands)
    for added in b.nodes[first:]:
        added.name = added.name or node.name
    return results


def _size(op: Op) -> int:
    """The number of nodes of an op when all its loops are unrolled."""
    inside = sum(_size(n.op) for body in op.regions() for n in body.nodes if kind_of(n) is not Kind.VIRTUAL)
    return op.length * inside if isinstance(op, Scan) else 1 + inside


def _unroll_scan(b: CoreBuilder, op: Scan, operands: tuple[Value, ...]) -> list[Value]:
    carries = list(operands[: op.carries])
    scanned = operands[op.carries : op.carries + op.scanned]
    invariants = operands[op.carries + op.scanned :]
    stacked: list[list[Value]] = [[] for _ in op.body.outputs[op.carries :]]
    for step in reversed(range(op.length)) if op.reverse else range(op.length):
        slices = [_slice(b, x, step) for x in scanned]
        results = b.inline(op.body, [*carries, *slices, *invariants])
        carries = results[: op.carries]
        for pieces, piece in zip(stacked, results[op.carries :], strict=True):
            pieces.append(b.reshape(piece, (1, *piece.type.shape)))
    if not op.length:
        rows = [v.type for v in op.body.outputs[op.carries :]]
        return [*carries, *(b.full((0, *t.shape), 0, t.dtype) for t in rows)]
    return [*carries, *(b.concat(pieces[::-1] if op.reverse else pieces, 0) for pieces in stacked)]


def _slice(b: CoreBuilder, x: Value, step: int) -> Value:
    one = b.slice_axis(x, 0, step, step + 1)
    return b.reshape(one, one.type.shape[1:])
