"""Divides reductions of all elements of a large tensor, so that threads share them."""

from __future__ import annotations

from math import prod

from ..ir.dialects.core import CoreBuilder, Pointwise, Reduce
from ..ir.graph import Graph, GraphBuilder, Node, Value
from ..ir.lazy_dataclass import dataclass
from ..ir.rewrite import Replacement, rebuild
from ..ir.scalar import ReduceOp
from .manager import Context, Pass

_LEAST_ELEMENTS = 1 << 18
_PART = 4096  # elements of the parts of a vector
_LEAST_PART, _LEAST_PARTS = 1024, 8


@dataclass(frozen=True)
class DivideReductions(Pass):
    """reduce(x) over all axes -> reduce(reduce(x) over the last axes); of a vector, over rows of it and the rest.

    A kernel has a unit of work for each element of its result, and a sum of everything has one. The parts depend on the
    shape alone, so that results do not depend on the number of threads. Needs: core with layouts. Keeps: values up to
    rounding.
    """

    name = "divide-reductions"

    def run(self, graph: Graph, context: Context) -> Graph:
        return rebuild(graph, _divided, CoreBuilder(graph.name))


def _divided(b: GraphBuilder, node: Node, operands: tuple[Value, ...]) -> Replacement:
    assert isinstance(b, CoreBuilder)
    if not isinstance(node.op, Reduce) or len(node.op.axes) < node.inputs[0].type.rank:
        return None
    (x,) = operands
    op, type = node.op.op, x.type
    if type.layout is not None or type.size < _LEAST_ELEMENTS or _rounds(op, x):
        return None
    return _divided_vector(b, op, x) if type.rank == 1 else _divided_axes(b, op, x)


def _rounds(op: ReduceOp, x: Value) -> bool:
    """True if the results of parts would be rounded to 16-bit floats."""
    return op in (ReduceOp.ADD, ReduceOp.MUL) and x.type.dtype.is_float and x.type.dtype.bits < 32


def _divided_axes(b: CoreBuilder, op: ReduceOp, x: Value) -> Value | None:
    """The last axes that have enough elements are reduced first, if the others have enough too."""
    shape = x.type.shape
    for first in reversed(range(1, len(shape))):
        part = prod(shape[first:])
        if part >= _LEAST_PART:
            parts = b.reduce(op, x, tuple(range(first, len(shape))))
            return b.reduce(op, parts) if prod(shape[:first]) >= _LEAST_PARTS else None
    return None


def _divided_vector(b: CoreBuilder, op: ReduceOp, x: Value) -> Value:
    (n,) = x.type.shape
    count = n // _PART
    whole = count * _PART
    result = b.reduce(op, b.reduce(op, b.reshape(b.slice_axis(x, 0, 0, whole), (count, _PART)), (1,)))
    if whole == n:
        return result
    return b.add_node(Pointwise(op.scalar), result, b.reduce(op, b.slice_axis(x, 0, whole, n)))
