"""Numbers of an optimizer as values of a graph, for an update whose count is an operand."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ...ir.dialects.core import CoreBuilder, Pointwise
from ...ir.graph import Value
from ...ir.scalar import ScalarOp
from ...ir.types import DType


class GraphNumber:
    """A float64 that a graph computes. Arithmetic on it adds nodes; it has no value that Python can test."""

    def __init__(self, b: CoreBuilder, value: Value) -> None:
        self.b, self.value = b, value

    def apply(self, op: ScalarOp, *operands: Any) -> GraphNumber:
        """The result of a scalar operation on numbers, of which some can be Python's."""
        values = [x.value if isinstance(x, GraphNumber) else self.b.constant(x, DType.F64) for x in operands]
        return GraphNumber(self.b, self.b.add_node(Pointwise(op), *values))

    def single(self) -> GraphNumber:
        """The number rounded to float32."""
        return GraphNumber(self.b, self.b.cast(self.b.cast(self.value, DType.F32), DType.F64))

    def __bool__(self) -> bool:
        raise TypeError("a number of a graph has no value")


def _operator(op: ScalarOp, *, swapped: bool = False) -> Callable[[GraphNumber, Any], GraphNumber]:
    def method(self: GraphNumber, other: Any) -> GraphNumber:
        return self.apply(op, other, self) if swapped else self.apply(op, self, other)

    return method


for _op, _name in (
    (ScalarOp.ADD, "add"),
    (ScalarOp.SUB, "sub"),
    (ScalarOp.MUL, "mul"),
    (ScalarOp.DIV, "truediv"),
    (ScalarOp.POW, "pow"),
):
    setattr(GraphNumber, f"__{_name}__", _operator(_op))
    setattr(GraphNumber, f"__r{_name}__", _operator(_op, swapped=True))


def root(x: Any) -> Any:
    """The square root of a number."""
    return x.apply(ScalarOp.SQRT, x) if isinstance(x, GraphNumber) else math.sqrt(x)
