"""Arithmetic on elements of a float type, for rules of `legalize`."""

from __future__ import annotations

from typing import Any

from .builder import Builder

_EQUAL, _GREATER, _UNEQUAL, _UNORDERED = 1, 2, 13, 14
"""Predicates of `arith.cmpf`; a comparison with NaN is false, except the last two."""


class Floats:
    """Arithmetic on elements of a float type."""

    def __init__(self, builder: Builder, type: Any) -> None:
        self._builder, self.type = builder, type

    def constant(self, value: float) -> Any:
        attribute = {"value": self._builder.ir.FloatAttr.get(self.type, value)}
        return self._builder.operation("arith.constant", self.type, (), attribute)

    def add(self, x: Any, y: Any) -> Any:
        return self._of("arith.addf", x, y)

    def sub(self, x: Any, y: Any) -> Any:
        return self._of("arith.subf", x, y)

    def mul(self, x: Any, y: Any) -> Any:
        return self._of("arith.mulf", x, y)

    def div(self, x: Any, y: Any) -> Any:
        return self._of("arith.divf", x, y)

    def sqrt(self, x: Any) -> Any:
        return self._of("math.sqrt", x)

    def absolute(self, x: Any) -> Any:
        return self._of("math.absf", x)

    def with_sign(self, x: Any, y: Any) -> Any:
        """x with the sign of y."""
        return self._of("math.copysign", x, y)

    def equal(self, x: Any, y: Any) -> Any:
        return self._compare(_EQUAL, x, y)

    def greater(self, x: Any, y: Any) -> Any:
        return self._compare(_GREATER, x, y)

    def unequal(self, x: Any, y: Any) -> Any:
        return self._compare(_UNEQUAL, x, y)

    def is_nan(self, x: Any) -> Any:
        return self._compare(_UNORDERED, x, x)

    def converted(self, x: Any) -> Any:
        """An element of a float type in this one."""
        if x.type == self.type:
            return x
        return self._of("arith.extf" if x.type.width < self.type.width else "arith.truncf", x)

    def _compare(self, predicate: int, x: Any, y: Any) -> Any:
        ir = self._builder.ir
        attribute = {"predicate": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), predicate)}
        return self._builder.operation("arith.cmpf", ir.IntegerType.get_signless(1), [x, y], attribute)

    def _of(self, name: str, *operands: Any) -> Any:
        return self._builder.operation(name, self.type, operands)
