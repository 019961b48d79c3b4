"""Replaces operations for which the lowering of MLIR or LLVM loses digits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..stablehlo.upstream import Upstream, find_all


def keep_digits(upstream: Upstream, module: Any) -> None:
    """Replace log(1 + x) and exp(x) - 1, which MLIR computes as they are written.

    Near 0 they are corrected by the rounding error of 1 + x, or of exp(x) (Kahan; see Higham 2002, "Accuracy and
    Stability of Numerical Algorithms", 1.14).
    """
    for op in find_all(module.operation, _REPLACED):
        with upstream.ir.InsertionPoint(op), op.location:
            result = _with_float32(_Arithmetic(upstream, op.results[0].type), _REPLACED[op.name], op.operands[0])
        op.results[0].replace_all_uses_with(result)
        op.erase()


def widen_bfloats(upstream: Upstream, module: Any) -> None:
    """Compute with bfloat16 in float32, and round each result. LLVM calls a library for it on some processors."""
    if "bf16" not in str(module):
        return
    for passes in _IN_FLOAT32:
        upstream.run(f"builtin.module({passes})", module)
        # With its flag a result that is read in float32 would not be rounded.
        for op in find_all(module.operation, ("arith.extf", "arith.truncf")):
            _unflag(op)


def _unflag(op: Any) -> None:
    if "fastmath" in op.attributes:
        del op.attributes["fastmath"]


_IN_FLOAT32 = (
    "arith-emulate-unsupported-floats{source-types=bf16 target-type=f32}",
    "func.func(math-extend-to-supported-types{target-type=f32 extra-types=f16})",
)


class _Arithmetic:
    """Adds operations on numbers of one type."""

    def __init__(self, upstream: Upstream, type: Any) -> None:
        self.ir, self.type = upstream.ir, type

    def op(self, name: str, *operands: Any, type: Any = None, **attributes: Any) -> Any:
        return self.ir.Operation.create(name, [type or self.type], operands, attributes=attributes).result

    def number(self, value: float) -> Any:
        return self.op("arith.constant", value=self.ir.FloatAttr.get(self.type, value))

    def select_equal(self, x: Any, value: float, chosen: Any, other: Any) -> Any:
        """`chosen` where x is a number, else `other`."""
        integer = self.ir.IntegerType.get_signless
        equal = self.ir.IntegerAttr.get(integer(64), 1)  # the predicate `oeq`
        condition = self.op("arith.cmpf", x, self.number(value), type=integer(1), predicate=equal)
        return self.op("arith.select", condition, chosen, other)


def _with_float32(a: _Arithmetic, function: Callable[[_Arithmetic, Any], Any], x: Any) -> Any:
    """A function of x, computed in float32 if x is narrower."""
    narrow = a.type
    if narrow.width >= 32:
        return function(a, x)
    a.type = a.ir.F32Type.get()
    return a.op("arith.truncf", function(a, a.op("arith.extf", x)), type=narrow)


def _log1p(a: _Arithmetic, x: Any) -> Any:
    more = a.op("arith.addf", a.number(1), x)
    added = a.op("arith.subf", more, a.number(1))
    product = a.op("arith.mulf", a.op("math.log", more), a.op("arith.divf", x, added))
    return a.select_equal(added, 0, x, a.select_equal(more, float("inf"), more, product))


def _expm1(a: _Arithmetic, x: Any) -> Any:
    power = a.op("math.exp", x)
    less = a.op("arith.subf", power, a.number(1))
    product = a.op("arith.mulf", less, a.op("arith.divf", x, a.op("math.log", power)))
    result = a.select_equal(less, -1, less, a.select_equal(power, float("inf"), power, product))
    return a.select_equal(less, 0, x, result)


_REPLACED = {"math.log1p": _log1p, "math.expm1": _expm1}
