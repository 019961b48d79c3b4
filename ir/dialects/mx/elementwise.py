"""Tables of elementwise operators: functions of one array, of two arrays of one shape, of an array and a number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...graph import Value
from ...types import DType
from .arithmetic import BINARY, FORMULAS, UNARY, Binary, Unary
from .operator import Elementwise, Operator, declare, operator
from .parameters import Bool, Float, OptionalInt
from .shapes import PartialShape, unify_at, unify_some

if TYPE_CHECKING:
    from .builder import MxBuilder

# name, function, description, formula, other aliases; functions with a sparse version in MXNet are also _sparse_NAME
_UNARY_TABLE: tuple[tuple[str, str, str, str, tuple[str, ...]], ...] = (
    ("abs", "abs", "The absolute value.", "|data|", ("_sparse_abs",)),
    ("arccos", "acos", "The inverse cosine.", "acos(data), in [0, pi]", ("_sparse_arccos",)),
    ("arccosh", "acosh", "The inverse hyperbolic cosine.", "acosh(data)", ("_sparse_arccosh",)),
    ("arcsin", "asin", "The inverse sine.", "asin(data), in [-pi/2, pi/2]", ("_sparse_arcsin",)),
    ("arcsinh", "asinh", "The inverse hyperbolic sine.", "asinh(data)", ("_sparse_arcsinh",)),
    ("arctan", "atan", "The inverse tangent.", "atan(data), in (-pi/2, pi/2)", ("_sparse_arctan",)),
    ("arctanh", "atanh", "The inverse hyperbolic tangent.", "atanh(data)", ("_sparse_arctanh",)),
    ("cbrt", "cbrt", "The cube root.", "data^(1/3)", ("_sparse_cbrt",)),
    ("ceil", "ceil", "Rounds up to an integer.", "the smallest integer >= data", ("_sparse_ceil",)),
    ("cos", "cos", "The cosine of an angle in radians.", "cos(data)", ("_sparse_cos",)),
    ("cosh", "cosh", "The hyperbolic cosine.", "(exp(data) + exp(-data)) / 2", ("_sparse_cosh",)),
    ("degrees", "degrees", "Converts radians to degrees.", "data * 180 / pi", ("_sparse_degrees",)),
    ("erf", "erf", "The Gauss error function.", "2 / sqrt(pi) * integral of exp(-t^2) from 0 to data", ("_npx_erf",)),
    ("erfinv", "erfinv", "The inverse of the Gauss error function.", "x with erf(x) = data", ("_npx_erfinv",)),
    ("exp", "exp", "The exponential function.", "e^data", ("_sparse_exp",)),
    (
        "expm1",
        "expm1",
        "The exponential function minus 1, exact for small elements.",
        "exp(data) - 1",
        ("_sparse_expm1",),
    ),
    ("fix", "trunc", "Rounds towards zero.", "data without its fractional part", ("_sparse_fix",)),
    ("floor", "floor", "Rounds down to an integer.", "the largest integer <= data", ("_sparse_floor",)),
    (
        "gamma",
        "gamma",
        "The gamma function.",
        "integral of t^(data - 1) * exp(-t) from 0 to infinity",
        ("_npx_gamma", "_sparse_gamma"),
    ),
    (
        "gammaln",
        "lgamma",
        "The logarithm of the gamma function's absolute value.",
        "log(|gamma(data)|)",
        ("_npx_gammaln", "_sparse_gammaln"),
    ),
    ("log", "log", "The natural logarithm.", "log(data)", ("_sparse_log",)),
    ("log10", "log10", "The logarithm to base 10.", "log(data) / log(10)", ("_sparse_log10",)),
    ("log1p", "log1p", "The logarithm of 1 + data, exact for small elements.", "log(1 + data)", ("_sparse_log1p",)),
    ("log2", "log2", "The logarithm to base 2.", "log(data) / log(2)", ("_sparse_log2",)),
    ("logical_not", "logical_not", "The logical negation.", "1 if data == 0 else 0", ()),
    ("negative", "neg", "The negative.", "-data", ("_sparse_negative",)),
    ("radians", "radians", "Converts degrees to radians.", "data * pi / 180", ("_sparse_radians",)),
    ("rcbrt", "rcbrt", "The reciprocal of the cube root.", "1 / data^(1/3)", ()),
    ("reciprocal", "reciprocal", "The reciprocal.", "1 / data", ()),
    ("relu", "relu", "The rectifier: negative elements become 0.", "max(data, 0)", ("_sparse_relu",)),
    (
        "rint",
        "rint",
        "Rounds to the nearest integer, halves down.",
        "the nearest integer, the lower of two",
        ("_sparse_rint",),
    ),
    (
        "round",
        "round",
        "Rounds to the nearest integer, halves away from zero.",
        "the nearest integer, the one farther from 0 of two",
        ("_sparse_round",),
    ),
    ("rsqrt", "rsqrt", "The reciprocal of the square root.", "1 / sqrt(data)", ("_sparse_rsqrt",)),
    ("sigmoid", "sigmoid", "The logistic function.", "1 / (1 + exp(-data))", ("_sparse_sigmoid",)),
    ("sign", "sign", "The sign.", "-1 if data < 0, 0 if data == 0, 1 if data > 0", ("_sparse_sign",)),
    ("sin", "sin", "The sine of an angle in radians.", "sin(data)", ("_sparse_sin",)),
    ("sinh", "sinh", "The hyperbolic sine.", "(exp(data) - exp(-data)) / 2", ("_sparse_sinh",)),
    ("softsign", "softsign", "The softsign function.", "data / (1 + |data|)", ()),
    ("sqrt", "sqrt", "The square root.", "sqrt(data)", ("_sparse_sqrt",)),
    ("square", "square", "The square.", "data^2", ("_sparse_square",)),
    ("tan", "tan", "The tangent of an angle in radians.", "tan(data)", ("_sparse_tan",)),
    (
        "tanh",
        "tanh",
        "The hyperbolic tangent.",
        "(exp(data) - exp(-data)) / (exp(data) + exp(-data))",
        ("_sparse_tanh",),
    ),
    ("trunc", "trunc", "Rounds towards zero.", "data without its fractional part", ("_sparse_trunc",)),
    ("_copy", "identity", "The same elements.", "data", ("identity",)),
    ("_copyto", "identity", "The same elements.", "data", ("_npi_copyto",)),
    ("ones_like", "ones", "Ones in the shape and dtype of data.", "1", ()),
    ("zeros_like", "zeros", "Zeros in the shape and dtype of data.", "0", ("_sparse_zeros_like",)),
)
# an array, and the function's result, rounded to 3 digits
_UNARY_EXAMPLES = {
    "abs": ("[-1, 2]", "[1., 2.]"),
    "arccos": ("[0, 1]", "[1.571, 0.   ]"),
    "arccosh": ("[1, 2]", "[0.   , 1.317]"),
    "arcsin": ("[0, 1]", "[0.   , 1.571]"),
    "arcsinh": ("[0, 1]", "[0.   , 0.881]"),
    "arctan": ("[0, 1]", "[0.   , 0.785]"),
    "arctanh": ("[0, 0.5]", "[0.   , 0.549]"),
    "cbrt": ("[8, 27]", "[2., 3.]"),
    "ceil": ("[-1.5, 1.5]", "[-1.,  2.]"),
    "cos": ("[0, 1]", "[1.  , 0.54]"),
    "cosh": ("[0, 1]", "[1.   , 1.543]"),
    "degrees": ("[0, 1]", "[ 0.   , 57.296]"),
    "erf": ("[0, 1]", "[0.   , 0.843]"),
    "erfinv": ("[0, 0.5]", "[0.   , 0.477]"),
    "exp": ("[0, 1]", "[1.   , 2.718]"),
    "expm1": ("[0, 1]", "[0.   , 1.718]"),
    "fix": ("[-1.5, 1.5]", "[-1.,  1.]"),
    "floor": ("[-1.5, 1.5]", "[-2.,  1.]"),
    "gamma": ("[1, 5]", "[ 1., 24.]"),
    "gammaln": ("[1, 5]", "[0.   , 3.178]"),
    "log": ("[1, 2]", "[0.   , 0.693]"),
    "log10": ("[1, 100]", "[0., 2.]"),
    "log1p": ("[0, 1]", "[0.   , 0.693]"),
    "log2": ("[1, 8]", "[0., 3.]"),
    "logical_not": ("[0, 2]", "[1., 0.]"),
    "negative": ("[-1, 2]", "[ 1., -2.]"),
    "radians": ("[0, 180]", "[0.   , 3.142]"),
    "rcbrt": ("[8, 1]", "[0.5, 1. ]"),
    "reciprocal": ("[1, 4]", "[1.  , 0.25]"),
    "relu": ("[-1, 2]", "[0., 2.]"),
    "rint": ("[1.5, 1.6]", "[1., 2.]"),
    "round": ("[-1.5, 1.4]", "[-2.,  1.]"),
    "rsqrt": ("[1, 4]", "[1. , 0.5]"),
    "sigmoid": ("[0, 1]", "[0.5  , 0.731]"),
    "sign": ("[-3, 2]", "[-1.,  1.]"),
    "sin": ("[0, 1]", "[0.   , 0.841]"),
    "sinh": ("[0, 1]", "[0.   , 1.175]"),
    "softsign": ("[-1, 3]", "[-0.5 ,  0.75]"),
    "sqrt": ("[1, 4]", "[1., 2.]"),
    "square": ("[-2, 3]", "[4., 9.]"),
    "tan": ("[0, 1]", "[0.   , 1.557]"),
    "tanh": ("[0, 1]", "[0.   , 0.762]"),
    "trunc": ("[-1.5, 1.5]", "[-1.,  1.]"),
    "ones_like": ("[5, 6]", "[1., 1.]"),
    "zeros_like": ("[5, 6]", "[0., 0.]"),
}

# name, function, aliases
_BINARY_TABLE: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("elemwise_add", "add", ("_Plus", "_add", "_plus", "_sparse_elemwise_add")),
    ("elemwise_sub", "sub", ("_Minus", "_minus", "_sparse_elemwise_sub", "_sub")),
    ("elemwise_mul", "mul", ("_Mul", "_mul", "_sparse_elemwise_mul")),
    ("elemwise_div", "div", ("_Div", "_div", "_sparse_elemwise_div")),
    ("_grad_add", "add", ()),
    ("_scatter_elemwise_div", "div", ()),
    ("_mod", "mod", ("_Mod",)),
    ("_power", "power", ("_Power",)),
    ("_maximum", "maximum", ("_Maximum",)),
    ("_minimum", "minimum", ("_Minimum",)),
    ("_hypot", "hypot", ("_Hypot",)),
    ("_equal", "equal", ("_Equal",)),
    ("_not_equal", "not_equal", ("_Not_Equal",)),
    ("_greater", "greater", ("_Greater",)),
    ("_greater_equal", "greater_equal", ("_Greater_Equal",)),
    ("_lesser", "lesser", ("_Lesser",)),
    ("_lesser_equal", "lesser_equal", ("_Lesser_Equal",)),
    ("_logical_and", "logical_and", ("_Logical_And",)),
    ("_logical_or", "logical_or", ("_Logical_Or",)),
    ("_logical_xor", "logical_xor", ("_Logical_Xor",)),
)

# name, function, True if the scalar is the left operand, aliases
_SCALAR_TABLE: tuple[tuple[str, str, bool, tuple[str, ...]], ...] = (
    ("_plus_scalar", "add", False, ("_PlusScalar",)),
    ("_minus_scalar", "sub", False, ("_MinusScalar",)),
    ("_rminus_scalar", "sub", True, ("_RMinusScalar",)),
    ("_mul_scalar", "mul", False, ("_MulScalar",)),
    ("_div_scalar", "div_by_number", False, ("_DivScalar",)),
    ("_rdiv_scalar", "div", True, ("_RDivScalar",)),
    ("_mod_scalar", "mod", False, ("_ModScalar",)),
    ("_rmod_scalar", "mod", True, ("_RModScalar",)),
    ("_power_scalar", "power", False, ("_PowerScalar",)),
    ("_rpower_scalar", "power", True, ("_RPowerScalar",)),
    ("_maximum_scalar", "maximum", False, ("_MaximumScalar", "_npi_maximum_scalar")),
    ("_minimum_scalar", "minimum", False, ("_MinimumScalar", "_npi_minimum_scalar")),
    ("_hypot_scalar", "hypot", False, ("_HypotScalar", "_npi_hypot_scalar")),
    ("_equal_scalar", "equal", False, ("_EqualScalar",)),
    ("_not_equal_scalar", "not_equal", False, ("_NotEqualScalar",)),
    ("_greater_scalar", "greater", False, ("_GreaterScalar",)),
    ("_greater_equal_scalar", "greater_equal", False, ("_GreaterEqualScalar",)),
    ("_lesser_scalar", "lesser", False, ("_LesserScalar",)),
    ("_lesser_equal_scalar", "lesser_equal", False, ("_LesserEqualScalar",)),
    ("_logical_and_scalar", "logical_and", False, ("_LogicalAndScalar",)),
    ("_logical_or_scalar", "logical_or", False, ("_LogicalOrScalar",)),
    ("_logical_xor_scalar", "logical_xor", False, ("_LogicalXorScalar",)),
    ("_contrib_backward_gradientmultiplier", "mul", False, ()),
    ("_scatter_plus_scalar", "add", False, ()),
    ("_scatter_minus_scalar", "sub", False, ()),
)


_EXAMPLES = {
    "elemwise_add": "array([3., 6.], dtype=float32)",
    "elemwise_sub": "array([-1.,  2.], dtype=float32)",
    "elemwise_mul": "array([2., 8.], dtype=float32)",
    "elemwise_div": "array([0.5, 2. ], dtype=float32)",
}


class BinaryElementwise(Elementwise):
    """A function of two arrays of one shape.

    Args:
        lhs: The left array.
        rhs: The right array, with the shape and dtype of lhs.
    Returns:
        An array of their shape.
    """

    inputs = ("lhs", "rhs")


class ScalarOperator(Elementwise):
    """A function of an array and a number.

    Args:
        scalar: The number.
        is_int: False if the number is a float; the result for an integer array is then float64.
    Returns:
        An array of data's shape.
    """

    scalar: Float = 1.0
    is_int: Bool = True

    def complete_dtypes(self, inputs: list[DType | None], outputs: list[DType | None]) -> None:
        if inputs[0] is None or inputs[0].is_float:
            super().complete_dtypes(inputs, outputs)

    def output_dtypes(self, inputs: Sequence[DType]) -> Sequence[DType | None]:
        return [self._dtype(inputs[0])]

    def _dtype(self, dtype: DType) -> DType:
        """The array's dtype; for integer arrays float64 if `is_int` is false, and int64 for booleans."""
        if dtype.is_float:
            return dtype
        return DType.F64 if not self.is_int else DType.I64 if dtype is DType.BOOL else dtype

    def operand(self, b: MxBuilder, x: Value) -> Value:
        """The array, cast to the dtype of the result."""
        return b.cast(x, self._dtype(x.type.dtype))

    def number(self, b: MxBuilder, x: Value) -> Value:
        """The scalar with the array's dtype and shape; truncated for integers."""
        return b.full_like(x, self.scalar if x.type.dtype.is_float else int(self.scalar))


