"""Replaces primitives that have no kernel on any target by other primitives."""

from __future__ import annotations

from ..ir.dialects.core import CoreBuilder, CsrDot, Primitive
from ..ir.graph import Graph, GraphBuilder, Node, Value
from ..ir.lazy_dataclass import dataclass
from ..ir.rewrite import Replacement, rebuild
from .manager import Context, Pass


@dataclass(frozen=True)
class Expand(Pass):
    """Replace each primitive of class `kind` by the result of its `expand` method.

    argmax(x) -> the smallest position where x equals its maximum; a product with a sparse matrix, on a target without
    kernels for it -> a scatter. Needs: core. Keeps: values.
    """

    name = "expand"
    kind: type[Primitive] = Primitive

    def run(self, graph: Graph, context: Context) -> Graph:
        def expanded(b: GraphBuilder, node: Node, operands: tuple[Value, ...]) -> Replacement:
            assert isinstance(b, CoreBuilder)
            has_kernel = isinstance(node.op, CsrDot) and context.target.multiplies_csr
            return node.op.expand(b, *operands) if isinstance(node.op, self.kind) and not has_kernel else None

        return rebuild(graph, expanded, CoreBuilder(graph.name))
