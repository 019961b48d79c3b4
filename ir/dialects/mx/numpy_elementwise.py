"""Elementwise operators of `mx.np`: functions of one array, of two arrays that broadcast, and of an array and a number.

Most functions of one array are those of `mx.nd`. Functions of two arrays promote dtypes (`ir/promotion.py`);
comparisons and tests give booleans.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import TYPE_CHECKING, Any

from ...graph import Value
from ...promotion import KEEP_BOOLEANS, divided, promoted
from ...types import DType
from .arithmetic import BINARY, UNARY, Binary, Unary, truth
from .numpy_arithmetic import extreme_of_numbers, floor_divide, log_of_sum, truncated_remainder
from .operator import Elementwise, Operator, declare, operator
from .parameters import Bool, Float, Int, OptionalFloat
from .shapes import PartialShape, broadcast_partial, unify_at

if TYPE_CHECKING:
    from .builder import MxBuilder

# --- functions of one array ------------------------------------------------------------------------------------------

# name, function of `mx.nd`, description, aliases
_SHARED: tuple[tuple[str, str, str, tuple[str, ...]], ...] = (
    ("absolute", "abs", "The absolute value", ("_npi_abs",)),
    ("arccos", "acos", "The inverse cosine", ()),
    ("arccosh", "acosh", "The inverse hyperbolic cosine", ()),
    ("arcsin", "asin", "The inverse sine", ()),
    ("arcsinh", "asinh", "The inverse hyperbolic sine", ()),
    ("arctan", "atan", "The inverse tangent", ()),
    ("arctanh", "atanh", "The inverse hyperbolic tangent", ()),
    ("cbrt", "cbrt", "The cube root", ()),
    ("ceil", "ceil", "The smallest integer that is not less", ()),
    ("cos", "cos", "The cosine", ()),
    ("cosh", "cosh", "The hyperbolic cosine", ()),
    ("degrees", "degrees", "Radians as degrees", ()),
    ("exp", "exp", "The exponential function", ()),
    ("expm1", "expm1", "The exponential function minus 1", ()),
    ("fix", "trunc", "The nearest integer towards zero", ()),
    ("floor", "floor", "The largest integer that is not greater", ()),
    ("log", "log", "The natural logarithm", ()),
    ("log10", "log10", "The logarithm to base 10", ()),
    ("log1p", "log1p", "The logarithm of 1 + x", ()),
    ("log2", "log2", "The logarithm to base 2", ()),
    ("negative", "neg", "The negative", ()),
    ("radians", "radians", "Degrees as radians", ()),
    ("reciprocal", "reciprocal", "The reciprocal", ()),
    ("rint", "rint", "The nearest integer", ()),
    ("sign", "sign", "The sign: -1, 0 or 1", ()),
    ("sin", "sin", "The sine", ()),
    ("sinh", "sinh", "The hyperbolic sine", ()),
    ("sqrt", "sqrt", "The square root", ()),
    ("square", "square", "The square", ()),
    ("tan", "tan", "The tangent", ()),
    ("tanh", "tanh", "The hyperbolic tangent", ()),
    ("trunc", "trunc", "The nearest integer towards zero", ()),
)


def _bitwise_not(b: MxBuilder, x: Value) -> Value:
    if x.type.dtype.is_float:
        raise TypeError(f"is defined on integers and booleans, not on {x.type.dtype.full_name}")
    return b.not_(x)


def _float_test(name: str, otherwise: bool = False) -> Unary:
    """A test of floats, whose answer for integers is `otherwise`."""
    return lambda b, x: getattr(b, name)(x) if x.type.dtype.is_float else b.full(x.type.shape, otherwise, DType.BOOL)


def _is_infinite(sign: float) -> Unary:
    return lambda b, x: b.eq(x, sign) if x.type.dtype.is_float else b.full(x.type.shape, False, DType.BOOL)


_TESTS: tuple[tuple[str, Unary, str], ...] = (
    ("logical_not", lambda b, x: b.not_(truth(b, x)), "True where x is zero"),
    ("isnan", _float_test("is_nan"), "True where x is NaN"),
    ("isinf", _float_test("is_inf"), "True where x is infinite"),
    ("isfinite", _float_test("is_finite", True), "True where x is neither infinite nor NaN"),
    ("isposinf", _is_infinite(inf), "True where x is plus infinity"),
    ("isneginf", _is_infinite(-inf), "True where x is minus infinity"),
)


class UnaryFunction(Elementwise):
    """A function of each element.

    Args:
        x: The array.
    Returns:
        An array of x's shape and dtype.
    """

    inputs = ("x",)


class Test(UnaryFunction):
    """A test of each element.

    Returns:
        A boolean array of x's shape.
    """

    output_dtype = DType.BOOL

    def complete_dtypes(self, inputs: list[DType | None], outputs: list[DType | None]) -> None:
        outputs[:] = [DType.BOOL]


def _declare_unary(base: type[Operator], name: str, apply: Unary, doc: str, aliases: tuple[str, ...] = ()) -> None:
    def decompose(self: Operator, b: MxBuilder, *inputs: Value) -> Value:
        return apply(b, inputs[0])

    declare(f"_npi_{name}", base, {"__doc__": f"{doc}, element by element.", "decompose": decompose}, aliases)


for _name, _function, _doc, _aliases in _SHARED:
    _declare_unary(UnaryFunction, _name, UNARY[_function], _doc, _aliases)
_declare_unary(UnaryFunction, "bitwise_not", _bitwise_not, "The complement of integers; the negation of booleans")
for _name, _apply, _doc in _TESTS:
    _declare_unary(Test, _name, _apply, _doc)


@operator("_npx_relu")
class Relu(Elementwise):
    """The rectifier, element by element: max(data, 0)."""

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        return UNARY["relu"](b, inputs[0])


@operator("_npx_sigmoid")
class Sigmoid(Elementwise):
    """The logistic function, element by element: 1 / (1 + exp(-data))."""

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        return UNARY["sigmoid"](b, inputs[0])


@operator("_npx_digamma")
class Digamma(Elementwise):
    """The derivative of the logarithm of the gamma function, element by element."""

    floats = True

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        return b.digamma(inputs[0])


def _to_tens(b: MxBuilder, x: Value, step: int) -> Value:
    """Integers rounded to multiples of `step`, as in NumPy through float64."""
    return b.cast(b.mul(b.rint(b.div(b.cast(x, DType.F64), float(step))), float(step)), x.type.dtype)


@operator("_npi_around")
class Around(UnaryFunction):
    """Rounds to a number of decimals, halves to even.

    Args:
        decimals: The number of decimals; a negative one rounds digits before the point.
    """

    decimals: Int = 0

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        (x,) = inputs
        if x.type.dtype is DType.F16:
            raise TypeError("is not defined on float16")
        if not x.type.dtype.is_float:
            return b.stop_gradient(x if self.decimals >= 0 else _to_tens(b, x, 10**-self.decimals))
        scale = 10.0 ** abs(self.decimals)
        if self.decimals < 0:
            return b.mul(b.rint(b.div(x, scale)), scale)
        return b.div(b.rint(b.mul(x, scale)), scale) if self.decimals else b.rint(x)


@operator("_npi_nan_to_num")
class NanToNum(Elementwise):
    """Replaces NaN and infinities by numbers.

    Args:
        copy: False to overwrite data.
        nan: The number for NaN.
        posinf: The number for plus infinity; the largest one of the dtype by default.
        neginf: The number for minus infinity; the smallest one of the dtype by default.
    """

    copy: Bool = True
    nan: Float = 0.0
    posinf: OptionalFloat = None
    neginf: OptionalFloat = None

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        import numpy as np

        (x,) = inputs
        if not x.type.dtype.is_float:
            return x
        largest = float(np.finfo(x.type.dtype.numpy).max)
        y = b.select(b.is_nan(x), b.full_like(x, self.nan), x)
        for bound, number in ((inf, self.posinf), (-inf, self.neginf)):
            default = largest if bound > 0 else -largest
            y = b.select(b.eq(x, bound), b.full_like(x, default if number is None else number), y)
        return y


@operator("_np_copy")
class Copy(UnaryFunction):
    """A copy of an array.

    Args:
        a: The array.
    Returns:
        An array of the same elements.
    """

    inputs = ("a",)

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        return inputs[0]


# --- functions of two arrays, and of an array and a number -----------------------------------------------------------

Rule = Callable[[Sequence[DType]], DType]


def _integers_only(function: Binary) -> Binary:
    def apply(b: MxBuilder, x: Value, y: Value) -> Value:
        if x.type.dtype.is_float:
            raise TypeError(f"is defined on integers and booleans, not on {x.type.dtype.full_name}")
        return function(b, x, y)

    return apply


def _copysign(b: MxBuilder, x: Value, y: Value) -> Value:
    """|x| with the sign of y; the sign of -0.0 counts."""
    negative = b.or_(b.lt(y, 0), b.lt(b.div(b.full_like(y, 1), y), 0)) if y.type.dtype.is_float else b.lt(y, 0)
    size = UNARY["abs"](b, x)
    return b.select(negative, b.neg(size), size)


def _gcd(b: MxBuilder, x: Value, y: Value) -> Value:
    from .numpy_integers import greatest_common_divisor

    return greatest_common_divisor(b, x, y)


def _lcm(b: MxBuilder, x: Value, y: Value) -> Value:
    """The least common multiple, by Euclid's algorithm with as many steps as the dtype may need."""
    from .numpy_integers import greatest_common_divisor

    divisor = greatest_common_divisor(b, x, y)
    safe = b.select(b.eq(divisor, 0), b.full_like(divisor, 1), divisor)
    return UNARY["abs"](b, b.mul(x, b.div(y, safe)))


