"""Activation functions with parameters: Activation, LeakyReLU, hard_sigmoid, clip, smooth_l1, Dropout."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import sqrt
from typing import TYPE_CHECKING, Literal

from ...graph import Value
from ...types import DType
from .operator import Elementwise, Operator, Results, operator
from .parameters import Float, Ints, OptionalBool
from .random_bits import uniform
from .shapes import E, PartialShape, distinct_axes, unify, unify_at

if TYPE_CHECKING:
    from .builder import MxBuilder

SELU_ALPHA = 1.6732632423543772848170429916717
SELU_SCALE = 1.0507009873554804934193349852946


def relu(b: MxBuilder, x: Value) -> Value:
    """max(x, 0). NaN remains NaN, also in the gradient, as in MXNet."""
    return b.custom_gradient(_positive_part, _where_result_is_positive, x)[0]


def _positive_part(b: MxBuilder, x: Value) -> Value:
    return b.maximum(x, 0)


def _where_result_is_positive(
    b: MxBuilder, operands: object, results: Sequence[Value], cotangents: Sequence[Value]
) -> list[Value]:
    """The cotangent where the result is positive. Elsewhere it is multiplied by the result: 0 or NaN. The gradient is 0
    at 0, unlike that of a maximum."""
    y, g = results[0], cotangents[0]
    return [b.mul(g, b.select(b.gt(y, 0), b.full_like(y, 1), y))]


def rectified(b: MxBuilder, x: Value) -> Value:
    """The rectifier of MXNet's layers. In the dtypes for which MXNet uses oneDNN, NaN becomes 0 and has the gradient 0;
    else it is `relu`."""
    return b.rectify(x) if x.type.dtype in (DType.F32, DType.BF16) else relu(b, x)


def softrelu(b: MxBuilder, x: Value) -> Value:
    """log(1 + e^x), without overflow for large x."""

    def forward(b: MxBuilder, x: Value) -> Value:
        return b.add(b.maximum(x, 0), b.log1p(b.exp(b.neg(b.abs(x)))))

    def gradient(b: MxBuilder, operands: object, results: Sequence[Value], cotangents: Sequence[Value]) -> list[Value]:
        return [b.mul(cotangents[0], b.neg(b.expm1(b.neg(results[0]))))]

    return b.custom_gradient(forward, gradient, x)[0]


def softsign(b: MxBuilder, x: Value) -> Value:
    """x / (1 + |x|). Its gradient at infinite elements is 0."""

    def forward(b: MxBuilder, x: Value) -> Value:
        return b.div(x, b.add(b.abs(x), 1))

    def gradient(b: MxBuilder, operands: Sequence[Value], results: object, cotangents: Sequence[Value]) -> list[Value]:
        return [b.div(cotangents[0], b.square(b.add(b.abs(operands[0]), 1)))]

    return b.custom_gradient(forward, gradient, x)[0]


def gelu(b: MxBuilder, x: Value) -> Value:
    """x times the normal distribution function at x, computed with erf."""
    return b.mul(b.mul(x, 0.5), b.add(b.erf(b.mul(x, 1 / sqrt(2))), 1))


def _selu(b: MxBuilder, x: Value) -> Value:
    return b.mul(where_positive(b, x, b.mul(b.expm1(x), SELU_ALPHA)), SELU_SCALE)


def _selu_gradient(
    b: MxBuilder, operands: object, results: Sequence[Value], cotangents: Sequence[Value]
) -> list[Value]:
    """MXNet adds the scaled result to alpha; the derivative has the result before scaling."""
    y, g = results[0], cotangents[0]
    slope = b.select(b.gt(y, 0), b.full_like(y, 1), b.add(y, SELU_ALPHA))
    return [b.mul(b.mul(g, slope), SELU_SCALE)]


def where_positive(b: MxBuilder, x: Value, otherwise: Value) -> Value:
    """x where x > 0, otherwise `otherwise`."""
    return b.select(b.gt(x, 0), x, otherwise)


_ACTIVATIONS: dict[str, Callable[[MxBuilder, Value], Value]] = {
    "relu": rectified,
    "sigmoid": lambda b, x: b.sigmoid(x),
    "softrelu": softrelu,
    "softsign": softsign,
    "tanh": lambda b, x: b.tanh(x),
}


@operator("Activation", aliases=("_npx_activation",))
class Activation(Elementwise):
    """Applies an activation function to each element.

        relu: max(x, 0)    sigmoid: 1 / (1 + exp(-x))    tanh    softrelu: log(1 + exp(x))    softsign: x / (1 + |x|)

    "relu" of NaN is 0 in float32 and bfloat16, as in MXNet, and NaN in other dtypes. `nd.relu` of NaN is always NaN.

    Args:
        act_type: Name of the function.
    Returns:
        An array of data's shape.
    Example:
        >>> nd.Activation(nd.array([-1, 0, 2]), act_type="relu").asnumpy()
        array([0., 0., 2.], dtype=float32)
    """

    floats = True

    act_type: Literal["relu", "sigmoid", "softrelu", "softsign", "tanh"]

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        return _ACTIVATIONS[self.act_type](b, inputs[0])


@operator("LeakyReLU", aliases=("_npx_leaky_relu",))
class LeakyReLU(Operator):
    """Applies a rectifier that passes a part of negative elements.

        leaky: x if x > 0 else slope * x            elu: x if x > 0 else slope * (exp(x) - 1)
        prelu: x if x > 0 else gamma * x            selu: 1.0507 * (x if x > 0 else 1.6733 * (exp(x) - 1))
        gelu: x * Phi(x), Phi the normal distribution function
        rrelu: leaky with a random slope in training, otherwise with the mean of the bounds

    Args:
        gamma: Learned slopes of "prelu": one per channel, or a single one.
        act_type: Name of the function.
        slope: Slope of "leaky" and factor of "elu".
        lower_bound: Smallest slope of "rrelu".
        upper_bound: Largest slope of "rrelu".
    Returns:
        An array of data's shape.
    Example:
        >>> nd.LeakyReLU(nd.array([-4, 2]), slope=0.25).asnumpy()
        array([-1.,  2.], dtype=float32)
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
                return b.custom_gradient(_selu, _selu_gradient, x)[0]
            case "gelu":
                return gelu(b, x)
            case "rrelu":
                return self._randomized(b, x)

    def _gamma(self, b: MxBuilder, x: Value, gamma: Value) -> Value:
        """gamma in the shape of x. Its axes are matched with axes 1 and 0 of x, starting from the last: each matches
        the first axis with its extent, or any axis if its extent is 1."""
        shape, rest = x.type.shape, list(gamma.type.shape)
        extents = [1] * len(shape)
        for axis in range(min(1, len(shape) - 1), -1, -1):
            if rest and rest[-1] in (1, shape[axis]):
                extents[axis] = rest.pop()
        if rest:
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
    """A piecewise linear sigmoid.

        output = max(0, min(1, alpha * data + beta))

    Args:
        alpha: Slope of the middle part.
        beta: Value at 0.
    Returns:
        An array of data's shape.
    Example:
        >>> nd.hard_sigmoid(nd.array([-10, 0, 10])).asnumpy()
        array([0. , 0.5, 1. ], dtype=float32)
    """

    floats = True

    alpha: Float = 0.200000003
    beta: Float = 0.5

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        return b.minimum(b.maximum(b.add(b.mul(inputs[0], self.alpha), self.beta), 0), 1)

    def gradient(  # type: ignore[override]
        self, b: MxBuilder, operands: object, results: Sequence[Value], cotangents: Sequence[Value]
    ) -> list[Value]:
        """0 at both bounds."""
        y, slope = results[0], b.mul(cotangents[0], self.alpha)
        return [b.select(b.and_(b.gt(y, 0), b.lt(y, 1)), slope, b.full_like(y, 0))]


