"""Softmax, log_softmax, softmin and SoftmaxActivation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf, prod
from typing import TYPE_CHECKING, Literal

import numpy as np

from ...graph import Value
from ...types import DType
from .operator import Elementwise, Operator, operator
from .parameters import Bool, Int, OptionalBool, OptionalFloat, OptionalFloatDType
from .shapes import PartialShape, normalize_axis, unify, unify_at

if TYPE_CHECKING:
    from .builder import MxBuilder

SoftmaxFunction = Callable[["MxBuilder", Value, int], Value]


def _spread(b: MxBuilder, reduced: Value, like: Value) -> Value:
    return b.broadcast_to(reduced, like.type.shape)


def softmax(b: MxBuilder, x: Value, axis: int) -> Value:
    """exp(x - max) / sum."""

    def forward(b: MxBuilder, x: Value) -> Value:
        e = b.exp(b.sub(x, _spread(b, b.max(x, (axis,), keepdims=True), x)))
        return b.div(e, _spread(b, b.sum(e, (axis,), keepdims=True), x))

    def gradient(b: MxBuilder, operands: object, results: Sequence[Value], cotangents: Sequence[Value]) -> list[Value]:
        return [softmax_gradient(b, results[0], cotangents[0], axis)]

    return b.custom_gradient(forward, gradient, x)[0]


def softmax_gradient(b: MxBuilder, y: Value, g: Value, axis: int) -> Value:
    """The cotangent of the operand, computed only from the softmax y."""
    total = b.sum(b.mul(g, y), (axis,), keepdims=True)
    return b.mul(y, b.sub(g, _spread(b, total, y)))


def log_softmax(b: MxBuilder, x: Value, axis: int) -> Value:
    """x - max - log(sum)."""

    def forward(b: MxBuilder, x: Value) -> Value:
        shifted = b.sub(x, _spread(b, b.max(x, (axis,), keepdims=True), x))
        return b.sub(shifted, _spread(b, b.log(b.sum(b.exp(shifted), (axis,), keepdims=True)), x))

    def gradient(b: MxBuilder, operands: object, results: Sequence[Value], cotangents: Sequence[Value]) -> list[Value]:
        (y,), (g,) = results, cotangents
        return [b.sub(g, b.mul(b.exp(y), _spread(b, b.sum(g, (axis,), keepdims=True), y)))]

    return b.custom_gradient(forward, gradient, x)[0]


def softmin(b: MxBuilder, x: Value, axis: int) -> Value:
    return softmax(b, b.neg(x), axis)


def below_length(b: MxBuilder, x: Value, length: Value, axis: int) -> Value:
    """BOOL of x's shape: true if the position along `axis` is less than `length`, which lacks that axis."""
    shape = x.type.shape
    position = b.iota(shape, DType.I32, axis)
    axes = tuple(i for i in range(len(shape)) if i != axis)
    return b.lt(position, b.broadcast(b.cast(length, DType.I32), shape, axes))


class _SoftmaxBase(Operator):
    """Shared arguments of several operators.

    Args:
        data: The input array.
        length: Number of valid positions along `axis`, for each position of the other axes; requires `use_length`.
        axis: The axis along which the results sum to 1.
        temperature: Number by which data is divided first; 1 by default.
        dtype: Floating dtype of the result; data's dtype by default.
        use_length: True if `length` is passed.
    """

    inputs = ("data", "length?")
    own_dtypes = frozenset(("length",))
    axis: Int = -1
    temperature: OptionalFloat = None
    dtype: OptionalFloatDType = None
    use_length: OptionalBool = False

    def has_input(self, name: str) -> bool:
        return bool(self.use_length)

    def complete(self, inputs: list[PartialShape], outputs: list[PartialShape]) -> None:
        inputs[0] = outputs[0] = data = unify(inputs[0], outputs[0])
        if data:
            axis = normalize_axis(self.axis, len(data))
            unify_at(inputs, 1, data[:axis] + data[axis + 1 :])

    def _apply(self, b: MxBuilder, inputs: tuple[Value, ...], function: SoftmaxFunction) -> Value:
        x = inputs[0]
        if not x.type.rank:
            return b.reshape(self._apply(b, (b.reshape(x, (1,)), *inputs[1:]), function), ())
        axis = normalize_axis(self.axis, x.type.rank)
        out = DType.from_numpy(self.dtype) if self.dtype else x.type.dtype
        if out.bits > x.type.dtype.bits or not x.type.dtype.is_float:
            x = b.cast(x, out)
        if self.temperature is not None and self.temperature != 1:
            x = b.div(x, self.temperature)
        if not self.use_length:
            return b.cast(function(b, x, axis), out)
        valid = below_length(b, x, inputs[1], axis)
        masked = function(b, b.select(valid, x, b.full_like(x, self._masked)), axis)
        return b.cast(b.select(valid, masked, b.full_like(x, 0)), out)

    @property
    def _masked(self) -> float:
        return -1e30


def without_lengths(op: _SoftmaxBase) -> None:
    """ValueError if lengths are requested, which the operator does not support."""
    if op.use_length:
        raise ValueError(f"{op.mx_name()}: use_length=True: only softmax supports lengths")


