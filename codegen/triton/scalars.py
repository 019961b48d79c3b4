"""The table from scalar operations to Triton expressions; `ir/scalar.py` defines their semantics.

Operands that are 16-bit floats have been converted to float32. `{0}`, `{1}`, `{2}` are the operands, `{t}` the type of
the result, `{bits}` its width, `{wide}` the width of `convert_to_integer`.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.lazy_dataclass import dataclass
from ...ir.scalar import ScalarOp
from ...ir.types import DType
from .types import NAMES, register


@dataclass(frozen=True, slots=True)
class Template:
    """The expression for each class of operands; "" if the operation is not defined on it, except that an empty
    `unsigned` means the same as `signed`, and an empty `double` the same as `floating`."""

    floating: str
    signed: str = ""
    unsigned: str = ""
    boolean: str = ""
    double: str = ""

    def text(self, dtype: DType) -> str:
        if dtype.is_float:
            return (dtype is DType.F64 and self.double) or self.floating
        if dtype is DType.BOOL:
            return self.boolean
        return (self.unsigned or self.signed) if dtype.is_unsigned else self.signed


def emit_scalar(op: ScalarOp, operands: Sequence[str], dtype: DType) -> str:
    """`op` on operands of `dtype` (for SELECT, the dtype of the two values). TypeError if `op` is not defined on it."""
    template = TEMPLATES[op].text(dtype)
    if not template:
        raise TypeError(f"{op.value} is not defined on {dtype.value}")
    return template.format(*operands, t=NAMES[register(dtype)], bits=dtype.bits, wide=_converted_bits(dtype))


def convert_to_integer(value: str, dtype: DType) -> str:
    """A float converted to an integer as by `numerics.to_integers`."""
    return f"_to_int{_converted_bits(dtype)}({value}).to({NAMES[dtype]})"


def _converted_bits(dtype: DType) -> int:
    """The bits of the integer to which floats are converted first; `dtype` takes its low bits."""
    return 32 if dtype is DType.I32 or dtype.bits < 32 else 64


def takes_literals(op: ScalarOp) -> bool:
    """True if one of two operands can be a Python number, which Triton converts to the other's type."""
    return op in _INFIX


def _tl(name: str) -> Template:
    return Template(f"tl.{name}({{0}})")


def _libdevice(name: str, count: int = 1) -> Template:
    return Template(f"libdevice.{name}({', '.join(f'{{{i}}}' for i in range(count))})")


def _rounding(text: str) -> Template:
    return Template(text, "{0}", "{0}", "{0}")


def _infix(symbol: str, boolean: str = "") -> Template:
    text = f"({{0}} {symbol} {{1}})"
    return Template(text, text, text, boolean or text)


def _bits(text: str) -> Template:
    return Template("", text, text, text)


_COMPARE = {
    op: _infix(symbol)
    for op, symbol in zip(
        (ScalarOp.EQ, ScalarOp.NE, ScalarOp.LT, ScalarOp.LE, ScalarOp.GT, ScalarOp.GE),
        ("==", "!=", "<", "<=", ">", ">="),
        strict=True,
    )
}
_INFIX = frozenset((*_COMPARE, ScalarOp.ADD, ScalarOp.SUB, ScalarOp.MUL))
_SELECT = "tl.where({0}, {1}, {2})"

