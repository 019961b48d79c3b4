"""Says primitives that no target has a kernel of its own for by other primitives."""

from __future__ import annotations

from dataclasses import dataclass

from ..ir.dialects.core import ArgReduce, CoreBuilder
from ..ir.graph import Graph, GraphBuilder, Node, Value
from ..ir.rewrite import Replacement, rebuild
from ..ir.types import DType
from .manager import Context, Pass


@dataclass(frozen=True)
class Expand(Pass):
    """argmax(x) -> the least position at which x equals its maximum or is NaN; argmin likewise.

    Both reductions walk the same rows, so fusion makes one region of them.
    Needs: core. Keeps: values.
    """

    name = "expand"

    def run(self, graph: Graph, context: Context) -> Graph:
        return rebuild(graph, _expand, CoreBuilder(graph.name))


def _expand(b: GraphBuilder, node: Node, operands: tuple[Value, ...]) -> Replacement:
    assert isinstance(b, CoreBuilder)
    return _arg_reduce(b, node.op, operands[0]) if isinstance(node.op, ArgReduce) else None


def _arg_reduce(b: CoreBuilder, op: ArgReduce, x: Value) -> Value:
    shape, axis = x.type.shape, op.axis
    extreme = b.max(x, axis) if op.kind == "max" else b.min(x, axis)
    kept = tuple(k for k in range(len(shape)) if k != axis)
    found = b.eq(x, b.broadcast(extreme, shape, kept))
    if x.type.dtype.is_float:
        found = b.or_(found, b.is_nan(x))
    position = b.iota(shape, DType.I64, axis)
    return b.min(b.select(found, position, b.full(shape, shape[axis], DType.I64)), axis)
