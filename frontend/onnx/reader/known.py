"""Operators on shapes of which some extents are symbolic: evaluated on arrays of Python numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .node import Known, OnnxNode, dtype_of, integers


def _gather(node: OnnxNode) -> Known:
    return np.take(node.known(0), node.known(1).astype(np.int64), axis=node.attr("axis", 0))


def _slice(node: OnnxNode) -> Known:
    x = node.known(0)
    starts, ends = node.ints(1, "starts") or [], node.ints(2, "ends") or []
    axes, steps = node.ints(3, "axes") or range(len(starts)), node.ints(4, "steps") or [1] * len(starts)
    where = [slice(None)] * x.ndim
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        where[axis] = slice(start, end, step)
    return x[tuple(where)]


def _unsqueeze(node: OnnxNode) -> Known:
    return np.expand_dims(node.known(0), tuple(node.ints(1, "axes") or ()))


def _squeeze(node: OnnxNode) -> Known:
    axes = node.ints(1, "axes")
    return np.squeeze(node.known(0), None if axes is None else tuple(axes))


def _concat(node: OnnxNode) -> Known:
    return np.concatenate([node.known(i) for i in range(len(node.names))], axis=node.attr("axis", 0))


def _reduce_prod(node: OnnxNode) -> Known:
    product = 1
    for n in integers(node.known(0)):
        product = product * n
    shape = (1,) * node.known(0).ndim if node.attr("keepdims", 1) else ()
    return np.array([product], object).reshape(shape)


def _each(function: Callable[..., Any]) -> Callable[[OnnxNode], Known]:
    """A rule that applies a function to the elements of all operands."""

    def folded(node: OnnxNode) -> Known:
        operands = np.broadcast_arrays(*(node.known(i) for i in range(len(node.names))))
        numbers = [function(*elements) for elements in zip(*(x.ravel().tolist() for x in operands), strict=True)]
        result = np.empty(len(numbers), object)
        result[:] = numbers
        plain = [type(n) for n in numbers]
        whole = result.astype(plain[0]) if numbers and set(plain) <= {int, bool} and len(set(plain)) == 1 else result
        return whole.reshape(operands[0].shape)

    return folded


def _quotient(a: Any, b: Any) -> Any:
    """Integers are rounded to zero."""
    if isinstance(a, float) or isinstance(b, float):
        return a / b
    return a // b if (a >= 0) == (b > 0) else -(-a // b)


def _whole(number: Any) -> Any:
    """The integer part of a number."""
    if not isinstance(number, float):
        return number
    return math.floor(number) if number >= 0 else math.ceil(number)


def _cast(node: OnnxNode) -> Known:
    to_float = dtype_of(node.attr("to")).is_float
    return _each(lambda n: n * 1.0 if to_float else _whole(n))(node)


FOLDED: dict[str, Callable[[OnnxNode], Known]] = {
    "Gather": _gather,
    "Slice": _slice,
    "Unsqueeze": _unsqueeze,
    "Squeeze": _squeeze,
    "Concat": _concat,
    "ReduceProd": _reduce_prod,
    "Identity": lambda n: n.known(0),
    "Cast": _cast,
    "Reshape": lambda n: n.known(0).reshape(integers(n.known(1))),
    "Expand": lambda n: n.known(0) * np.ones(integers(n.known(1)), object),
    "Add": _each(lambda a, b: a + b),
    "Sub": _each(lambda a, b: a - b),
    "Mul": _each(lambda a, b: a * b),
    "Div": _each(_quotient),
    "Mod": _each(lambda a, b: a % b),
    "Neg": _each(lambda a: -a),
    "Floor": _each(lambda a: math.floor(a) * 1.0),
    "Ceil": _each(lambda a: math.ceil(a) * 1.0),
    "Max": _each(max),
    "Min": _each(min),
    "Equal": _each(lambda a, b: bool(a == b)),
    "Less": _each(lambda a, b: bool(a < b)),
    "Greater": _each(lambda a, b: bool(a > b)),
    "Where": _each(lambda condition, a, b: a if condition else b),
}
"""Comparisons of symbolic numbers are guards: what a graph computes is right for the extents for which they hold."""

SHAPED = {"Expand": 1, "Reshape": 1}
"""The operand that is the shape of the result. Arrays of numbers have no symbolic extents: with such a shape the
operator is part of the graph."""
