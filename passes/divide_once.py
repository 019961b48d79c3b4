"""Replaces the division of a row by one number with a multiplication: one division per row."""

from __future__ import annotations

from ..ir.dialects.core import Broadcast, CoreBuilder, Pointwise, Reduce, Reshape
from ..ir.graph import Graph, GraphBuilder, Node, Value
from ..ir.lazy_dataclass import dataclass
from ..ir.rewrite import Replacement, rebuild
from ..ir.scalar import ScalarOp
from .manager import Context, Pass


@dataclass(frozen=True)
class DivideOnce(Pass):
    """x / broadcast(reduction) -> x * broadcast(1 / reduction), as in softmax, where the divisor is the sum of the row.

    A vector division costs several multiplications. Needs: core. Keeps: values up to one additional rounding.
    """

    name = "divide-once"

    def run(self, graph: Graph, context: Context) -> Graph:
        return rebuild(graph, _multiply, CoreBuilder(graph.name))


def _multiply(b: GraphBuilder, node: Node, operands: tuple[Value, ...]) -> Replacement:
    assert isinstance(b, CoreBuilder)
    if not isinstance(node.op, Pointwise) or node.op.op is not ScalarOp.DIV:
        return None
    if not node.outputs[0].type.dtype.is_float:
        return None
    x, divisor = operands
    reciprocal = _reciprocal(b, divisor)
    return None if reciprocal is None else b.mul(x, reciprocal)


def _reciprocal(b: CoreBuilder, divisor: Value) -> Value | None:
    """1 / divisor, divided before the broadcast; None unless `divisor` is a broadcast reduction."""
    broadcast = divisor.node
    if broadcast is None or not isinstance(broadcast.op, Broadcast):
        return None
    row = broadcast.inputs[0]
    reduction = row.node.inputs[0] if row.node is not None and isinstance(row.node.op, Reshape) else row
    if reduction.node is None or not isinstance(reduction.node.op, Reduce):
        return None
    inverse = b.div(1.0, reduction)
    return b.broadcast(b.reshape(inverse, row.type.shape), broadcast.op.shape, broadcast.op.axes)
