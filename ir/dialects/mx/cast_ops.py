"""Operators that change the element type, and operators that change only the gradient."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import TYPE_CHECKING

from ...graph import Value
from ...types import DType
from .gradients import no_gradient
from .operator import Elementwise, Operator, operator
from .parameters import Bool, DTypeName, DTypeNameOrBool, Float
from .shapes import PartialShape, unify

if TYPE_CHECKING:
    from .builder import MxBuilder

MIXED = (DType.F16, DType.BF16, DType.F32)
"""The dtypes between which automatic mixed precision converts; float64 is not converted."""


class _CastBase(Operator):
    def complete(self, inputs: list[PartialShape], outputs: list[PartialShape]) -> None:
        inputs[0] = outputs[0] = unify(inputs[0], outputs[0])


@operator("Cast", aliases=("_npi_cast", "_npx_cast", "cast"))
class Cast(_CastBase):
    """Converts the elements to another dtype. Floats are truncated to integers.

    The gradient is converted back, also through integers, which truncate it.

    Args:
        dtype: Dtype of the result.
    Returns:
        An array of data's shape.
    Example:
        >>> nd.cast(nd.array([1.9, -1.9]), dtype="int32").asnumpy()
        array([ 1, -1], dtype=int32)
    """

    dtype: DTypeNameOrBool

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        x, target = inputs[0], DType.from_numpy(self.dtype)
        if not (target.is_integer and x.type.dtype.is_float):
            return b.cast(x, target)

        def forward(b: MxBuilder, x: Value) -> Value:
            return b.cast(x, target)

        return b.custom_gradient(forward, _converted_back, x)[0]


def _converted_back(
    b: MxBuilder, operands: Sequence[Value], results: object, cotangents: Sequence[Value]
) -> list[Value]:
    return [b.cast(cotangents[0], operands[0].type.dtype)]


@operator("amp_cast")
class AmpCast(_CastBase):
    """Converts floating arrays between float32 and 16-bit dtypes, as mixed precision inserts it; others are unchanged.

    Args:
        dtype: Dtype of the result.
    Returns:
        An array of data's shape.
    """

    dtype: DTypeName

    def output_dtypes(self, inputs: Sequence[DType]) -> Sequence[DType | None]:
        return [DType.from_numpy(self.dtype) if inputs[0] in MIXED else inputs[0]]

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        (target,) = self.output_dtypes([inputs[0].type.dtype])
        assert target is not None
        return b.cast(inputs[0], target)


class _Identity(Elementwise):
    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        return inputs[0]


def gradient_of_ones(
    self: Operator, b: MxBuilder, operands: Sequence[Value], results: object, cotangents: object
) -> list[Value]:
    """The gradient of the sum of the elements."""
    return [b.full_like(operands[0], 1)]


@operator("BlockGrad", aliases=("_sparse_stop_gradient", "stop_gradient"))
class BlockGrad(_Identity):
    """Data unchanged; no gradient passes back through it.

        output = data;    gradient = 0

    Returns:
        An array of data's shape.
    Example:
        >>> nd.BlockGrad(nd.array([1, 2])).asnumpy()
        array([1., 2.], dtype=float32)
    """

    gradient = no_gradient


@operator("make_loss", aliases=("_sparse_make_loss",))
class MakeLossSimple(_Identity):
    """Data unchanged, as a loss: the gradient of each element is 1, whatever gradient comes from its users.

    Returns:
        An array of data's shape.
    Example:
        >>> nd.make_loss(nd.array([1, 2])).asnumpy()
        array([1., 2.], dtype=float32)
    """

    outputs = ("loss",)
    gradient = gradient_of_ones


def gradient_times_scalar(
    self: GradientMultiplier, b: MxBuilder, operands: object, results: object, cotangents: Sequence[Value]
) -> list[Value]:
    """The cotangent times the operator's number."""
    return [b.mul(cotangents[0], self.scalar)]


@operator("_contrib_gradientmultiplier")
class GradientMultiplier(_Identity):
    """Data unchanged; the gradient is multiplied by a number.

    Args:
        scalar: The number; a negative number reverses the gradient.
        is_int: Accepted for MXNet's programs; unused.
    Returns:
        An array of data's shape.
    """

    scalar: Float = 1.0
    is_int: Bool = True

    gradient = gradient_times_scalar


@operator("_contrib_div_sqrt_dim")
class DivSqrtDim(Elementwise):
    """Divides by the square root of the last extent, as in scaled attention.

        output = data / sqrt(data.shape[-1])

    Returns:
        An array of data's shape.
    """

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        return b.div(inputs[0], sqrt(inputs[0].type.shape[-1]))