def _declare_unary(name: str, function: str, doc: str, formula: str, aliases: tuple[str, ...]) -> None:
    apply: Unary = UNARY[function]

    def decompose(self: Operator, b: MxBuilder, *inputs: Value) -> Value:
        return apply(b, inputs[0])

    text = f"{doc}\n\n    output = {formula}\n\nReturns:\n    An array of data's shape."
    if name in _UNARY_EXAMPLES:
        example, result = _UNARY_EXAMPLES[name]
        text += f"\nExample:\n    >>> nd.{name}(nd.array({example})).asnumpy().round(3)"
        text += f"\n    array({result}, dtype=float32)"
    declare(name, Elementwise, {"__doc__": text, "decompose": decompose}, aliases)


def _declare_binary(name: str, function: str, aliases: tuple[str, ...]) -> None:
    apply: Binary = BINARY[function]

    def decompose(self: Operator, b: MxBuilder, *inputs: Value) -> Value:
        return apply(b, *inputs)

    formula = FORMULAS[function].format(x="lhs", y="rhs")
    doc = f"Combines two arrays of one shape elementwise.\n\n    output = {formula}"
    if name in _EXAMPLES:
        doc += f"\n\nExample:\n    >>> nd.{name}(nd.array([1, 4]), nd.array([2, 2])).asnumpy()\n    {_EXAMPLES[name]}"
    declare(name, BinaryElementwise, {"__doc__": doc, "decompose": decompose}, aliases)