def _floats(function: Binary, refused: bool = False) -> Binary:
    """A function of floats. Of integers it is computed in float64 and truncated."""

    def apply(b: MxBuilder, x: Value, y: Value) -> Value:
        dtype = x.type.dtype
        if dtype.is_float:
            return function(b, x, y)
        return b.cast(function(b, b.cast(x, DType.F64), b.cast(y, DType.F64)), dtype)

    return apply


def _ldexp(b: MxBuilder, x: Value, y: Value) -> Value:
    return b.mul(x, b.pow(b.full_like(y, 2), y))


def _logical(name: str) -> Binary:
    return lambda b, x, y: getattr(b, name)(truth(b, x), truth(b, y))


def _compared(name: str) -> Binary:
    return lambda b, x, y: getattr(b, name)(x, y)


# name, function, description, rule of the result's dtype, the function of the scalar operator if not NAME_scalar exists
_BINARY: tuple[tuple[str, Binary, str, Rule | DType], ...] = (
    ("add", BINARY["add"], "The sum x1 + x2", promoted),
    ("subtract", BINARY["sub"], "The difference x1 - x2", promoted),
    ("multiply", BINARY["mul"], "The product x1 * x2", promoted),
    ("true_divide", BINARY["div"], "The quotient x1 / x2; a float", divided),
    ("mod", BINARY["mod"], "The remainder of x1 / x2, with the sign of x2", promoted),
    ("power", BINARY["power"], "x1 to the power of x2", promoted),
    ("hypot", _floats(lambda b, x, y: b.hypot(x, y)), "The hypotenuse sqrt(x1^2 + x2^2)", promoted),
    ("arctan2", _floats(lambda b, x, y: b.atan2(x, y)), "The angle of the point (x2, x1)", promoted),
    ("copysign", _copysign, "The absolute value of x1 with the sign of x2", promoted),
    ("ldexp", _floats(_ldexp), "x1 * 2^x2", promoted),
    ("lcm", _integers_only(_lcm), "The least common multiple", promoted),
    ("bitwise_and", _integers_only(lambda b, x, y: b.and_(x, y)), "The bits that both have", promoted),
    ("bitwise_or", _integers_only(lambda b, x, y: b.or_(x, y)), "The bits that at least one has", promoted),
    ("bitwise_xor", _integers_only(lambda b, x, y: b.xor(x, y)), "The bits that exactly one has", promoted),
    ("floor_divide", floor_divide, "The largest integer not greater than x1 / x2", promoted),
    ("fmod", truncated_remainder, "The remainder of x1 / x2, with the sign of x1", promoted),
    ("fmax", extreme_of_numbers("maximum"), "The larger one; a number beside NaN", promoted),
    ("fmin", extreme_of_numbers("minimum"), "The smaller one; a number beside NaN", promoted),
    ("gcd", _integers_only(_gcd), "The greatest common divisor", promoted),
    ("logaddexp", log_of_sum, "The logarithm of exp(x1) + exp(x2)", divided),
    ("bitwise_left_shift", _integers_only(lambda b, x, y: b.shift_left(x, y)), "x1 * 2^x2", promoted),
    ("bitwise_right_shift", _integers_only(lambda b, x, y: b.shift_right(x, y)), "floor(x1 / 2^x2)", promoted),
    ("logical_and", _logical("and_"), "True where both are not zero", DType.BOOL),
    ("logical_or", _logical("or_"), "True where at least one is not zero", DType.BOOL),
    ("logical_xor", _logical("xor"), "True where exactly one is not zero", DType.BOOL),
    ("equal", _compared("eq"), "True where x1 == x2", DType.BOOL),
    ("not_equal", _compared("ne"), "True where x1 != x2", DType.BOOL),
    ("greater", _compared("gt"), "True where x1 > x2", DType.BOOL),
    ("greater_equal", _compared("ge"), "True where x1 >= x2", DType.BOOL),
    ("less", _compared("lt"), "True where x1 < x2", DType.BOOL),
    ("less_equal", _compared("le"), "True where x1 <= x2", DType.BOOL),
)
_NAMED_X = frozenset(("hypot", "arctan2"))  # their inputs are x1 and x2, those of the others lhs and rhs
_REFLECTED = """
    subtract true_divide mod power arctan2 copysign ldexp floor_divide fmod bitwise_left_shift bitwise_right_shift
""".split()
"""The functions with an operator for a number as left operand, `_npi_rNAME_scalar`."""
_ALIASED = frozenset(("hypot",))  # the scalar operator is that of `mx.nd`