@operator("clip", aliases=("_sparse_clip", "_npi_clip"))
class Clip(Elementwise):
    """Limits each element to an interval.

        output = min(max(data, a_min), a_max)

    Args:
        a_min: Smallest value of the result.
        a_max: Largest value of the result.
    Returns:
        An array of data's shape and dtype.
    Example:
        >>> nd.clip(nd.array([-2, 0.5, 7]), 0, 1).asnumpy()
        array([0. , 0.5, 1. ], dtype=float32)
    """

    a_min: Float
    a_max: Float

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        return b.custom_gradient(self._limited, self._where_inside, inputs[0])[0]

    def _limited(self, b: MxBuilder, x: Value) -> Value:
        return b.minimum(b.maximum(x, self._bound(x, self.a_min)), self._bound(x, self.a_max))

    def _where_inside(
        self, b: MxBuilder, operands: Sequence[Value], results: object, cotangents: Sequence[Value]
    ) -> list[Value]:
        """The cotangent of elements inside the interval, its bounds included, and of NaN, as in MXNet."""
        x, g = operands[0], cotangents[0]
        outside = b.or_(b.lt(x, self._bound(x, self.a_min)), b.gt(x, self._bound(x, self.a_max)))
        return [b.select(outside, b.full_like(g, 0), g)]

    def _bound(self, x: Value, bound: float) -> float:
        dtype = x.type.dtype
        if dtype.is_float:
            return bound
        low, high = (0 if dtype.is_unsigned else -(2 ** (dtype.bits - 1)), 2 ** (dtype.bits - dtype.is_signed) - 1)
        return int(min(max(bound, low), high))


