"""The costs of saving a value and of recomputing it, in quarters of a byte of memory traffic.

The costs relate a pass over memory to arithmetic inside a fused loop: a core moves a few bytes per cycle, and does a
simple operation on a vector of elements in the same time.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from ..ir.dialects.core import (
    ArgReduce,
    Broadcast,
    Call,
    Cast,
    Concat,
    Constant,
    Gather,
    Iota,
    Pad,
    Pointwise,
    RandomBits,
    Reduce,
    ReduceWindow,
    Reshape,
    Reverse,
    Size,
    Slice,
    Transpose,
)
from ..ir.graph import Node, Value
from ..ir.scalar import ScalarOp

_BYTE = 4
_SIMPLE, _DIVISION, _FUNCTION, _SPECIAL = 1, 8, 16, 128  # per element

_SCALAR: dict[ScalarOp, int] = {
    **dict.fromkeys((ScalarOp.DIV, ScalarOp.MOD, ScalarOp.SQRT, ScalarOp.RSQRT, ScalarOp.HYPOT), _DIVISION),
    **dict.fromkeys((ScalarOp.EXP, ScalarOp.EXPM1, ScalarOp.TANH, ScalarOp.SIGMOID, ScalarOp.ERF), _FUNCTION),
    **dict.fromkeys((ScalarOp.LOG, ScalarOp.LOG1P, ScalarOp.LOG2, ScalarOp.LOG10), _FUNCTION),
    **dict.fromkeys((ScalarOp.SIN, ScalarOp.COS, ScalarOp.TAN, ScalarOp.SINH, ScalarOp.COSH), _FUNCTION),
    **dict.fromkeys((ScalarOp.ASIN, ScalarOp.ACOS, ScalarOp.ATAN, ScalarOp.ATAN2, ScalarOp.CBRT), _FUNCTION),
    **dict.fromkeys((ScalarOp.ASINH, ScalarOp.ACOSH, ScalarOp.ATANH, ScalarOp.POW), _FUNCTION),
    **dict.fromkeys((ScalarOp.GAMMA, ScalarOp.LGAMMA, ScalarOp.DIGAMMA, ScalarOp.ERFINV), _SPECIAL),
}


def keeping_cost(value: Value, stored: bool) -> int:
    """The cost of saving a value: it is read, and also written unless the forward pass stores it anyway (`stored`)."""
    return _BYTE * value.type.nbytes * (1 if stored else 2)


def recomputing_cost(node: Node) -> int | None:
    """The cost of recomputing a node inside a fused loop; None if it is never recomputed."""
    cost = _COSTS.get(type(node.op))
    return None if cost is None else cost(node)


def has_own_kernel(node: Node) -> bool:
    """True if the node reads its operands from memory and writes its results to memory, whatever surrounds it."""
    return recomputing_cost(node) is None and not isinstance(node.op, RandomBits)


def reads_memory(node: Node) -> bool:
    """True if the operands of a node are in memory: those of its own kernel, and what windows slide over."""
    return has_own_kernel(node) or isinstance(node.op, ReduceWindow)


def moves_only(node: Node) -> bool:
    """True if the node only moves elements: a kernel reads its operand through an index map."""
    return isinstance(node.op, Broadcast | Reshape | Slice | Transpose | Reverse)


def _elements(node: Node) -> int:
    return sum(v.type.size for v in node.outputs)


def _moved(node: Node) -> int:
    return _SIMPLE * _elements(node)


def _reduced(node: Node) -> int:
    """A separate pass over the operand."""
    x = node.inputs[0].type
    return _BYTE * x.nbytes + _SIMPLE * x.size


def _pooled(node: Node) -> int:
    assert isinstance(node.op, ReduceWindow)
    return _BYTE * node.inputs[0].type.nbytes + _SIMPLE * prod(node.op.window) * _elements(node)


def _pointwise(node: Node) -> int:
    assert isinstance(node.op, Pointwise)
    return _SCALAR.get(node.op.op, _SIMPLE) * _elements(node)


def _called(node: Node) -> int | None:
    """The total cost of the body's nodes."""
    assert isinstance(node.op, Call)
    total = 0
    for inner in node.op.body.nodes:
        cost = recomputing_cost(inner)
        if cost is None:
            return None
        total += cost
    return total


_COSTS: dict[type, Callable[[Any], int | None]] = {
    **dict.fromkeys((Constant, Size, Iota, Broadcast, Reshape, Slice, Transpose, Reverse), lambda node: 0),
    **dict.fromkeys((Cast, Concat, Pad), _moved),
    Pointwise: _pointwise,
    Gather: lambda node: _BYTE * sum(v.type.nbytes for v in node.outputs),
    Reduce: _reduced,
    ArgReduce: _reduced,
    ReduceWindow: _pooled,
    Call: _called,
}
"""All other primitives are never recomputed: contractions, sorts, scatters, factorizations, random draws, cumulative
operations, loops, branches and calls of Python."""