class BinaryFunction(Operator):
    """A function of two arrays that broadcast to one shape.

    Args:
        lhs, x1: The left array.
        rhs, x2: The right array.
    Returns:
        An array of the shape to which both broadcast.
    """

    inputs = ("lhs", "rhs")

    def complete(self, inputs: list[PartialShape], outputs: list[PartialShape]) -> None:
        left, right = inputs
        if left is not None and right is not None:
            unify_at(outputs, 0, broadcast_partial(left, right))

    def complete_dtypes(self, inputs: list[DType | None], outputs: list[DType | None]) -> None:
        """The unknown dtype of an operand is that of the other one."""
        known = next((d for d in (*inputs, None if type(self).output_dtype else outputs[0]) if d is not None), None)
        inputs[:] = [d or known for d in inputs]


class ScalarFunction(Elementwise):
    """A function of an array and a number.

    Args:
        scalar: The number. For an integer array it is truncated; a boolean array is one of int64, except
            for operators of bits.
        is_int: True if the number is an integer.
    Returns:
        An array of data's shape.
    """

    scalar: Float = 1.0
    is_int: Bool = True

    def complete_dtypes(self, inputs: list[DType | None], outputs: list[DType | None]) -> None:
        if inputs[0] is None or inputs[0].is_float:
            super().complete_dtypes(inputs, [] if type(self).output_dtype else outputs)


