"""The table from scalar operations to LLVM: `emit_scalar` emits an operation on values with any number of lanes.

`ir/scalar.py` defines the semantics. 16-bit floats are computed in float32 and rounded after each operation, doubles
and floats in their own type. Integers wrap, shifts by the width or more give 0 (or the sign), and a division by zero
gives 0 instead of stopping the process.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ...ir.scalar import ScalarOp
from ...ir.types import DType
from .arithmetic import Value
from .emitter import FunctionBuilder
from .types import type_of
from .vmath import call_math

Rule = Callable[[FunctionBuilder, DType, Sequence[Value]], Value]

_UNSIGNED_PREDICATES = {"lt": "ult", "le": "ule", "gt": "ugt", "ge": "uge"}


def emit_scalar(f: FunctionBuilder, op: ScalarOp, operands: Sequence[Value], dtype: DType) -> Value:
    """`op` on operands of `dtype` (for SELECT, the dtype of the two values). The result has `result_dtype(op, ...)`.
    ValueError for a wrong number of operands."""
    if len(operands) != op.arity:
        raise ValueError(f"{op.value} takes {op.arity} operands, got {len(operands)}")
    if dtype in (DType.F16, DType.BF16) and op is not ScalarOp.SELECT:
        return _through_float(f, op, operands, dtype)
    return RULES[op](f, dtype, operands)


def emit_cast(f: FunctionBuilder, value: Value, source: DType, target: DType) -> Value:
    """`value`, of dtype `source`, converted to `target`; see `FunctionBuilder.convert` for rounding."""
    integer_side = source if source.is_integer or source is DType.BOOL else target
    return f.convert(value, type_of(target).element, signed=integer_side.is_signed)


def _through_float(f: FunctionBuilder, op: ScalarOp, operands: Sequence[Value], dtype: DType) -> Value:
    result = RULES[op](f, DType.F32, [f.convert(x, "float") for x in operands])
    return f.convert(result, type_of(dtype).element) if result.type.is_float else result


def _math(name: str) -> Rule:
    def rule(f: FunctionBuilder, dtype: DType, x: Sequence[Value]) -> Value:
        return call_math(f, name, *x)

    return rule


def _rounding(name: str) -> Rule:
    """A rounding of floats that does not change integers."""

    def rule(f: FunctionBuilder, dtype: DType, x: Sequence[Value]) -> Value:
        return call_math(f, name, *x) if dtype.is_float else x[0]

    return rule


def _by_name(method: str) -> Rule:
    def rule(f: FunctionBuilder, dtype: DType, x: Sequence[Value]) -> Value:
        return getattr(f, method)(*x)

    return rule


def _compare(predicate: str) -> Rule:
    def rule(f: FunctionBuilder, dtype: DType, x: Sequence[Value]) -> Value:
        unsigned = dtype.is_unsigned or dtype is DType.BOOL
        return f.cmp(_UNSIGNED_PREDICATES.get(predicate, predicate) if unsigned else predicate, *x)

    return rule


def _extreme(signed: str, unsigned: str) -> Rule:
    def rule(f: FunctionBuilder, dtype: DType, x: Sequence[Value]) -> Value:
        if dtype.is_unsigned or dtype is DType.BOOL:
            return f.intrinsic(unsigned, x[0].type, *x)
        bound = next((v for v in x if _is_number(v)), None) if dtype.is_float else None
        if bound is None:
            return getattr(f, signed)(*x)
        other = x[0] if bound is x[1] else x[1]
        return getattr(f, f"{signed}_or_second")(bound, other)  # propagates a NaN in `other`

    return rule


def _is_number(value: Value) -> bool:
    """True for a constant other than NaN."""
    return (
        not value.text.startswith("%")
        and "7FF8" not in value.text
        and "7E00" not in value.text
        and "7FC0" not in value.text
    )


def _abs(f: FunctionBuilder, dtype: DType, x: Sequence[Value]) -> Value:
    return f.abs(x[0]) if dtype.is_float or dtype.is_signed else x[0]


def _sign(f: FunctionBuilder, dtype: DType, x: Sequence[Value]) -> Value:
    """-1, 0 or 1; NaN for NaN."""
    (a,) = x
    if not dtype.is_float:
        positive = f.convert(f.cmp("ugt" if not dtype.is_signed else "gt", a, 0), a.type.element)
        return positive - f.convert(f.cmp("lt", a, 0), a.type.element) if dtype.is_signed else positive
    unit = f.copysign(1.0, a)
    return f.select(f.cmp("one", a, 0.0), unit, a)


def _is_nan(f: FunctionBuilder, dtype: DType, x: Sequence[Value]) -> Value:
    return f.is_nan(x[0]) if dtype.is_float else _constant_test(f, x[0], 0)


def _is_inf(f: FunctionBuilder, dtype: DType, x: Sequence[Value]) -> Value:
    return f.cmp("eq", f.abs(x[0]), float("inf")) if dtype.is_float else _constant_test(f, x[0], 0)


def _is_finite(f: FunctionBuilder, dtype: DType, x: Sequence[Value]) -> Value:
    return f.cmp("lt", f.abs(x[0]), float("inf")) if dtype.is_float else _constant_test(f, x[0], 1)


def _constant_test(f: FunctionBuilder, x: Value, answer: int) -> Value:
    return f.const(x.type.with_element("i1"), answer)


def _add(f: FunctionBuilder, dtype: DType, x: Sequence[Value]) -> Value:
    return f.or_(*x) if dtype is DType.BOOL else f.add(*x)


def _multiply(f: FunctionBuilder, dtype: DType, x: Sequence[Value]) -> Value:
    return f.and_(*x) if dtype is DType.BOOL else f.mul(*x)


def _safe_divisor(f: FunctionBuilder, dtype: DType, x: Sequence[Value]) -> tuple[Value, Value]:
    """A divisor that cannot trap (1 instead of 0, and instead of -1 if the dividend is the lowest number), and the test
    that the divisor is 0."""
    a, b = x
    zero = f.cmp("eq", b, 0)
    unsafe = zero
    if dtype.is_signed:
        lowest = -(1 << (dtype.bits - 1))
        unsafe = zero | (f.cmp("eq", b, -1) & f.cmp("eq", a, lowest))
    return f.select(unsafe, f.const(b.type, 1), b), zero


def _divide(f: FunctionBuilder, dtype: DType, x: Sequence[Value]) -> Value:
    if dtype.is_float:
        return f.div(*x)
    if dtype is DType.BOOL:
        return f.and_(*x)
    divisor, zero = _safe_divisor(f, dtype, x)
    quotient = f.div(x[0], divisor) if dtype.is_signed else f.udiv(x[0], divisor)
    return f.select(zero, 0, quotient)


def _modulo(f: FunctionBuilder, dtype: DType, x: Sequence[Value]) -> Value:
    if dtype.is_float:
        return call_math(f, "mod", *x)
    if dtype is DType.BOOL:
        return _constant_test(f, x[0], 0)
    divisor, zero = _safe_divisor(f, dtype, x)
    if dtype.is_unsigned:
        return f.select(zero, 0, f.urem(x[0], divisor))
    remainder = f.rem(x[0], divisor)
    crosses = f.cmp("ne", remainder, 0) & f.cmp("lt", remainder ^ divisor, 0)
    return f.select(zero, 0, f.select(crosses, remainder + divisor, remainder))


def _power(f: FunctionBuilder, dtype: DType, x: Sequence[Value]) -> Value:
    """Integers are computed in double, as in MXNet."""
    if dtype.is_float:
        return call_math(f, "pow", *x)
    wide = [emit_cast(f, a, dtype, DType.F64) for a in x]
    return emit_cast(f, call_math(f, "pow", *wide), DType.F64, dtype)


def _negate(f: FunctionBuilder, dtype: DType, x: Sequence[Value]) -> Value:
    return x[0] if dtype is DType.BOOL else f.neg(x[0])


_DIGAMMA_SHIFT = 8
_DIGAMMA_SERIES = (-1 / 12, 1 / 120, -1 / 252, 1 / 240, -1 / 132)
"""Coefficients of x^-2, x^-4, ... in digamma(x) - log(x) + 1 / (2 x): -B(2k) / (2k)."""


def _digamma(f: FunctionBuilder, dtype: DType, x: Sequence[Value]) -> Value:
    """Reflection to x >= 1/2, the recurrence upwards, then the asymptotic series; error about 1e-7 (1e-11 for
    doubles)."""
    (a,) = x
    low = f.cmp("lt", a, 0.5)
    positive = f.select(low, 1.0 - a, a)
    shifted, sums = positive, f.const(a.type, 0.0)
    for _ in range(_DIGAMMA_SHIFT):
        sums = sums + 1.0 / shifted
        shifted = shifted + 1.0
    inverse = 1.0 / shifted
    square = inverse * inverse
    series = f.const(a.type, _DIGAMMA_SERIES[-1])
    for c in _DIGAMMA_SERIES[-2::-1]:
        series = f.fma(series, square, c)
    result = call_math(f, "log", shifted) - inverse * 0.5 + series * square - sums
    # Subtracting the nearest integer keeps the tangent exact near the poles 0, -1, -2, ...
    nearest = call_math(f, "rint", a)
    reflected = result - math.pi / call_math(f, "tan", (a - nearest) * math.pi)
    pole = low & f.cmp("eq", a, nearest)
    return f.select(pole, float("inf"), f.select(low, reflected, result))


def _shift(signed: str, unsigned: str) -> Rule:
    """A shift. By the width or more, which is undefined in LLVM, it gives 0, or -1 for an arithmetic shift of a
    negative number."""

    def rule(f: FunctionBuilder, dtype: DType, x: Sequence[Value]) -> Value:
        a, count = x
        inside = f.cmp("ult", count, dtype.bits)
        arithmetic = dtype.is_signed and signed == "ashr"
        safe = f.select(inside, count, f.const(count.type, dtype.bits - 1 if arithmetic else 0))
        shifted = getattr(f, signed if dtype.is_signed else unsigned)(a, safe)
        return shifted if arithmetic else f.select(inside, shifted, 0)

    return rule


def _rectify(f: FunctionBuilder, dtype: DType, x: Sequence[Value]) -> Value:
    return f.max_or_second(x[0], f.const(x[0].type, 0.0))


def _select(f: FunctionBuilder, dtype: DType, x: Sequence[Value]) -> Value:
    return f.select(*x)


_MATH = (
    *(
        ScalarOp.EXP,
        ScalarOp.EXPM1,
        ScalarOp.LOG,
        ScalarOp.LOG1P,
        ScalarOp.LOG2,
        ScalarOp.LOG10,
        ScalarOp.RSQRT,
        ScalarOp.CBRT,
    ),
    *(
        ScalarOp.SIN,
        ScalarOp.COS,
        ScalarOp.TAN,
        ScalarOp.ASIN,
        ScalarOp.ACOS,
        ScalarOp.ATAN,
        ScalarOp.SINH,
        ScalarOp.COSH,
    ),
    *(ScalarOp.TANH, ScalarOp.ASINH, ScalarOp.ACOSH, ScalarOp.ATANH, ScalarOp.SIGMOID, ScalarOp.ERF, ScalarOp.ERFINV),
    *(ScalarOp.GAMMA, ScalarOp.LGAMMA, ScalarOp.ATAN2, ScalarOp.HYPOT),
)

RULES: dict[ScalarOp, Rule] = {
    **{op: _math(op.value) for op in _MATH},
    **{
        op: _rounding(op.value) for op in (ScalarOp.FLOOR, ScalarOp.CEIL, ScalarOp.ROUND, ScalarOp.RINT, ScalarOp.TRUNC)
    },
    **{op: _compare(op.value) for op in (ScalarOp.EQ, ScalarOp.NE, ScalarOp.LT, ScalarOp.LE, ScalarOp.GT, ScalarOp.GE)},
    ScalarOp.DIGAMMA: _digamma,
    ScalarOp.RECTIFY: _rectify,
    ScalarOp.SQRT: _by_name("sqrt"),
    ScalarOp.NEG: _negate,
    ScalarOp.ABS: _abs,
    ScalarOp.SIGN: _sign,
    ScalarOp.IS_NAN: _is_nan,
    ScalarOp.IS_INF: _is_inf,
    ScalarOp.IS_FINITE: _is_finite,
    ScalarOp.ADD: _add,
    ScalarOp.SUB: _by_name("sub"),
    ScalarOp.MUL: _multiply,
    ScalarOp.DIV: _divide,
    ScalarOp.MOD: _modulo,
    ScalarOp.POW: _power,
    ScalarOp.MAX: _extreme("max", "umax"),
    ScalarOp.MIN: _extreme("min", "umin"),
    ScalarOp.NOT: _by_name("not_"),
    ScalarOp.AND: _by_name("and_"),
    ScalarOp.OR: _by_name("or_"),
    ScalarOp.XOR: _by_name("xor"),
    ScalarOp.SHIFT_LEFT: _shift("shl", "shl"),
    ScalarOp.SHIFT_RIGHT: _shift("ashr", "lshr"),
    ScalarOp.SELECT: _select,
}
"""The rule that emits each scalar operation; total over the enum."""
