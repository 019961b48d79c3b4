"""How much the body of a nest computes: its operations, of which few take many instructions."""

from __future__ import annotations

from ....ir.kernel import Scalar, walk
from ....ir.scalar import ScalarOp
from ...nest import Nest

_HEAVY = 8  # the work of an operation that takes many instructions, where moving an element is 1
_LIGHT = frozenset(
    {
        *(
            ScalarOp.ADD,
            ScalarOp.SUB,
            ScalarOp.MUL,
            ScalarOp.DIV,
            ScalarOp.NEG,
            ScalarOp.ABS,
            ScalarOp.SQRT,
            ScalarOp.RSQRT,
        ),
        *(
            ScalarOp.RECTIFY,
            ScalarOp.MAX,
            ScalarOp.MIN,
            ScalarOp.NOT,
            ScalarOp.AND,
            ScalarOp.OR,
            ScalarOp.XOR,
            ScalarOp.SELECT,
        ),
        *(ScalarOp.EQ, ScalarOp.NE, ScalarOp.LT, ScalarOp.LE, ScalarOp.GT, ScalarOp.GE, ScalarOp.SIGN),
        *(ScalarOp.FLOOR, ScalarOp.CEIL, ScalarOp.TRUNC, ScalarOp.IS_NAN, ScalarOp.IS_INF, ScalarOp.IS_FINITE),
    }
)
_LONG = frozenset(
    {
        *(ScalarOp.SIN, ScalarOp.COS, ScalarOp.TAN, ScalarOp.POW, ScalarOp.MOD, ScalarOp.ERFINV, ScalarOp.ATAN2),
        *(ScalarOp.GAMMA, ScalarOp.LGAMMA, ScalarOp.DIGAMMA, ScalarOp.ASIN, ScalarOp.ACOS),
    }
)
_LONG_STEPS = 24


def operations(nest: Nest) -> list[ScalarOp]:
    return [e.op for stage in nest.stages for e in walk(stage.value) if isinstance(e, Scalar)]


def is_long(nest: Nest) -> bool:
    """True if the body is so long that compiling it twice costs more than a mask for every vector."""
    ops = operations(nest)
    return len(ops) > _LONG_STEPS or not _LONG.isdisjoint(ops)


def work_of(nest: Nest) -> int:
    """The work of one element."""
    return max(1, _HEAVY * sum(op not in _LIGHT for op in operations(nest)))


def is_light(nest: Nest) -> bool:
    """True if each operation takes few instructions."""
    return _LIGHT.issuperset(operations(nest))
