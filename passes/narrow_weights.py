"""Rounds the weights of products and convolutions to the 16-bit float of `Options.weights`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from ..ir.dialects.core import Conv, CoreBuilder, Dot, Scan
from ..ir.graph import Graph, GraphBuilder, Node, Value
from ..ir.lazy_dataclass import dataclass
from ..ir.rewrite import Replacement, rebuild
from ..ir.types import DType, Shape
from .manager import Context, Pass
from .plan_memory import find_prepared


@dataclass(frozen=True)
class NarrowWeights(Pass):
    """dot(x, w) -> dot(x, cast(w)) with sums in float32, and the same for convolutions, if `Options.weights` is a
    narrower dtype than float32.

    A weight is a right operand that depends on parameters alone, of a product whose left operand does not. Weights of
    depthwise convolutions, vectors, and weights in branches and loops other than scans stay float32. Needs: core,
    before loops are unrolled. Keeps: values up to the rounding of weights, once, to nearest even.
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
        assert isinstance(b, CoreBuilder)
        if isinstance(node.op, Scan):
            return self._loop(b, node, node.op, operands)
        if not _takes_weights(node) or node.inputs[1] not in self.weights or node.inputs[0] in self.prepared:
            return None
        return b.add_node(_with_float32_sums(node), operands[0], b.cast(operands[1], self.dtype))

    def _loop(self, b: CoreBuilder, node: Node, op: Scan, operands: tuple[Value, ...]) -> Replacement:
        """The loop with weights that all of its steps read, rounded before the loop."""
        steady, users = op.carries + op.scanned, op.body.users()
        narrow = [
            i
            for i, value in enumerate(op.body.inputs[steady:], steady)
            if node.inputs[i] in self.weights and value not in op.body.outputs and _take_weights(users[value])
        ]
        if not narrow:
            return None
        rounded = [b.cast(v, self.dtype) if i in narrow else v for i, v in enumerate(operands)]
        return b.node(replace(op, body=self._body(op.body, narrow)), *rounded).outputs

    def _body(self, body: Graph, narrow: Sequence[int]) -> Graph:
        """The body with these inputs in the narrow dtype."""
        b = CoreBuilder(body.name)
        types = [replace(v.type, dtype=self.dtype) if i in narrow else v.type for i, v in enumerate(body.inputs)]
        new = {v: b.input(t, v.name) for v, t in zip(body.inputs, types, strict=True)}
        narrowed = {body.inputs[i] for i in narrow}
        for node in body.nodes:
            op = node.op if narrowed.isdisjoint(node.inputs) else _with_float32_sums(node)
            copy = b.node(op, *(new[v] for v in node.inputs), name=node.name, location=node.location)
            new.update(zip(node.outputs, copy.outputs, strict=True))
        return b.build([new[v] for v in body.outputs])


def _take_weights(users: Sequence[tuple[Node, int]]) -> bool:
    """True if all users of a value read it as the weights of a product or a convolution."""
    return bool(users) and all(i == 1 and _takes_weights(node) for node, i in users)


def _takes_weights(node: Node) -> bool:
    """True for a product or a convolution in float32 whose right operand is large."""
    if not isinstance(node.op, Dot | Conv) or _has_few_weights(node.op, node.inputs[1].type.shape):
        return False
    return all(v.type.dtype is DType.F32 for v in (*node.inputs, *node.outputs))


def _has_few_weights(op: Dot | Conv, shape: Shape) -> bool:
    """True for a depthwise convolution, and a product with a vector."""
    if isinstance(op, Conv):
        return op.groups > 1 and shape[1] == 1
    return prod(shape[a] for a in op.rhs_free(len(shape))) == 1


def _with_float32_sums(node: Node) -> Dot | Conv:
    assert isinstance(node.op, Dot | Conv)
    return replace(node.op, accumulator=DType.F32)
