"""The elementwise families as tables: functions of one array, of two arrays of one shape, of an array and a number."""

from __future__ import annotations

from collections.abc import Sequence

from ...graph import Value
from ...types import DType
from .arithmetic import BINARY, UNARY, Binary, Unary
from .builder import MxBuilder
from .operator import Elementwise, Operator, declare, operator
from .parameters import Bool, Float, OptionalInt
from .shapes import PartialShape, unify_at, unify_some

# name, function, description, further aliases; those whose function is sparse in MXNet are also known as _sparse_NAME
_UNARY_TABLE: tuple[tuple[str, str, str, tuple[str, ...]], ...] = (
    ("abs", "abs", "The absolute value.", ("_sparse_abs",)),
    ("arccos", "acos", "The inverse cosine.", ("_sparse_arccos",)),
    ("arccosh", "acosh", "The inverse hyperbolic cosine.", ("_sparse_arccosh",)),
    ("arcsin", "asin", "The inverse sine.", ("_sparse_arcsin",)),
    ("arcsinh", "asinh", "The inverse hyperbolic sine.", ("_sparse_arcsinh",)),
    ("arctan", "atan", "The inverse tangent.", ("_sparse_arctan",)),
    ("arctanh", "atanh", "The inverse hyperbolic tangent.", ("_sparse_arctanh",)),
    ("cbrt", "cbrt", "The cube root.", ("_sparse_cbrt",)),
    ("ceil", "ceil", "Rounds up.", ("_sparse_ceil",)),
    ("cos", "cos", "The cosine of radians.", ("_sparse_cos",)),
    ("cosh", "cosh", "The hyperbolic cosine.", ("_sparse_cosh",)),
    ("degrees", "degrees", "Radians to degrees.", ("_sparse_degrees",)),
    ("erf", "erf", "The Gauss error function.", ("_npx_erf",)),
    ("erfinv", "erfinv", "The inverse of the Gauss error function.", ("_npx_erfinv",)),
    ("exp", "exp", "e to the power of x.", ("_sparse_exp",)),
    ("expm1", "expm1", "exp(x) - 1, exact for small x.", ("_sparse_expm1",)),
    ("fix", "trunc", "Rounds towards zero.", ("_sparse_fix",)),
    ("floor", "floor", "Rounds down.", ("_sparse_floor",)),
    ("gamma", "gamma", "The gamma function.", ("_npx_gamma", "_sparse_gamma")),
    ("gammaln", "lgamma", "The logarithm of the gamma function's absolute value.", ("_npx_gammaln", "_sparse_gammaln")),
    ("log", "log", "The natural logarithm.", ("_sparse_log",)),
    ("log10", "log10", "The logarithm to base 10.", ("_sparse_log10",)),
    ("log1p", "log1p", "log(1 + x), exact for small x.", ("_sparse_log1p",)),
    ("log2", "log2", "The logarithm to base 2.", ("_sparse_log2",)),
    ("logical_not", "logical_not", "1 where x is 0, elsewhere 0.", ()),
    ("negative", "neg", "-x.", ("_sparse_negative",)),
    ("radians", "radians", "Degrees to radians.", ("_sparse_radians",)),
    ("rcbrt", "rcbrt", "1 / cbrt(x).", ()),
    ("reciprocal", "reciprocal", "1 / x.", ()),
    ("relu", "relu", "max(x, 0).", ("_sparse_relu",)),
    ("rint", "rint", "Rounds to the nearest whole number, halves down.", ("_sparse_rint",)),
    ("round", "round", "Rounds to the nearest whole number, halves away from zero.", ("_sparse_round",)),
    ("rsqrt", "rsqrt", "1 / sqrt(x).", ("_sparse_rsqrt",)),
    ("sigmoid", "sigmoid", "1 / (1 + exp(-x)).", ("_sparse_sigmoid",)),
    ("sign", "sign", "-1, 0 or 1 by the sign of x.", ("_sparse_sign",)),
    ("sin", "sin", "The sine of radians.", ("_sparse_sin",)),
    ("sinh", "sinh", "The hyperbolic sine.", ("_sparse_sinh",)),
    ("softsign", "softsign", "x / (1 + |x|).", ()),
    ("sqrt", "sqrt", "The square root.", ("_sparse_sqrt",)),
    ("square", "square", "x times x.", ("_sparse_square",)),
    ("tan", "tan", "The tangent of radians.", ("_sparse_tan",)),
    ("tanh", "tanh", "The hyperbolic tangent.", ("_sparse_tanh",)),
    ("trunc", "trunc", "Rounds towards zero.", ("_sparse_trunc",)),
    ("_copy", "identity", "The same elements.", ("identity",)),
    ("_copyto", "identity", "The same elements.", ("_npi_copyto",)),
    ("ones_like", "ones", "Ones of the shape and dtype of data.", ()),
    ("zeros_like", "zeros", "Zeros of the shape and dtype of data.", ("_sparse_zeros_like",)),
)

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