@operator("smooth_l1", aliases=("_npx_smooth_l1",))
class SmoothL1(Elementwise):
    """The absolute value, smoothed near 0: quadratic there, linear elsewhere.

        output = 0.5 * (scalar * x)^2 if |x| < 1 / scalar^2 else |x| - 0.5 / scalar^2

    Args:
        scalar: The larger it is, the smaller the quadratic part.
    Returns:
        An array of data's shape.
    Example:
        >>> nd.smooth_l1(nd.array([-3, 0.5, 1]), scalar=1).asnumpy()
        array([2.5  , 0.125, 0.5  ], dtype=float32)
    """

    scalar: Float = 1.0

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        data, square = inputs[0], self.scalar * self.scalar
        x = data if data.type.dtype.is_float else b.cast(data, DType.F32)
        small = b.mul(b.mul(x, x), 0.5 * square)
        if not square:  # no element is large
            return b.cast(small, data.type.dtype)
        large = b.sub(b.abs(x), 0.5 / square)
        return b.cast(b.select(b.lt(b.abs(x), 1 / square), small, large), data.type.dtype)


@operator("Dropout", aliases=("_npx_dropout",))
class Dropout(Operator):
    """In training, sets random elements to 0 and scales the others to preserve the expectation.

        output = data * mask / (1 - p), where each element of mask is 0 with probability p, else 1

    Outside training data is unchanged.

    Args:
        p: Probability with which an element becomes 0.
        mode: "always" to drop elements outside training too.
        axes: Axes along which elements share one random decision.
    Returns:
        An array of data's shape.
    Example:
        >>> nd.Dropout(nd.ones((3,)), p=0.5).asnumpy()
        array([1., 1., 1.], dtype=float32)
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
            raise ValueError(f"Dropout: p={self.p}: must be in [0, 1]")

    def complete(self, inputs: list[PartialShape], outputs: list[PartialShape]) -> None:
        inputs[0] = outputs[0] = unify(inputs[0], outputs[0])
        if inputs[0] is not None:
            unify_at(outputs, 1, self._mask_shape(inputs[0]))

    def _mask_shape(self, shape: tuple[E, ...]) -> tuple[E | int, ...]:
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
