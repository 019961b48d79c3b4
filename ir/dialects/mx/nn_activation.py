"""Activation functions with parameters: Activation, LeakyReLU, hard_sigmoid, clip, smooth_l1, Dropout."""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from typing import Literal

from ...graph import Value
from ...types import DType
from .builder import MxBuilder
from .operator import Elementwise, Operator, Results, operator
from .parameters import Float, Ints, OptionalBool
from .random_bits import uniform
from .shapes import PartialShape, distinct_axes, unify, unify_at

SELU_ALPHA = 1.6732632423543772848170429916717
SELU_SCALE = 1.0507009873554804934193349852946


def relu(b: MxBuilder, x: Value) -> Value:
    return b.maximum(x, 0)


def softrelu(b: MxBuilder, x: Value) -> Value:
    """log(1 + e^x), without overflow for large x."""
    return b.add(b.maximum(x, 0), b.log1p(b.exp(b.neg(b.abs(x)))))


def softsign(b: MxBuilder, x: Value) -> Value:
    return b.div(x, b.add(b.abs(x), 1))


def gelu(b: MxBuilder, x: Value) -> Value:
    """x times the normal distribution function at x, through erf."""
    return b.mul(b.mul(x, 0.5), b.add(b.erf(b.mul(x, 1 / sqrt(2))), 1))


def where_positive(b: MxBuilder, x: Value, otherwise: Value) -> Value:
    """x where x > 0, elsewhere `otherwise`."""
    return b.select(b.gt(x, 0), x, otherwise)


_ACTIVATIONS: dict[str, Callable[[MxBuilder, Value], Value]] = {
    "relu": relu,
    "sigmoid": lambda b, x: b.sigmoid(x),
    "softrelu": softrelu,
    "softsign": softsign,
    "tanh": lambda b, x: b.tanh(x),
}


@operator("Activation", aliases=("_npx_activation",))
class Activation(Elementwise):
    """Applies an activation function to each element."""

    floats = True

    act_type: Literal["relu", "sigmoid", "softrelu", "softsign", "tanh"]

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        return _ACTIVATIONS[self.act_type](b, inputs[0])


@operator("LeakyReLU", aliases=("_npx_leaky_relu",))
class LeakyReLU(Operator):
    """Applies a leaky rectifier, or one of its kin, to each element.

    leaky and elu use `slope`; prelu uses the learned `gamma`, one per channel, one per row, one per row and channel or
    one in all; rrelu draws its slope between the bounds in training and uses their mean otherwise.
    """

    floats = True
    inputs = ("data", "gamma?")
    act_type: Literal["elu", "gelu", "leaky", "prelu", "rrelu", "selu"] = "leaky"
    slope: Float = 0.25
    lower_bound: Float = 0.125
    upper_bound: Float = 0.333999991

    def has_input(self, name: str) -> bool:
        return self.act_type == "prelu"

    def output_names(self) -> tuple[str, ...]:
        return ("output", "mask") if self.act_type == "rrelu" else ("output",)

    def complete(self, inputs: list[PartialShape], outputs: list[PartialShape]) -> None:
        inputs[0] = outputs[0] = unify(inputs[0], outputs[0])
        data = inputs[0]
        if self.act_type == "prelu" and data is not None and inputs[1] is None:
            inputs[1] = data[min(1, len(data) - 1) :][:1]
        if self.act_type == "rrelu":
            unify_at(outputs, 1, data)

    def decompose(self, b: MxBuilder, *inputs: Value) -> Results:
        x = inputs[0]
        match self.act_type:
            case "leaky":
                return where_positive(b, x, b.mul(x, self.slope))
            case "prelu":
                return where_positive(b, x, b.mul(x, self._gamma(b, x, inputs[1])))
            case "elu":
                return where_positive(b, x, b.mul(b.expm1(x), self.slope))
            case "selu":
                return b.mul(where_positive(b, x, b.mul(b.expm1(x), SELU_ALPHA)), SELU_SCALE)
            case "gelu":
                return gelu(b, x)
            case "rrelu":
                return self._randomized(b, x)

    def _gamma(self, b: MxBuilder, x: Value, gamma: Value) -> Value:
        """gamma in the shape of x. Its axes, from the last on, are matched with axes 1 and 0 of x: each goes with the
        first that has its extent, or any if that is 1."""
        shape, given = x.type.shape, list(gamma.type.shape)
        extents = [1] * len(shape)
        for axis in range(min(1, len(shape) - 1), -1, -1):
            if given and given[-1] in (1, shape[axis]):
                extents[axis] = given.pop()
        if given:
            raise ValueError(f"gamma of shape {gamma.type.shape} does not broadcast to the first axes of {shape}")
        return b.broadcast_to(b.reshape(gamma, tuple(extents)), shape)

    def _randomized(self, b: MxBuilder, x: Value) -> Results:
        if b.training:
            width = self.upper_bound - self.lower_bound
            draw = uniform(b, x.type.shape, x.type.dtype)
            slope = b.select(b.gt(x, 0), b.full_like(x, 1), b.add(b.mul(draw, width), self.lower_bound))
            return where_positive(b, x, b.mul(x, slope)), slope
        mean = (self.lower_bound + self.upper_bound) / 2
        return where_positive(b, x, b.mul(x, mean)), b.full_like(x, 0)