@operator("softmax", aliases=("_npx_softmax",))
class Softmax(_SoftmaxBase):
    """Exponentials divided by their sum along an axis.

        output[i] = exp(data[i] / temperature) / sum_j exp(data[j] / temperature)

    With `use_length`, positions from `length` on are ignored and become 0.

    Returns:
        An array of data's shape.
    Example:
        >>> nd.softmax(nd.array([[1, 1], [0, 100]])).asnumpy().round(3)
        array([[0.5, 0.5],
               [0. , 1. ]], dtype=float32)
    """

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        return self._apply(b, inputs, softmax)


@operator("log_softmax", aliases=("_npx_log_softmax",))
class LogSoftmax(_SoftmaxBase):
    """The logarithm of softmax along an axis, computed without overflow.

        output[i] = x[i] - log(sum_j exp(x[j])), where x = data / temperature

    Returns:
        An array of data's shape.
    Example:
        >>> nd.log_softmax(nd.array([0, 0])).asnumpy().round(3)
        array([-0.693, -0.693], dtype=float32)
    """

    inputs = ("data",)

    def check(self) -> None:
        without_lengths(self)

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        return self._apply(b, inputs, log_softmax)


class _Masked(_SoftmaxBase):
    """A softmax of the elements where a mask is true.

    Args:
        data: Array of any shape.
        mask: Booleans in a shape that broadcasts to data's.
        axis: The axis of the sum.
        temperature: The divisor of data.
        normalize: Unused: the largest element is always subtracted first.
    Returns:
        An array of data's shape.
    """

    inputs = ("data", "mask")
    own_dtypes = frozenset(("mask",))
    axis: Int = -1
    temperature: OptionalFloat = None
    normalize: Bool = True

    function = staticmethod(softmax)
    masked = 0.0

    def complete(self, inputs: list[PartialShape], outputs: list[PartialShape]) -> None:
        unify_at(outputs, 0, inputs[0])
        unify_at(inputs, 0, outputs[0])

    def complete_dtypes(self, inputs: list[DType | None], outputs: list[DType | None]) -> None:
        known = inputs[0] or outputs[0]
        inputs[:], outputs[:] = [known, inputs[1] or DType.BOOL], [known]

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        x, mask = inputs
        kept = b.broadcast_to(b.ne(mask, 0) if mask.type.dtype is not DType.BOOL else mask, x.type.shape)
        if self.temperature is not None:
            x = b.div(x, self.temperature)
        low = b.full_like(x, float(np.finfo(x.type.dtype.numpy).min))
        y = type(self).function(b, b.select(kept, x, low), normalize_axis(self.axis, x.type.rank))
        return b.select(kept, y, b.full_like(y, self.masked))


@operator("_npx_masked_softmax")
class MaskedSoftmax(_Masked):
    """Exponentials divided by their sum along an axis, of the elements where the mask is true; 0 elsewhere."""


@operator("_npx_masked_log_softmax")
class MaskedLogSoftmax(_Masked):
    """The logarithm of the softmax of the elements where the mask is true; minus infinity elsewhere."""

    function = staticmethod(log_softmax)
    masked = -inf


@operator("softmin")
class Softmin(_SoftmaxBase):
    """The softmax of -data along an axis: the smallest element has the largest share.

        output[i] = exp(-data[i] / temperature) / sum_j exp(-data[j] / temperature)

    Returns:
        An array of data's shape.
    Example:
        >>> nd.softmin(nd.array([0, 100])).asnumpy().round(3)
        array([1., 0.], dtype=float32)
    """

    inputs = ("data",)

    def check(self) -> None:
        without_lengths(self)

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        return self._apply(b, inputs, softmin)


def flat_softmax(b: MxBuilder, x: Value) -> Value:
    """The softmax over all axes except the first."""
    shape = x.type.shape
    rows = b.reshape(x, (shape[0], prod(shape[1:])))
    return b.reshape(softmax(b, rows, 1), shape)


@operator("SoftmaxActivation")
class SoftmaxActivation(Elementwise):
    """The softmax over channels; superseded by `softmax`.

    Args:
        data: (N, C, ...).
        mode: "instance" for softmax over all elements of each instance, "channel" for softmax over axis 1.
    Returns:
        An array of data's shape.
    Example:
        >>> nd.SoftmaxActivation(nd.array([[1, 1]])).asnumpy()
        array([[0.5, 0.5]], dtype=float32)
    """

    floats = True

    mode: Literal["channel", "instance"] = "instance"

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        if self.mode == "channel" and inputs[0].type.rank < 3:
            raise ValueError(f"mode='channel' requires data with at least 3 axes, got shape {inputs[0].type.shape}")
        return softmax(b, inputs[0], 1 if self.mode == "channel" else inputs[0].type.rank - 1)

    def gradient(  # type: ignore[override]
        self, b: MxBuilder, operands: object, results: Sequence[Value], cotangents: Sequence[Value]
    ) -> list[Value]:
        """The gradient of softmax over axis 1, in both modes."""
        y = results[0]
        return [softmax_gradient(b, y, cotangents[0], min(1, y.type.rank - 1))]
