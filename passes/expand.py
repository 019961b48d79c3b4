"""Replaces primitives for which the target has no kernel by other primitives."""

from __future__ import annotations

from ..ir.dialects.core import ArgReduce, CoreBuilder, CsrDot, Primitive, Reshape
from ..ir.graph import Graph, GraphBuilder, Node, Value
from ..ir.lazy_dataclass import dataclass
from ..ir.rewrite import Replacement, rebuild
from ..ir.target import Capabilities
from .manager import Context, Pass


@dataclass(frozen=True)
class Expand(Pass):
    """Replace each primitive of class `kind` by the result of its `expand` method, unless the target has a kernel for
    it.

    argmax(x) -> the smallest position where x equals its maximum; a product with a sparse matrix -> a scatter. Needs:
    core. Keeps: values.
    """

    name = "expand"
    kind: type[Primitive] = Primitive

    def run(self, graph: Graph, context: Context) -> Graph:
        def expanded(b: GraphBuilder, node: Node, operands: tuple[Value, ...]) -> Replacement:
            assert isinstance(b, CoreBuilder)
            has_kernel = _has_kernel(node, operands, context.target)
            return node.op.expand(b, *operands) if isinstance(node.op, self.kind) and not has_kernel else None

        return rebuild(graph, expanded, CoreBuilder(graph.name))


_LONG_ROW, _LONGEST_ROW = 256, 1 << 31


def _has_kernel(node: Node, operands: tuple[Value, ...], target: Capabilities) -> bool:
    """True if the target has a kernel for the primitive of a node. The kernel for positions reads a stored tensor:
    other tensors are computed by the kernel that reduces them."""
    if isinstance(node.op, CsrDot):
        return target.multiplies_csr
    if not isinstance(node.op, ArgReduce) or not target.finds_positions:
        return False
    (x,) = operands
    is_last = node.op.axis == x.type.rank - 1
    return is_last and _is_stored(x) and _LONG_ROW <= x.type.shape[-1] < _LONGEST_ROW


def _is_stored(x: Value) -> bool:
    """True for an input of the graph, and for a reshape of one."""
    while x.node is not None and isinstance(x.node.op, Reshape):
        x = x.node.inputs[0]
    return x.node is None
