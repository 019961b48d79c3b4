"""Repeats elements instead of adding zeros to them: the gradient of sums over windows that do not overlap."""

from __future__ import annotations

from ..ir.dialects.core import Constant, CoreBuilder, Pad, ReduceWindow
from ..ir.graph import Graph, GraphBuilder, Node, Value
from ..ir.kernel import ReduceOp
from ..ir.lazy_dataclass import dataclass
from ..ir.rewrite import Replacement, rebuild
from .manager import Context, Pass


@dataclass(frozen=True)
class RepeatWindows(Pass):
    """Sums over windows, at each element, of values between which zeros are as far apart as windows are long: each sum
    is one of the values. It becomes a broadcast, which reads no zeros.

    Needs: core, layouts assigned (in blocks of channels the sums have fast code). Keeps: values.
    """

    name = "repeat-windows"

    def run(self, graph: Graph, context: Context) -> Graph:
        return rebuild(graph, _repeat, CoreBuilder(graph.name))


def _repeat(b: GraphBuilder, node: Node, operands: tuple[Value, ...]) -> Replacement:
    assert isinstance(b, CoreBuilder)
    op, pad = node.op, operands[0].node if operands else None
    if not isinstance(op, ReduceWindow) or op.op is not ReduceOp.ADD or pad is None or not isinstance(pad.op, Pad):
        return None
    x, value = pad.inputs
    plain = {*op.strides, *op.dilation} == {1} and not any(map(any, op.padding))
    spaced = tuple([n + 1 for n in pad.op.interior]) == op.window
    if (
        not plain
        or not spaced
        or not _is_zero(value)
        or x.type.layout
        or node.outputs[0].type.layout
        or 0 in x.type.shape
    ):
        return None
    spread: list[int] = []
    axes: list[int] = []
    for n, window in zip(x.type.shape, op.window, strict=True):
        axes.append(len(spread))
        spread += [n] if window == 1 else [n, window]
    whole = tuple([n * w for n, w in zip(x.type.shape, op.window, strict=True)])
    repeated = b.reshape(b.broadcast(x, tuple(spread), tuple(axes)), whole)
    low = [n - w + 1 for n, w in zip(pad.op.low, op.window, strict=True)]
    high = [n - m - before for n, m, before in zip(node.outputs[0].type.shape, whole, low, strict=True)]
    return b.pad(repeated, value, low, high) if any(low) or any(high) else repeated


def _is_zero(value: Value) -> bool:
    node = value.node
    return node is not None and isinstance(node.op, Constant) and not node.op.value.any()
