"""Unrolls loops of known length: each step becomes ordinary nodes."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ..ir.dialects.core import Conv, ConvWeightGradient, CoreBuilder, Dot, Scan
from ..ir.graph import Graph, GraphBuilder, Node, Op, Value
from ..ir.rewrite import Replacement, rebuild
from ..ir.symbolic import is_symbolic
from .kinds import Kind, kind_of
from .manager import Context, Pass


@dataclass(frozen=True)
class UnrollScan(Pass):
    """Replace a Scan by its steps if all its steps together have at most `limit` nodes, not counting virtual ones.

    Longer loops compile as fast as one step, but their kernels run on one thread. So if the contractions of a step take
    more than `heavy` products, which threads should share, the limit is `heavy_limit`. With symbolic length only such
    loops are unrolled: other loops are as fast, and one program serves all lengths. All steps have the same shapes, so
    they compile to the same kernels: the program gets more launches, not more code. Slices of scanned operands and
    pieces of stacked results are views, which memory planning finds. Needs: core. Keeps: values.
    """

    name = "unroll-scan"
    limit: int = 256
    heavy_limit: int = 2048
    heavy: int = 1 << 24

    def run(self, graph: Graph, context: Context) -> Graph:
        if not any(self._unrolls(n.op) for n in graph.nodes):
            return graph
        return self.run(rebuild(graph, self._unroll, CoreBuilder(graph.name)), context)

    def _unrolls(self, op: Op) -> bool:
        if not isinstance(op, Scan):
            return False
        heavy = _products(op) > self.heavy * op.length
        if is_symbolic(op.length) and not heavy:
            return False
        return _size(op) <= (self.heavy_limit if heavy else self.limit)

    def _unroll(self, b: GraphBuilder, node: Node, operands: tuple[Value, ...]) -> Replacement:
        if not self._unrolls(node.op):
            return None
        assert isinstance(b, CoreBuilder)
        first = len(b.nodes)
        assert isinstance(node.op, Scan)
        results = _unroll_scan(b, node.op, operands)
        for made in b.nodes[first:]:
            made.name = made.name or node.name
        return results


def _size(op: Op) -> int:
    """The number of nodes of an op when all its loops are unrolled."""
    inside = sum(_size(n.op) for body in op.regions() for n in body.nodes if kind_of(n) is not Kind.VIRTUAL)
    return op.length * inside if isinstance(op, Scan) else 1 + inside


def _products(op: Op) -> int:
    """The number of multiplications in the contractions inside an op."""
    total = 0
    for body in op.regions():
        for node in body.nodes:
            if isinstance(node.op, Dot):
                x = node.inputs[0].type
                total += node.outputs[0].type.size * prod(x.shape[a] for a in node.op.lhs_contract)
            elif isinstance(node.op, Conv):
                weight = node.inputs[1].type
                total += node.outputs[0].type.size * weight.size // weight.shape[0]
            elif isinstance(node.op, ConvWeightGradient):
                cotangent = node.inputs[1].type
                total += node.outputs[0].type.size * cotangent.size // cotangent.shape[1]
            total += _products(node.op)
    return total * (op.length if isinstance(op, Scan) else 1)


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