@operator("hard_sigmoid")
class HardSigmoid(Elementwise):
    """max(0, min(1, alpha x + beta))."""

    floats = True

    alpha: Float = 0.200000003
    beta: Float = 0.5

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        return b.minimum(b.maximum(b.add(b.mul(inputs[0], self.alpha), self.beta), 0), 1)


@operator("clip", aliases=("_sparse_clip", "_npi_clip"))
class Clip(Elementwise):
    """Limits each element to [a_min, a_max]."""

    a_min: Float
    a_max: Float

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        return b.minimum(b.maximum(inputs[0], self._bound(inputs[0], self.a_min)), self._bound(inputs[0], self.a_max))

    def _bound(self, x: Value, bound: float) -> float:
        dtype = x.type.dtype
        if dtype.is_float:
            return bound
        low, high = (0 if dtype.is_unsigned else -(2 ** (dtype.bits - 1)), 2 ** (dtype.bits - dtype.is_signed) - 1)
        return int(min(max(bound, low), high))


@operator("smooth_l1", aliases=("_npx_smooth_l1",))
class SmoothL1(Elementwise):
    """Squares small elements and takes the absolute value of large ones: the bound is 1/scalar^2."""

    scalar: Float = 1.0

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        given, square = inputs[0], self.scalar * self.scalar
        x = given if given.type.dtype.is_float else b.cast(given, DType.F32)
        small = b.mul(b.mul(x, x), 0.5 * square)
        if not square:  # nothing is large
            return b.cast(small, given.type.dtype)
        large = b.sub(b.abs(x), 0.5 / square)
        return b.cast(b.select(b.lt(b.abs(x), 1 / square), small, large), given.type.dtype)


@operator("Dropout", aliases=("_npx_dropout",))
class Dropout(Operator):
    """In training, zeroes each element with probability p and scales the others by 1/(1-p).

    Elements along `axes` share one decision. With mode "always" it acts outside training too.
    """

    floats = True

    outputs = ("output", "mask")
    hidden = 1
    p: Float = 0.5
    mode: Literal["always", "training"] = "training"
    axes: Ints = ()
    cudnn_off: OptionalBool = False

    def check(self) -> None:
        if not 0 <= self.p <= 1:
            raise ValueError(f"Dropout: p={self.p}: must lie in [0, 1]")

    def complete(self, inputs: list[PartialShape], outputs: list[PartialShape]) -> None:
        inputs[0] = outputs[0] = unify(inputs[0], outputs[0])
        if inputs[0] is not None:
            unify_at(outputs, 1, self._mask_shape(inputs[0]))

    def _mask_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        shared = distinct_axes(self.axes, len(shape))
        return tuple(1 if i in shared else n for i, n in enumerate(shape))

    def decompose(self, b: MxBuilder, *inputs: Value) -> tuple[Value, Value]:
        x = inputs[0]
        shape = self._mask_shape(x.type.shape)
        if self.p == 0 or (self.mode == "training" and not b.training):
            return x, b.full(shape, 1, x.type.dtype)
        keep = 1 - self.p
        kept = b.lt(uniform(b, shape, DType.F32), keep)
        mask = b.mul(b.cast(kept, x.type.dtype), 1 / keep if keep else 0)
        return b.mul(x, b.broadcast_to(mask, x.type.shape)), mask
