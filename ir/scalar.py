"""The closed sets of scalar operations and of reductions that graphs and kernels share.

`dialects/core/scalar_rules.py` defines the meaning and the gradient of each operation, and each target has a table of
rules. A test proves every table total.
"""

from __future__ import annotations

from enum import Enum

from .types import DType


class ScalarOp(Enum):
    """A scalar operation; the value is its mnemonic in printed IR."""

    # unary, float
    EXP = "exp"
    EXPM1 = "expm1"
    LOG = "log"
    LOG1P = "log1p"
    LOG2 = "log2"
    LOG10 = "log10"
    SQRT = "sqrt"
    RSQRT = "rsqrt"
    CBRT = "cbrt"
    SIN = "sin"
    COS = "cos"
    TAN = "tan"
    ASIN = "asin"
    ACOS = "acos"
    ATAN = "atan"
    SINH = "sinh"
    COSH = "cosh"
    TANH = "tanh"
    ASINH = "asinh"
    ACOSH = "acosh"
    ATANH = "atanh"
    SIGMOID = "sigmoid"
    ERF = "erf"
    ERFINV = "erfinv"
    GAMMA = "gamma"
    LGAMMA = "lgamma"
    DIGAMMA = "digamma"
    RECTIFY = "rectify"  # x if x > 0, else 0; so NaN gives 0
    # unary, any number
    NEG = "neg"
    ABS = "abs"
    SIGN = "sign"
    FLOOR = "floor"
    CEIL = "ceil"
    ROUND = "round"  # half away from zero
    RINT = "rint"  # half to even
    TRUNC = "trunc"
    # tests of one number; the result is BOOL
    IS_NAN = "is_nan"
    IS_INF = "is_inf"
    IS_FINITE = "is_finite"
    # binary, any number
    ADD = "add"
    SUB = "sub"
    MUL = "mul"
    DIV = "div"  # integers: truncated towards zero, as in C
    MOD = "mod"  # sign of the divisor; a divisor of zero gives zero, as in MXNet
    POW = "pow"
    MAX = "max"  # NaN in either operand gives NaN; a zero has either sign, as of MOD
    MIN = "min"
    ATAN2 = "atan2"
    HYPOT = "hypot"
    # logic and bits: BOOL and integers
    NOT = "not"
    AND = "and"
    OR = "or"
    XOR = "xor"
    SHIFT_LEFT = "shift_left"
    SHIFT_RIGHT = "shift_right"
    # comparisons; the result is BOOL
    EQ = "eq"
    NE = "ne"
    LT = "lt"
    LE = "le"
    GT = "gt"
    GE = "ge"
    # select(condition: BOOL, a, b)
    SELECT = "select"

    __hash__ = object.__hash__

    @property
    def arity(self) -> int:
        return 3 if self is ScalarOp.SELECT else 2 if self in _BINARY else 1


TESTS = frozenset((ScalarOp.IS_NAN, ScalarOp.IS_INF, ScalarOp.IS_FINITE))
COMPARISONS = frozenset((ScalarOp.EQ, ScalarOp.NE, ScalarOp.LT, ScalarOp.LE, ScalarOp.GT, ScalarOp.GE))
BITWISE = frozenset((ScalarOp.NOT, ScalarOp.AND, ScalarOp.OR, ScalarOp.XOR))
SHIFTS = frozenset((ScalarOp.SHIFT_LEFT, ScalarOp.SHIFT_RIGHT))
_FIRST_BINARY = list(ScalarOp).index(ScalarOp.ADD)
_BINARY = frozenset(op for op in list(ScalarOp)[_FIRST_BINARY:] if op not in (ScalarOp.NOT, ScalarOp.SELECT))
FLOAT_ONLY = frozenset(list(ScalarOp)[: list(ScalarOp).index(ScalarOp.NEG)]) | {ScalarOp.ATAN2, ScalarOp.HYPOT}


def result_dtype(op: ScalarOp, *operands: DType) -> DType:
    """The dtype of `op` on operands of these dtypes; TypeError if the operation is not defined on them."""
    if len(operands) != op.arity:
        raise TypeError(f"{op.value} takes {op.arity} operands, got {len(operands)}")
    values = operands[1:] if op is ScalarOp.SELECT else operands
    if op is ScalarOp.SELECT and operands[0] is not DType.BOOL:
        raise TypeError(f"select needs a condition of type bool, got {operands[0].full_name}")
    if len(set(values)) != 1:
        raise TypeError(f"{op.value} needs operands of one dtype, got {', '.join(d.full_name for d in operands)}")
    dtype = values[0]
    if op in FLOAT_ONLY and not dtype.is_float:
        raise TypeError(f"{op.value} is defined on floats, got {dtype.full_name}")
    if (op in BITWISE and dtype.is_float) or (op in SHIFTS and not dtype.is_integer):
        raise TypeError(f"{op.value} is not defined on {dtype.full_name}")
    return DType.BOOL if op in COMPARISONS or op in TESTS else dtype


class ReduceOp(Enum):
    """An associative operation with its neutral element."""

    ADD = "add"
    MUL = "mul"
    MAX = "max"
    MIN = "min"
    AND = "and"
    OR = "or"

    __hash__ = object.__hash__

    @property
    def scalar(self) -> ScalarOp:
        """The same operation on two scalars."""
        return ScalarOp[self.name]

    def neutral(self, dtype: DType) -> float | int | bool:
        """The element e with op(e, x) == x for every x of `dtype`."""
        if self in (ReduceOp.ADD, ReduceOp.OR):
            return 0
        if self in (ReduceOp.MUL, ReduceOp.AND):
            return 1 if self is ReduceOp.MUL or dtype is DType.BOOL else -1
        return _lowest(dtype) if self is ReduceOp.MAX else _highest(dtype)


def _lowest(dtype: DType) -> float | int:
    if dtype.is_float:
        return float("-inf")
    return -(1 << (dtype.bits - 1)) if dtype.is_signed else 0


def _highest(dtype: DType) -> float | int:
    if dtype.is_float:
        return float("inf")
    return (1 << (dtype.bits - 1 if dtype.is_signed else dtype.bits)) - 1
