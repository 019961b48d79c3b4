"""Operators on shapes of which some extents are symbolic: evaluated on arrays of Python numbers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .node import Known, OnnxNode, integers


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


FOLDED: dict[str, Callable[[OnnxNode], Known]] = {
    "Gather": _gather,
    "Slice": _slice,
    "Unsqueeze": _unsqueeze,
    "Squeeze": _squeeze,
    "Concat": _concat,
    "ReduceProd": _reduce_prod,
    "Identity": lambda n: n.known(0),
    "Cast": lambda n: n.known(0),
    "Reshape": lambda n: n.known(0).reshape(integers(n.known(1))),
    "Add": lambda n: n.known(0) + n.known(1),
    "Sub": lambda n: n.known(0) - n.known(1),
    "Mul": lambda n: n.known(0) * n.known(1),
    "Div": lambda n: n.known(0) // n.known(1),
}