def _declare_scalar(name: str, function: str, reverse: bool, aliases: tuple[str, ...]) -> None:
    apply: Binary = BINARY[function]

    def decompose(self: ScalarOperator, b: MxBuilder, *inputs: Value) -> Value:
        x = self.operand(b, inputs[0])
        scalar = self.number(b, x)
        return apply(b, scalar, x) if reverse else apply(b, x, scalar)

    x, y = ("scalar", "data") if reverse else ("data", "scalar")
    doc = f"Combines each element with a number.\n\n    output = {FORMULAS[function].format(x=x, y=y)}"
    declare(name, ScalarOperator, {"__doc__": doc, "decompose": decompose}, aliases)


for _row in _UNARY_TABLE:
    _declare_unary(*_row)
for _name, _function, _aliases in _BINARY_TABLE:
    _declare_binary(_name, _function, _aliases)
for _name, _function, _reverse, _aliases in _SCALAR_TABLE:
    _declare_scalar(_name, _function, _reverse, _aliases)


@operator("add_n", aliases=("ElementWiseSum", "_sparse_ElementWiseSum", "_sparse_add_n"))
class AddN(Elementwise):
    """The sum of any number of arrays of one shape.

        output = args[0] + args[1] + ...

    Args:
        args: The arrays.
    Returns:
        An array of their shape.
    Example:
        >>> nd.add_n(nd.array([1, 2]), nd.array([10, 20]), nd.array([100, 200])).asnumpy()
        array([111., 222.], dtype=float32)
    """

    inputs = ("args*",)
    num_args: OptionalInt = None

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        total = inputs[0]
        for other in inputs[1:]:
            total = b.add(total, other)
        return total


