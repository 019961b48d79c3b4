"""Says primitives that no target has a kernel of its own for by other primitives."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..ir.dialects.core import ArgReduce, Conv, CoreBuilder, SelectAndScatter
from ..ir.graph import Graph, GraphBuilder, Node, Value
from ..ir.rewrite import Replacement, rebuild
from ..ir.types import DType
from .manager import Context, Pass


@dataclass(frozen=True)
class Expand(Pass):
    """argmax(x) -> the least position at which x equals its maximum or is NaN; argmin likewise.

    A convolution with groups of the batch -> one with groups of channels. A select_and_scatter of 16-bit floats -> one
    of float32, in which the sums are kept.

    Both reductions of an argmax walk the same rows, so fusion makes one region of them.
    Needs: core. Keeps: values.
    """

    name = "expand"

    def run(self, graph: Graph, context: Context) -> Graph:
        return rebuild(graph, _expand, CoreBuilder(graph.name))


def _expand(b: GraphBuilder, node: Node, operands: tuple[Value, ...]) -> Replacement:
    assert isinstance(b, CoreBuilder)
    match node.op:
        case ArgReduce() as op:
            return _arg_reduce(b, op, operands[0])
        case Conv(batch_groups=parts) as op if parts > 1:
            return _batch_groups(b, op, operands[0], operands[1])
        case SelectAndScatter() as op if operands[0].type.dtype in (DType.F16, DType.BF16):
            x, cotangent = (b.cast(v, DType.F32) for v in operands)
            wide = b.select_and_scatter(x, cotangent, op.window, op.strides, op.padding)
            return b.cast(wide, operands[0].type.dtype)
        case _:
            return None


def _batch_groups(b: CoreBuilder, op: Conv, x: Value, w: Value) -> Value:
    """The parts of the batch side by side as channels."""
    parts, (batch, channels, *space) = op.batch_groups, x.type.shape
    apart = b.reshape(x, (parts, batch // parts, channels, *space))
    beside = b.transpose(apart, (1, 0, *range(2, 3 + len(space))))
    wide = b.reshape(beside, (batch // parts, parts * channels, *space))
    return b.add_node(replace(op, groups=op.groups * parts, batch_groups=1), wide, w)


def _arg_reduce(b: CoreBuilder, op: ArgReduce, x: Value) -> Value:
    shape, axis = x.type.shape, op.axis
    extreme = b.max(x, axis) if op.kind == "max" else b.min(x, axis)
    kept = tuple(k for k in range(len(shape)) if k != axis)
    found = b.eq(x, b.broadcast(extreme, shape, kept))
    if x.type.dtype.is_float:
        found = b.or_(found, b.is_nan(x))
    position = b.iota(shape, DType.I64, axis)
    return b.min(b.select(found, position, b.full(shape, shape[axis], DType.I64)), axis)
