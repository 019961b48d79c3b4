"""Moves reshapes of products after elementwise nodes that read them, which can then join the kernel of the product."""

from __future__ import annotations

from ..ir.dialects.core import Broadcast, Cast, CoreBuilder, Dot, Pointwise, Reshape
from ..ir.graph import Graph, GraphBuilder, Node, Value
from ..ir.lazy_dataclass import dataclass
from ..ir.rewrite import Replacement, rebuild
from ..ir.types import Shape
from .manager import Context, Pass


@dataclass(frozen=True)
class SinkReshapes(Pass):
    """f(reshape(dot), number) -> reshape(f(dot, number)), for elementwise f, which can read the product several times.

    Dense layers of three-dimensional data reshape their product. Programs for any shapes stay. Needs: core. Keeps:
    values.
    """

    name = "sink-reshapes"

    def run(self, graph: Graph, context: Context) -> Graph:
        if context.options.dynamic:
            return graph
        return rebuild(graph, _Sinker(graph).rule, CoreBuilder(graph.name))


class _Sinker:
    """Values of the old graph: `products` are results of products and elementwise functions of them, `reshaped` are
    reshapes of products, in the new graph too."""

    def __init__(self, graph: Graph) -> None:
        self.readers = {v: [n for n, _ in uses] for v, uses in graph.users().items()}
        self.outputs = frozenset(graph.outputs)
        self.products: set[Value] = set()
        self.reshaped: set[Value] = set()

    def rule(self, b: GraphBuilder, node: Node, operands: tuple[Value, ...]) -> Replacement:
        assert isinstance(b, CoreBuilder)
        if isinstance(node.op, Reshape) and node.inputs[0] in self.products:
            self.reshaped.add(node.outputs[0])
        if isinstance(node.op, Dot):
            self.products.add(node.outputs[0])
        if not isinstance(node.op, Pointwise | Cast):
            return None
        shape = self._shape(node, operands)
        if shape is None:
            if not self.products.isdisjoint(node.inputs):
                self.products.add(node.outputs[0])
            return None
        self.reshaped.add(node.outputs[0])
        result = b.add_node(node.op, *(_of_shape(b, v, shape) for v in operands))
        return b.reshape(result, node.outputs[0].type.shape)

    def _shape(self, node: Node, operands: tuple[Value, ...]) -> Shape | None:
        """The shape of the products that the operands reshape; None unless each operand is a number or a reshape of a
        product of the same shape, which only elementwise nodes read."""
        shapes: set[Shape] = set()
        for old, new in zip(node.inputs, operands, strict=True):
            if old in self.reshaped and self._is_elementwise(old):
                assert new.node is not None
                shapes.add(new.node.inputs[0].type.shape)
            elif not _is_number(new):
                return None
        return shapes.pop() if len(shapes) == 1 else None

    def _is_elementwise(self, value: Value) -> bool:
        """True if only elementwise nodes read a value."""
        return value not in self.outputs and all(isinstance(n.op, Pointwise | Cast) for n in self.readers[value])


def _is_number(value: Value) -> bool:
    return value.node is not None and isinstance(value.node.op, Broadcast) and not value.node.inputs[0].type.rank


def _of_shape(b: CoreBuilder, value: Value, shape: Shape) -> Value:
    """A number or a reshape, with another shape."""
    assert value.node is not None
    (source,) = value.node.inputs
    return source if isinstance(value.node.op, Reshape) else b.broadcast(source, shape, ())
