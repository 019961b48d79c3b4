"""Gradients that differ from the derivative, as in MXNet, and that several operators share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...graph import Value
from .operator import Operator

if TYPE_CHECKING:
    from .builder import MxBuilder

Axes = tuple[int, ...]


def no_gradient(
    self: Operator, b: MxBuilder, operands: Sequence[Value], results: object, cotangents: object
) -> list[None]:
    """No cotangent passes back."""
    return [None] * len(operands)


def straight_through(
    self: Operator, b: MxBuilder, operands: object, results: object, cotangents: Sequence[Value]
) -> Sequence[Value]:
    """The gradient of the identity."""
    return cotangents


def identity(b: MxBuilder, x: Value) -> Value:
    """x: the forward function of a computation that changes only the gradient."""
    return x


def identity_gradient(b: MxBuilder, operands: object, results: object, cotangents: Sequence[Value]) -> Sequence[Value]:
    """`straight_through` for a part of a decomposition."""
    return cotangents


def first_maximum(b: MxBuilder, x: Value, axes: Axes, keepdims: bool = False) -> Value:
    """The maximum over `axes`, whose cotangent goes to the first element that equals it."""
    window = tuple(n if k in axes else 1 for k, n in enumerate(x.type.shape))
    kept = tuple(1 if k in axes else n for k, n in enumerate(x.type.shape))

    def forward(b: MxBuilder, x: Value) -> Value:
        return b.max(x, axes, keepdims)

    def gradient(b: MxBuilder, operands: Sequence[Value], results: object, cotangents: Sequence[Value]) -> list[Value]:
        g = b.reshape(cotangents[0], kept)
        return [b.select_and_scatter(operands[0], g, window, window, ((0, 0),) * len(window))]

    return b.custom_gradient(forward, gradient, x)[0]
