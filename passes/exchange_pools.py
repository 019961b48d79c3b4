"""Computes sums over windows and 1x1 convolutions in the cheaper order."""

from __future__ import annotations

from math import prod

from ..ir.dialects.core import Broadcast, Conv, CoreBuilder, Pointwise, ReduceWindow
from ..ir.graph import Graph, GraphBuilder, Node, Value
from ..ir.kernel import ReduceOp
from ..ir.lazy_dataclass import dataclass
from ..ir.rewrite import Replacement, rebuild
from ..ir.scalar import ScalarOp
from ..ir.types import DType
from .manager import Context, Pass

_FEWEST_FILTERS = 8
"""With fewer filters the multiply-adds that are saved are few beside the sums, which are those of the input."""


@dataclass(frozen=True)
class ExchangePools(Pass):
    """sum over windows of conv1x1(x, w) -> conv1x1(sum over windows of x, w), if windows move by more than one element;
    conv1x1(c * sum over windows of x, w) -> c * sum over windows of conv1x1(x, w), if they do not and the convolution
    has at most half as many filters as channels.

    The first is the transition of a DenseNet, of whose points a quarter remain; the second a branch of Inception.
    Needs: core. Keeps: values up to rounding. A value that has other readers is not changed.
    """

    name = "exchange-pools"

    def run(self, graph: Graph, context: Context) -> Graph:
        return rebuild(graph, _Exchange(graph).rule, CoreBuilder(graph.name))


class _Exchange:
    """The rule; `single` are the values of the old graph with one use."""

    def __init__(self, graph: Graph) -> None:
        self.single = graph.read_once()

    def rule(self, b: GraphBuilder, node: Node, operands: tuple[Value, ...]) -> Replacement:
        assert isinstance(b, CoreBuilder)
        if _is_sum(node) and node.inputs[0] in self.single:
            return _pool_first(b, node, operands[0])
        if _is_pointwise(node) and node.inputs[0] in self.single:
            return self._convolve_first(b, node, operands)
        return None

    def _convolve_first(self, b: CoreBuilder, node: Node, operands: tuple[Value, ...]) -> Value | None:
        pool, scale = _scaled(node.inputs[0])
        new_pool, _ = _scaled(operands[0])
        w = operands[1]
        if (
            pool is None
            or new_pool is None
            or pool.outputs[0] not in self.single
            or 2 * w.type.shape[0] > w.type.shape[1]
        ):
            return None
        assert isinstance(pool.op, ReduceWindow)
        if not _is_sum(pool) or prod(pool.op.strides) > 1:
            return None
        y = b.node(node.op, new_pool.inputs[0], w, name=node.name, location=node.location).outputs[0]
        sums = _sums(b, pool, y)
        return sums if scale is None else b.mul(sums, b.broadcast(scale, sums.type.shape, ()))


def _pool_first(b: CoreBuilder, node: Node, x: Value) -> Value | None:
    conv = x.node
    assert isinstance(node.op, ReduceWindow)
    if conv is None or not _is_pointwise(conv) or prod(node.op.strides) == 1:
        return None
    sums = _sums(b, node, conv.inputs[0])
    return b.node(conv.op, sums, conv.inputs[1], name=conv.name, location=conv.location).outputs[0]


def _sums(b: CoreBuilder, pool: Node, x: Value) -> Value:
    return b.node(pool.op, x, name=pool.name, location=pool.location).outputs[0]


def _is_sum(node: Node) -> bool:
    """True for sums along spatial axes. Elements of the padding are zero, as is the convolution of zeros."""
    op = node.op
    if not isinstance(op, ReduceWindow) or op.op is not ReduceOp.ADD:
        return False
    return op.window[:2] == op.strides[:2] == (1, 1) and op.padding[:2] == ((0, 0), (0, 0))


def _scaled(value: Value) -> tuple[Node | None, Value | None]:
    """(the sums, None), or (the sums, the number c) if `value` is sums times c; (None, None) for other values."""
    node = value.node
    if node is None or isinstance(node.op, ReduceWindow):
        return node, None
    if not isinstance(node.op, Pointwise) or node.op.op is not ScalarOp.MUL:
        return None, None
    for sums, factor in (node.inputs, node.inputs[::-1]):
        whole = factor.node is not None and isinstance(factor.node.op, Broadcast) and factor.node.op.axes == ()
        if whole and factor.node is not None and sums.node is not None and isinstance(sums.node.op, ReduceWindow):
            return sums.node, factor.node.inputs[0]
    return None, None


def _is_pointwise(node: Node) -> bool:
    """True for a 1x1 convolution without padding that reads each position once."""
    op = node.op
    if not isinstance(op, Conv) or op.groups != 1 or op.batch_groups != 1:
        return False
    x, w = (v.type for v in node.inputs)
    unit = all(n == 1 for n in (*w.shape[2:], *op.strides, *op.lhs_dilation))
    plain = x.dtype is w.dtype is node.outputs[0].type.dtype and x.dtype in (DType.F32, DType.F64)
    return unit and plain and not any(map(any, op.padding)) and w.shape[0] >= _FEWEST_FILTERS
