"""Replaces attention, softmax(queries . keys) . values, by regions that compute it without scores in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from ..ir.dialects.core import Dot, Fused
from ..ir.graph import Graph, GraphBuilder, Node, Value
from ..ir.lazy_dataclass import dataclass
from .find_attention import Attention, find_attention
from .kinds import Kind
from .manager import Context, Pass


@dataclass(frozen=True)
class FuseAttention(Pass):
    """softmax(f(queries . keys)) . values -> one region, where f is elementwise: scales, masks.

    The region reads queries, keys and values through the moves that separate heads, and writes its result through the
    transpose that joins them. There is no region if other nodes read scores or weights, as in training, if a weight is
    not a softmax of scores (dropout), for dtypes other than float32, float16 and bfloat16, for queries or values of
    more than `widest` bytes, and in programs for any shapes.
    Needs: core, layouts assigned. Keeps: values, up to roundings of scores and weights to 16 bits, which are left out.
    """

    name = "fuse-attention"
    widest: int

    def run(self, graph: Graph, context: Context) -> Graph:
        if context.options.dynamic:
            return graph
        matches = [a for a in find_attention(graph) if self._fits(a)]
        return _replaced(graph, matches) if matches else graph

    def _fits(self, attention: Attention) -> bool:
        return max(_row_bytes(attention.first, 0), _row_bytes(attention.last, 1)) <= self.widest


def _row_bytes(product: Node, side: int) -> int:
    """The bytes of a row of queries (side 0) or of values (1)."""
    assert isinstance(product.op, Dot)
    op, type = product.op, product.inputs[side].type
    return type.dtype.itemsize * prod(type.shape[k] for k in (op.rhs_free(type.rank) if side else op.lhs_contract))


def _replaced(graph: Graph, matches: Sequence[Attention]) -> Graph:
    at = {a.result.node: a for a in matches}
    inside = {node for a in matches for node in a.own}
    new: dict[Value, Value] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        attention = at.get(node)
        if attention is not None:
            region = _region(attention, new)
            new[attention.result] = region.outputs[0]
            nodes.append(region)
        elif node not in inside:
            operands = tuple([new.get(v, v) for v in node.inputs])
            kept = node if operands == node.inputs else node.on(operands)
            new.update(zip(node.outputs, kept.outputs, strict=True))
            nodes.append(kept)
    outputs = tuple([new.get(v, v) for v in graph.outputs])
    return replace(graph, nodes=tuple(nodes), outputs=outputs)


def _region(attention: Attention, new: dict[Value, Value]) -> Node:
    computed = {v for node in attention.nodes for v in node.outputs}
    operands = list(dict.fromkeys(v for node in attention.nodes for v in node.inputs if v not in computed))
    b = GraphBuilder("region")
    copies = {v: b.input(v.type, v.name) for v in operands}
    for node in attention.nodes:
        b.append(node.on([copies[v] for v in node.inputs]))
        copies.update(zip(node.outputs, b.nodes[-1].outputs, strict=True))
    last, result = attention.last, attention.result
    op = Fused(b.build([copies[result]]), Kind.ATTENTION.value)
    return Node(op, [new.get(v, v) for v in operands], [result.type], last.name, last.location)
