"""Computes networks of 16-bit floats in float32, with the rounding of the 16-bit floats."""

from __future__ import annotations

from dataclasses import replace

from ..ir.dialects.core import (
    Broadcast,
    Cast,
    Concat,
    Conv,
    ConvWeightGradient,
    CoreBuilder,
    Pad,
    Pointwise,
    Reduce,
    ReduceWindow,
    Reshape,
    Reverse,
    SelectAndScatter,
    Slice,
    Transpose,
)
from ..ir.graph import Graph, GraphBuilder, Node, Op, Value
from ..ir.lazy_dataclass import dataclass
from ..ir.rewrite import Replacement, rebuild
from ..ir.scalar import ReduceOp, ScalarOp
from ..ir.types import DType
from .manager import Context, Pass

_NARROW = frozenset((DType.F16, DType.BF16))
_CONVOLUTIONS = (Conv, ConvWeightGradient)
_MOVES = (Broadcast, Concat, Pad, Reshape, Reverse, Slice, Transpose)
_WIDENED = (*_CONVOLUTIONS, *_MOVES, Pointwise, Reduce, ReduceWindow, SelectAndScatter)
_EXACT = (
    *(ScalarOp.MAX, ScalarOp.MIN, ScalarOp.SELECT, ScalarOp.ABS, ScalarOp.NEG, ScalarOp.SIGN),
    *(ReduceOp.MAX, ReduceOp.MIN),
)
"""Operations whose result is one of the operands, or a number that each dtype has."""


@dataclass(frozen=True)
class WidenFloats(Pass):
    """conv(x, w) -> cast(conv(cast(x), cast(w))) for convolutions of 16-bit floats, and the same for the primitives
    around them, if the target computes convolutions in blocks of float32 alone.

    Each result is rounded to its dtype and widened again, so that values stay the same up to the order of sums. What is
    stored between kernels is float32: convolutions read it without conversion. Products, and other primitives than
    those of `_WIDENED`, keep their dtypes. Needs: core. Keeps: the dtypes of inputs and outputs.
    """

    name = "widen-floats"

    def run(self, graph: Graph, context: Context) -> Graph:
        blocked = context.target.blocked_layout
        narrow = [n for n in graph.nodes if isinstance(n.op, _CONVOLUTIONS) and n.outputs[0].type.dtype in _NARROW]
        if not narrow or blocked is None or not blocked.stored - blocked.dtypes >= _NARROW:
            return graph
        return rebuild(graph, _Widener().rule, CoreBuilder(graph.name))


class _Widener:
    def __init__(self) -> None:
        self.wide: dict[Value, Value] = {}  # the same numbers in float32

    def rule(self, b: GraphBuilder, node: Node, operands: tuple[Value, ...]) -> Replacement:
        assert isinstance(b, CoreBuilder)
        dtypes = {v.type.dtype for v in (*operands, *node.outputs)}
        if dtypes.isdisjoint(_NARROW):
            return None
        if isinstance(node.op, Cast) and operands[0].type.dtype in _NARROW:
            return b.cast(self._widen(b, operands[0]), node.op.dtype)
        if not isinstance(node.op, _WIDENED):
            return None
        results = b.node(_in_float32(node.op), *(self._widen(b, v) for v in operands)).outputs
        return [self._narrow(b, node, new, old) for new, old in zip(results, node.outputs, strict=True)]

    def _widen(self, b: CoreBuilder, value: Value) -> Value:
        if value.type.dtype not in _NARROW:
            return value
        if value not in self.wide:
            self.wide[value] = b.cast(value, DType.F32)
        return self.wide[value]

    def _narrow(self, b: CoreBuilder, node: Node, result: Value, old: Value) -> Value:
        """The result in the dtype of the old one."""
        if old.type.dtype not in _NARROW:
            return result
        narrow = b.cast(result, old.type.dtype)
        if _is_exact(node):
            self.wide[narrow] = result
        return narrow


def _in_float32(op: Op) -> Op:
    return replace(op, accumulator=None) if isinstance(op, Conv) else op


def _is_exact(node: Node) -> bool:
    """True if the results of 16-bit floats need no rounding."""
    op = node.op
    return isinstance(op, _MOVES) or (isinstance(op, Pointwise | Reduce | ReduceWindow) and op.op in _EXACT)
