"""Replaces attention, softmax(queries . keys) . values, by regions that compute it without scores in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..ir.dialects.core import Fused
from ..ir.graph import Graph, GraphBuilder, Node, Value
from ..ir.lazy_dataclass import dataclass
from .find_attention import Attention, find_attention
from .find_attention_gradients import find_attention_gradients
from .kinds import Kind
from .manager import Context, Pass


@dataclass(frozen=True)
class FuseAttention(Pass):
    """softmax(f(queries . keys)) . values -> one region, where f is elementwise: scales, masks.

    The region reads queries, keys and values through the moves that separate heads, and writes its result through the
    transpose that joins them. There is no region if other nodes read scores or weights, for dtypes other than float32,
    float16 and bfloat16, for queries or values of
    more bytes than `Capabilities.attention_bytes`, and in programs for any shapes.
    Needs: core, layouts assigned. Keeps: values, up to roundings of scores and weights to 16 bits, which are left out.
    """

    name = "fuse-attention"

    def run(self, graph: Graph, context: Context) -> Graph:
        longest = context.target.attention_bytes
        if not longest or context.options.dynamic:
            return graph
        candidates = (*find_attention(graph), *find_attention_gradients(graph))
        matches = [a for a in candidates if a.row_bytes <= longest]
        return _replaced(graph, matches) if matches else graph


def _replaced(graph: Graph, matches: Sequence[Attention]) -> Graph:
    at = {a.results[0].node: a for a in matches}
    inside = {node for a in matches for node in a.own}
    new: dict[Value, Value] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        attention = at.get(node)
        if attention is not None:
            region = _region(attention, new)
            new.update(zip(attention.results, region.outputs, strict=True))
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
    last, results = attention.last, attention.results
    op = Fused(b.build([copies[v] for v in results]), Kind.ATTENTION.value)
    return Node(op, [new.get(v, v) for v in operands], [v.type for v in results], last.name, last.location)
