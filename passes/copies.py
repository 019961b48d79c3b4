"""Decides which elementwise values are computed by each of their readers instead of stored.

    c = (x - mean) * scale           (n, m) each, with a mean and a scale for each row
    a = sum of g * c by columns
    b = rows of g and c

Both readers compute c of x: they read as much as before, and c is neither written nor kept.
"""

from __future__ import annotations

from ..ir.dialects.core import Pointwise
from ..ir.scalar import ScalarOp
from .groups import Group
from .kinds import Kind, kind_of

_CHEAP = frozenset((ScalarOp.ADD, ScalarOp.SUB, ScalarOp.MUL, ScalarOp.NEG, ScalarOp.MAX, ScalarOp.MIN))
_MOST = 4
"""The most operations that are computed again."""


def is_cheap(group: Group) -> bool:
    """True if a group is a few simple operations on elements of one row-major operand of the size of its result."""
    if len(group.nodes) > _MOST:
        return False
    inside = {v for n in group.nodes for v in n.outputs}
    if any(not isinstance(n.op, Pointwise) or n.op.op not in _CHEAP or n.outputs[0].type.layout for n in group.nodes):
        return False
    shape = group.last.outputs[0].type.shape
    operands = {v for n in group.nodes for v in n.inputs if v not in inside}
    virtual = {v for v in operands if v.node is not None and kind_of(v.node) is Kind.VIRTUAL}
    return len(operands - virtual) == 1 and all(v.type.shape == shape for v in operands - virtual)
