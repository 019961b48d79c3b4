"""Computations with their own gradient: a call whose body and gradient are built by functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ...graph import Graph, Value

if TYPE_CHECKING:
    from .builder import CoreBuilder

OwnGradient = Callable[[Any, Sequence[Value], Sequence[Value], Sequence[Value]], Sequence[Value | None]]
"""gradient(b, operands, results, cotangents) -> one cotangent or None (no gradient) for each operand."""


def call_with_gradient(
    b: CoreBuilder, forward: Callable[..., Value | Sequence[Value]], gradient: OwnGradient, operands: Sequence[Value]
) -> tuple[Value, ...]:
    """Append a call of forward(b, *operands) that carries `gradient`; returns the results.

    Results without a cotangent, such as booleans, get zeros as theirs.
    """
    inner, back = b.nested(f"{b.name}_call"), b.nested(f"{b.name}_gradient")
    inner.location = back.location = b.location
    forwarded = forward(inner, *(inner.input(v.type, v.name) for v in operands))
    values = (forwarded,) if isinstance(forwarded, Value) else tuple(forwarded)
    body = inner.build(values)
    inputs = (*operands, *inner.captured)
    pulled, wrt = _gradient(back, body, gradient, len(operands), len(values))
    results = b.call(body, *inputs, gradient=pulled, wrt=wrt)
    b.adopt(inner, inputs, results[len(values) :])
    return results[: len(values)]


def without_gradient(b: CoreBuilder, x: Value) -> Value:
    """x, through a call that passes no cotangent back."""

    def forward(b: CoreBuilder, x: Value) -> Value:
        return x

    def gradient(b: CoreBuilder, operands: object, results: object, cotangents: object) -> list[None]:
        return [None]

    return call_with_gradient(b, forward, gradient, [x])[0]


def _gradient(
    b: CoreBuilder, body: Graph, gradient: OwnGradient, operands: int, results: int
) -> tuple[Graph, list[int]]:
    """The graph of the gradient, and the positions of the operands it has cotangents for."""
    own = [b.input(v.type, v.name) for v in body.inputs]
    outputs = [b.input(v.type) for v in body.outputs]
    cotangents = [b.input(v.type) if v.type.dtype.has_cotangent else b.full_like(v, 0) for v in outputs]
    gradients = gradient(b, own[:operands], outputs[:results], cotangents[:results])
    existing = {i: g for i, g in enumerate(gradients) if g is not None and own[i].type.dtype.has_cotangent}
    return b.build(list(existing.values())), list(existing)
