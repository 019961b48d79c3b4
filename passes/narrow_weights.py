"""Rounds the weights of products and convolutions to the 16-bit float of `Options.weights`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from ..ir.dialects.core import Conv, CoreBuilder, Dot
from ..ir.graph import Graph, GraphBuilder, Node, Value
from ..ir.rewrite import Replacement, rebuild
from ..ir.types import DType
from .manager import Context, Pass
from .plan_memory import find_prepared


@dataclass(frozen=True)
class NarrowWeights(Pass):
    """dot(x, w) -> dot(x, cast(w)) with sums in float32, and the same for convolutions, if `Options.weights` is a
    narrower dtype than float32.

    A weight is a right operand that depends on parameters alone, of a product whose left operand does not. Weights of
    depthwise convolutions, vectors, and weights in loops stay float32. Needs: core. Keeps: values up to the rounding of
    weights, once, to nearest even.
    """

    name = "narrow-weights"

    def run(self, graph: Graph, context: Context) -> Graph:
        dtype = context.options.weights
        if dtype is DType.F32 or not graph.parameters:
            return graph
        narrower = _Narrower(graph, dtype)
        return rebuild(graph, narrower.rule, CoreBuilder(graph.name))


class _Narrower:
    def __init__(self, graph: Graph, dtype: DType) -> None:
        self.dtype = dtype
        self.prepared = find_prepared(graph)
        self.weights = {graph.inputs[i] for i in graph.parameters}
        for node in graph.nodes:
            if self.prepared.issuperset(node.outputs) and not self.weights.isdisjoint(node.inputs):
                self.weights.update(node.outputs)

    def rule(self, b: GraphBuilder, node: Node, operands: tuple[Value, ...]) -> Replacement:
        if not isinstance(node.op, Dot | Conv) or not self._has_weights(node):
            return None
        assert isinstance(b, CoreBuilder)
        x, w = operands
        return b.add_node(replace(node.op, accumulator=DType.F32), x, b.cast(w, self.dtype))

    def _has_weights(self, node: Node) -> bool:
        x, w = node.inputs
        if w not in self.weights or x in self.prepared or _has_few_weights(node):
            return False
        return x.type.dtype is w.type.dtype is node.outputs[0].type.dtype is DType.F32


def _has_few_weights(node: Node) -> bool:
    """True for a depthwise convolution, and a product with a vector."""
    shape = node.inputs[1].type.shape
    if isinstance(node.op, Conv):
        return node.op.groups > 1 and shape[1] == 1
    return isinstance(node.op, Dot) and prod(shape[a] for a in node.op.rhs_free(len(shape))) == 1
