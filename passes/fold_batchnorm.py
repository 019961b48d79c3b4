"""Folds a scale and a shift per output channel into the preceding convolution or matrix product."""

from __future__ import annotations

from ..ir.dialects.core import Broadcast, Constant, Conv, CoreBuilder, Dot, Pointwise
from ..ir.graph import Graph, GraphBuilder, Node, Value
from ..ir.lazy_dataclass import dataclass
from ..ir.rewrite import Replacement, rebuild
from ..ir.scalar import ScalarOp
from .manager import Context, Pass


@dataclass(frozen=True)
class FoldBatchNorm(Pass):
    """conv(x, w) * s -> conv(x, w * s); (conv(x, w) + b) * s -> conv(x, w * s) + b * s; (y + p) + q -> y + (p + q).

    s, b, p and q are vectors over the output channels that depend only on parameters and constants, so the products are
    computed once and not in every run. An inference batch norm is a scale and shift of this form. Needs: core, batch
    norms decomposed. Keeps: values up to rounding. A convolution whose result has other readers is not changed.
    """

    name = "fold-batchnorm"

    def run(self, graph: Graph, context: Context) -> Graph:
        if not graph.parameters:
            return graph
        folder = _Folder(graph)
        return rebuild(graph, folder.rule, CoreBuilder(graph.name))


class _Folder:
    """The rule, with properties of the whole graph: which new values depend only on parameters, and which old values
    have one use.
    """

    def __init__(self, graph: Graph) -> None:
        self.prepared = {graph.inputs[i] for i in graph.parameters}
        self.single = graph.read_once()
        self.sole: set[Value] = set()  # new values that replace an old value with one use

    def rule(self, b: GraphBuilder, node: Node, operands: tuple[Value, ...]) -> Replacement:
        assert isinstance(b, CoreBuilder)
        first = len(b.nodes)
        result = self._rewrite(b, node, operands)
        if result is None:
            kept = (
                node if operands == node.inputs else b.node(node.op, *operands, name=node.name, location=node.location)
            )
            result = kept.outputs[0] if len(kept.outputs) == 1 else None
            self._mark([kept])
            if len(node.outputs) == 1 and node.outputs[0] in self.single:
                self.sole.add(kept.outputs[0])
            return None if kept is node else kept.outputs
        self._mark(b.nodes[first:])
        if node.outputs[0] in self.single:
            self.sole.add(result)
        return result

    def _mark(self, nodes: list[Node]) -> None:
        for node in nodes:
            if isinstance(node.op, Constant) or (node.inputs and self.prepared.issuperset(node.inputs)):
                self.prepared.update(node.outputs)

    def _rewrite(self, b: CoreBuilder, node: Node, operands: tuple[Value, ...]) -> Value | None:
        if not isinstance(node.op, Pointwise) or node.op.op not in (ScalarOp.MUL, ScalarOp.ADD):
            return None
        for y, other in (operands, operands[::-1]):
            vector = self._channel_vector(other, y)
            if vector is None:
                continue
            folded = self._scale(b, y, vector) if node.op.op is ScalarOp.MUL else self._shift(b, y, vector)
            if folded is not None:
                return folded
        return None

    def _channel_vector(self, value: Value, like: Value) -> Value | None:
        """The prepared vector that `value` broadcasts over the channel axis; None if it is another value."""
        source = _contraction(_strip_shift(like))
        vector = _vector_along(value, _channel_axis(source)) if source is not None else None
        return vector if vector in self.prepared else None

    def _scale(self, b: CoreBuilder, y: Value, s: Value) -> Value | None:
        source = _contraction(y)
        if source is not None:
            return self._scaled(b, y, source, s)
        inner, shift = _shift_of(y)
        source = _contraction(inner) if inner is not None else None
        if inner is None or shift is None or source is None or y not in self.sole or shift not in self.prepared:
            return None
        scaled = self._scaled(b, inner, source, s)
        if scaled is None:
            return None
        return b.add(scaled, b.broadcast(b.mul(shift, s), y.type.shape, (_channel_axis(source),)))

    def _scaled(self, b: CoreBuilder, y: Value, source: Node, s: Value) -> Value | None:
        weight = source.inputs[1]
        if y not in self.sole or weight not in self.prepared or s.type.dtype is not weight.type.dtype:
            return None
        scaled = b.mul(weight, b.broadcast(s, weight.type.shape, (_weight_axis(source),)))
        return b.node(source.op, source.inputs[0], scaled, name=source.name, location=source.location).outputs[0]

    def _shift(self, b: CoreBuilder, y: Value, q: Value) -> Value | None:
        inner, p = _shift_of(y)
        source = _contraction(inner) if inner is not None else None
        if inner is None or p is None or source is None or p not in self.prepared or y not in self.sole:
            return None
        return b.add(inner, b.broadcast(b.add(p, q), y.type.shape, (_channel_axis(source),)))


def _contraction(value: Value) -> Node | None:
    """The convolution, or the product x[..., k] w[n, k], that computes `value`."""
    node = value.node
    if node is None:
        return None
    if isinstance(node.op, Conv):
        return node if node.op.batch_groups == 1 else None
    if isinstance(node.op, Dot) and not node.op.lhs_batch and node.inputs[1].type.rank == 2:
        return node
    return None


def _channel_axis(source: Node) -> int:
    """The output channel axis of a contraction's result."""
    return 1 if isinstance(source.op, Conv) else source.outputs[0].type.rank - 1


def _weight_axis(source: Node) -> int:
    """The output channel axis of the weight."""
    return 1 - source.op.rhs_contract[0] if isinstance(source.op, Dot) else 0


def _shift_of(value: Value) -> tuple[Value | None, Value | None]:
    """(y, p) if `value` is y + broadcast(p) with y a contraction and p a vector over its output channels."""
    node = value.node
    if node is None or not isinstance(node.op, Pointwise) or node.op.op is not ScalarOp.ADD:
        return None, None
    for y, other in (node.inputs, node.inputs[::-1]):
        source = _contraction(y)
        vector = _vector_along(other, _channel_axis(source)) if source is not None else None
        if vector is not None:
            return y, vector
    return None, None


def _vector_along(value: Value, axis: int) -> Value | None:
    """The vector that `value` repeats along all axes except `axis`; None if there is none."""
    if value.node is None or not isinstance(value.node.op, Broadcast):
        return None
    vector = value.node.inputs[0]
    return vector if vector.type.rank == 1 and value.node.op.axes == (axis,) else None


def _strip_shift(value: Value) -> Value:
    inner, _ = _shift_of(value)
    return inner if inner is not None else value