# Division and roots are rounded as in IEEE 754; Triton's `/` and `sqrt` are approximate for float32, not for float64.
TEMPLATES: dict[ScalarOp, Template] = {
    **{op: _tl(op.value) for op in (ScalarOp.EXP, ScalarOp.LOG, ScalarOp.LOG2, ScalarOp.RSQRT)},
    ScalarOp.SQRT: Template("tl.sqrt_rn({0})", double="tl.sqrt({0})"),
    **{op: _tl(op.value) for op in (ScalarOp.SIN, ScalarOp.COS, ScalarOp.ERF, ScalarOp.SIGMOID)},
    **{
        op: _libdevice(op.value) for op in (ScalarOp.EXPM1, ScalarOp.LOG1P, ScalarOp.LOG10, ScalarOp.CBRT, ScalarOp.TAN)
    },
    **{op: _libdevice(op.value) for op in (ScalarOp.ASIN, ScalarOp.ACOS, ScalarOp.ATAN, ScalarOp.SINH, ScalarOp.COSH)},
    **{
        op: _libdevice(op.value)
        for op in (ScalarOp.TANH, ScalarOp.ASINH, ScalarOp.ACOSH, ScalarOp.ATANH, ScalarOp.ERFINV)
    },
    **{op: _libdevice(op.value, 2) for op in (ScalarOp.ATAN2, ScalarOp.HYPOT)},
    ScalarOp.GAMMA: _libdevice("tgamma"),
    ScalarOp.LGAMMA: _libdevice("lgamma"),
    ScalarOp.DIGAMMA: Template("_digamma({0})"),
    ScalarOp.RECTIFY: Template("tl.where({0} > 0, {0}, 0.0)"),
    ScalarOp.NEG: Template("(-{0})", "(-{0})", "(-{0})", "{0}"),
    ScalarOp.ABS: Template("tl.abs({0})", "tl.abs({0})", "{0}", "{0}"),
    ScalarOp.SIGN: Template("_sign({0})", "_sign({0}).to({t})", "({0} != 0).to({t})", "{0}"),
    ScalarOp.FLOOR: _rounding("tl.floor({0})"),
    ScalarOp.CEIL: _rounding("tl.ceil({0})"),
    ScalarOp.ROUND: _rounding("libdevice.round({0})"),
    ScalarOp.RINT: _rounding("libdevice.rint({0})"),
    ScalarOp.TRUNC: _rounding("libdevice.trunc({0})"),
    ScalarOp.IS_NAN: Template("_differs({0})", "_differs({0})", "", "_differs({0})"),
    ScalarOp.IS_INF: Template("(tl.abs({0}) == float('inf'))", "_differs({0})", "", "_differs({0})"),
    ScalarOp.IS_FINITE: Template("(tl.abs({0}) < float('inf'))", "_same({0})", "", "_same({0})"),
    ScalarOp.ADD: _infix("+", "({0} | {1})"),
    ScalarOp.SUB: _infix("-", "({0} ^ {1})"),
    ScalarOp.MUL: _infix("*", "({0} & {1})"),
    ScalarOp.DIV: Template(
        "tl.div_rn({0}, {1})",
        "_int_div({0}, {1}).to({t})",
        "_uint_div({0}, {1}).to({t})",
        "({0} & {1})",
        double="({0} / {1})",
    ),
    ScalarOp.MOD: Template(
        "_float_mod({0}, {1})", "_int_mod({0}, {1}).to({t})", "_uint_mod({0}, {1}).to({t})", "({0} & ~{0})"
    ),
    ScalarOp.POW: Template(
        "libdevice.pow({0}, {1})", "_to_int{wide}(_int_pow({0}, {1})).to({t})", boolean="({0} | ~{1})"
    ),
    ScalarOp.MAX: Template("_max({0}, {1})", "tl.maximum({0}, {1})", "", "({0} | {1})"),
    ScalarOp.MIN: Template("_min({0}, {1})", "tl.minimum({0}, {1})", "", "({0} & {1})"),
    ScalarOp.NOT: _bits("(~{0})"),
    ScalarOp.AND: _bits("({0} & {1})"),
    ScalarOp.OR: _bits("({0} | {1})"),
    ScalarOp.XOR: _bits("({0} ^ {1})"),
    ScalarOp.SHIFT_LEFT: Template("", "_shift_left({0}, {1}, {bits}).to({t})", "_shift_left({0}, {1}, {bits}).to({t})"),
    ScalarOp.SHIFT_RIGHT: Template(
        "", "_shift_right({0}, {1}, {bits}).to({t})", "_uint_shift_right({0}, {1}, {bits}).to({t})"
    ),
    **_COMPARE,
    ScalarOp.SELECT: Template(_SELECT, _SELECT, _SELECT, _SELECT),
}
"""The Triton expression of each scalar operation; total over the enum."""
