"""Vector math for kernels: `call_math(f, "exp", x)` emits a function into the module once and calls it.

A function is `define internal @vm.NAME.vW(...) alwaysinline` over W lanes (`@vm64.NAME.vW` for doubles). Float32
functions are polynomials with documented error bounds, and so are exponentials and logarithms of float64, whose other
functions call libm for each lane. Callers convert half and bfloat values to float32 (`f.convert`).
"""

from __future__ import annotations

from collections.abc import Callable

from . import vmath_elementary as elementary
from . import vmath_special as special
from . import vmath_trigonometric as trigonometric
from .arithmetic import Value
from .emitter import FunctionBuilder, ModuleBuilder
from .types import Type
from .vmath_double import DOUBLE_FUNCTIONS

MathFunction = Callable[..., Value]

ARITY: dict[str, int] = {
    **dict.fromkeys(("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sigmoid", "softplus"), 1),
    **dict.fromkeys(("sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfinv", "gamma", "lgamma"), 1),
    **dict.fromkeys(("sin", "cos", "tan", "asin", "acos", "atan", "rsqrt", "cbrt"), 1),
    **dict.fromkeys(("floor", "ceil", "trunc", "rint", "round"), 1),
    **dict.fromkeys(("pow", "atan2", "hypot", "mod"), 2),
}
"""The math functions by name, with their number of operands."""

FLOAT_FUNCTIONS: dict[str, MathFunction] = {
    "exp": elementary.exp,
    "exp2": elementary.exp2,
    "expm1": elementary.expm1,
    "log": elementary.log,
    "log2": elementary.log2,
    "log10": elementary.log10,
    "log1p": elementary.log1p,
    "sigmoid": elementary.sigmoid,
    "softplus": elementary.softplus,
    "sinh": elementary.sinh,
    "cosh": elementary.cosh,
    "tanh": elementary.tanh,
    "asinh": elementary.asinh,
    "acosh": elementary.acosh,
    "atanh": elementary.atanh,
    "erf": elementary.erf,
    "erfinv": elementary.erfinv,
    "rsqrt": elementary.rsqrt,
    "cbrt": elementary.cbrt,
    "floor": elementary.floor,
    "ceil": elementary.ceil,
    "trunc": elementary.trunc,
    "rint": elementary.rint,
    "round": elementary.round,
    "sin": trigonometric.sin,
    "cos": trigonometric.cos,
    "tan": trigonometric.tan,
    "asin": trigonometric.asin,
    "acos": trigonometric.acos,
    "atan": trigonometric.atan,
    "atan2": trigonometric.atan2,
    "gamma": special.gamma,
    "lgamma": special.lgamma,
    "pow": special.pow,
    "mod": special.mod,
    "hypot": special.hypot,
}


def call_math(f: FunctionBuilder, name: str, *values: Value) -> Value:
    """The math function `name` of float or double operands, all of one type. ValueError for an unknown function or a
    wrong number of operands, TypeError for wrong types."""
    if len(values) != ARITY.get(name, -1):
        raise ValueError(f"no math function {name!r} of {len(values)} operands")
    type = values[0].type
    if any(v.type is not type for v in values):
        raise TypeError(f"operands of {name} differ in type: {values}")
    return f.call(math_symbol(f.module, name, type), type, *values)


def math_symbol(module: ModuleBuilder, name: str, type: Type) -> str:
    """The symbol of math function `name` over `type`. It is emitted if the module does not have it."""
    if type.element not in ("float", "double"):
        raise TypeError(f"{name} of {type.text}: convert to float first")
    single = type.element == "float"
    full_name = f"{'vm' if single else 'vm64'}.{name}.v{type.lanes}"
    if not module.has_function(full_name):
        parameters = [(f"x{k}", type, "") for k in range(ARITY[name])]
        f = module.function(full_name, type, parameters, linkage="internal", attributes="nounwind alwaysinline")
        f.ret((FLOAT_FUNCTIONS if single else DOUBLE_FUNCTIONS)[name](f, *f.args))
    return "@" + full_name