def _declare_binary(name: str, apply: Binary, doc: str, rule: Rule | DType) -> None:
    fixed = rule if isinstance(rule, DType) else None
    join: Rule = promoted if isinstance(rule, DType) else rule

    def decompose(self: Operator, b: MxBuilder, *inputs: Value) -> Value:
        dtype = join([x.type.dtype for x in inputs])
        x, y = b.broadcast_pair(*(b.cast(x, dtype) for x in inputs))
        return apply(b, x, y)

    def output_dtypes(self: Operator, inputs: Sequence[DType]) -> Sequence[DType | None]:
        return [fixed or join(inputs)]

    def of_number(reflected: bool) -> dict[str, Any]:
        def operand_dtype(dtype: DType) -> DType:
            is_kept = dtype is not DType.BOOL or join is divided or name in KEEP_BOOLEANS
            return join([dtype]) if is_kept else DType.I64

        def decompose(self: ScalarFunction, b: MxBuilder, *inputs: Value) -> Value:
            x = b.cast(inputs[0], operand_dtype(inputs[0].type.dtype))
            dtype = x.type.dtype
            convert = float if dtype.is_float else bool if dtype is DType.BOOL else int
            number = b.full_like(x, convert(self.scalar))
            return apply(b, number, x) if reflected else apply(b, x, number)

        def output_dtypes(self: ScalarFunction, inputs: Sequence[DType]) -> Sequence[DType | None]:
            return [fixed or operand_dtype(inputs[0])]

        text = f"{doc}, element by element, with the number `scalar` as {'x1' if reflected else 'x2'}."
        return {"__doc__": text, "decompose": decompose, "output_dtypes": output_dtypes, "output_dtype": fixed}

    members: dict[str, Any] = {"decompose": decompose, "output_dtypes": output_dtypes, "output_dtype": fixed}
    members["__doc__"] = f"{doc}, element by element."
    if name in _NAMED_X:
        members["inputs"] = ("x1", "x2")
    declare(f"_npi_{name}", BinaryFunction, members)
    if name not in _ALIASED:
        declare(f"_npi_{name}_scalar", ScalarFunction, of_number(False))
    if name in _REFLECTED:
        declare(f"_npi_r{name}_scalar", ScalarFunction, of_number(True))


for _row in _BINARY:
    _declare_binary(*_row)