@operator("where", aliases=("_sparse_where",))
class Where(Operator):
    """Selects elements from two arrays.

        output = x if condition != 0 else y

    Args:
        condition: Array of x's shape; or with one axis, to select whole slices along the first axis.
        x: Selected where condition is not 0.
        y: Selected where condition is 0.
    Returns:
        An array of x's shape.
    Example:
        >>> nd.where(nd.array([1, 0]), nd.array([1, 2]), nd.array([-1, -2])).asnumpy()
        array([ 1., -2.], dtype=float32)
    """

    inputs = ("condition", "x", "y")
    own_dtypes = frozenset(("condition",))

    def complete(self, inputs: list[PartialShape], outputs: list[PartialShape]) -> None:
        outputs[0] = shape = unify_some(inputs, (1, 2), outputs[0])
        condition = inputs[0]
        if condition is None or shape is None:
            return
        if len(condition) == len(shape):
            unify_at(inputs, 0, shape)
        elif len(condition) == 1:
            unify_at(inputs, 0, shape[:1])
        else:
            raise ValueError(f"condition should be {shape} or {shape[:1]}, got {condition}")

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        condition, x, y = inputs
        chosen = b.ne(condition, 0)
        if condition.type.shape != x.type.shape:
            chosen = b.broadcast_along(chosen, x.type.shape, 0)
        return b.select(chosen, x, y)


@operator("_identity_with_attr_like_rhs")
class IdentityWithAttrLikeRhs(BinaryElementwise):
    """The left array, which has the shape of the right one."""

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        return inputs[0]