# name, function, whether the scalar stands on the left, aliases
_SCALAR_TABLE: tuple[tuple[str, str, bool, tuple[str, ...]], ...] = (
    ("_plus_scalar", "add", False, ("_PlusScalar",)),
    ("_minus_scalar", "sub", False, ("_MinusScalar",)),
    ("_rminus_scalar", "sub", True, ("_RMinusScalar",)),
    ("_mul_scalar", "mul", False, ("_MulScalar",)),
    ("_div_scalar", "div", False, ("_DivScalar",)),
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


class BinaryElementwise(Elementwise):
    """A function of two arrays of one shape."""

    inputs = ("lhs", "rhs")


class ScalarOperator(Elementwise):
    """A function of an array and a number."""

    scalar: Float = 1.0
    is_int: Bool = True

    def complete_dtypes(self, inputs: list[DType | None], outputs: list[DType | None]) -> None:
        if inputs[0] is None or inputs[0].is_float:
            super().complete_dtypes(inputs, outputs)

    def output_dtypes(self, inputs: Sequence[DType]) -> Sequence[DType | None]:
        return [self._dtype(inputs[0])]

    def _dtype(self, given: DType) -> DType:
        """The array's, but float64 where whole numbers meet a scalar that is declared not to be one, and int64 for
        booleans."""
        if given.is_float:
            return given
        return DType.F64 if not self.is_int else DType.I64 if given is DType.BOOL else given

    def operand(self, b: MxBuilder, x: Value) -> Value:
        """The array in the dtype of the result."""
        return b.cast(x, self._dtype(x.type.dtype))

    def number(self, b: MxBuilder, x: Value) -> Value:
        """The scalar in the array's dtype, of the array's shape; integers cut its fraction off."""
        return b.full_like(x, self.scalar if x.type.dtype.is_float else int(self.scalar))


def _declare_unary(name: str, function: Unary, doc: str, aliases: tuple[str, ...]) -> None:
    def decompose(self: Operator, b: MxBuilder, *inputs: Value) -> Value:
        return function(b, inputs[0])

    declare(name, Elementwise, {"__doc__": doc, "decompose": decompose}, aliases)


def _declare_binary(name: str, function: Binary, aliases: tuple[str, ...]) -> None:
    def decompose(self: Operator, b: MxBuilder, *inputs: Value) -> Value:
        return function(b, *inputs)

    doc = f"{name.removeprefix('elemwise_').strip('_')} of two arrays of one shape, element by element."
    declare(name, BinaryElementwise, {"__doc__": doc, "decompose": decompose}, aliases)


def _declare_scalar(name: str, function: Binary, reverse: bool, aliases: tuple[str, ...]) -> None:
    def decompose(self: ScalarOperator, b: MxBuilder, *inputs: Value) -> Value:
        x = self.operand(b, inputs[0])
        scalar = self.number(b, x)
        return function(b, scalar, x) if reverse else function(b, x, scalar)

    doc = f"{name.removesuffix('_scalar').strip('_')} of each element and a number."
    declare(name, ScalarOperator, {"__doc__": doc, "decompose": decompose}, aliases)


for _name, _function, _doc, _aliases in _UNARY_TABLE:
    _declare_unary(_name, UNARY[_function], _doc, _aliases)
for _name, _function, _aliases in _BINARY_TABLE:
    _declare_binary(_name, BINARY[_function], _aliases)
for _name, _function, _reverse, _aliases in _SCALAR_TABLE:
    _declare_scalar(_name, BINARY[_function], _reverse, _aliases)


@operator("add_n", aliases=("ElementWiseSum", "_sparse_ElementWiseSum", "_sparse_add_n"))
class AddN(Elementwise):
    """The sum of any number of arrays of one shape."""

    inputs = ("args*",)
    num_args: OptionalInt = None

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        total = inputs[0]
        for other in inputs[1:]:
            total = b.add(total, other)
        return total


@operator("where", aliases=("_sparse_where",))
class Where(Operator):
    """x where condition is not zero, elsewhere y; a condition of one axis chooses whole rows."""

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
            raise ValueError(f"condition should be {shape} or {shape[:1]}, it is {condition}")

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        condition, x, y = inputs
        chosen = b.ne(condition, 0)
        if condition.type.shape != x.type.shape:
            chosen = b.broadcast_along(chosen, x.type.shape, 0)
        return b.select(chosen, x, y)


@operator("_identity_with_attr_like_rhs")
class IdentityWithAttrLikeRhs(BinaryElementwise):
    """The left array, of the same shape as the right."""

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        return inputs[0]
