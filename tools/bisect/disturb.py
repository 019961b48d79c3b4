"""Estimates what rounding can cause in a computation, by Monte Carlo arithmetic.

The graph is interpreted with every float changed by a random unit in its last place, operands and results of nodes
alike. How far the outputs move is what another order of the same operations may cause: much where a sum cancels, where
a variance is 0, or where a comparison is close.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...ir.dialects.core import Call, Conv, ConvWeightGradient, Cumulative, Dot, Fused, Reduce, ReduceWindow, Scatter
from ...ir.dialects.core.interpret import evaluate_node
from ...ir.graph import Graph, Node, Value
from ...ir.types import TensorType
from .compare import EPSILON, Array, in_dtype

_SAMPLES, _FACTOR = 3, 32
_SUMS = (Conv, ConvWeightGradient, Cumulative, Dot, Reduce, ReduceWindow, Scatter)
"""Primitives whose results are sums. Rounding in the last place of the sum of magnitudes is what adding them in another
order causes."""


def rounding_noise(graph: Graph, inputs: Sequence[Array], expected: Sequence[Array]) -> list[Array]:
    """How far each element of the outputs, which are `expected`, can move: for integers, 1 where it can change."""
    largest = [np.zeros(a.shape) for a in expected]
    for seed in range(_SAMPLES):
        moved = _Disturbed(seed).outputs(graph, inputs)
        for noise, disturbed, own in zip(largest, moved, expected, strict=True):
            with np.errstate(all="ignore"):
                distance = np.abs(np.asarray(disturbed, np.float64) - np.asarray(own, np.float64))
            np.maximum(noise, np.where(np.isfinite(distance), distance, 0.0), out=noise)
    return [_spread(noise, v.type) for noise, v in zip(largest, graph.outputs, strict=True)]


def _spread(noise: Array, type: TensorType) -> Array:
    """What is allowed for each element, from few samples: a multiple of its own movement and of that of all elements
    (the root of the mean square). Errors of a long sum add up to more than those of its operands."""
    if not type.dtype.is_float:
        return np.where(noise > 0, np.inf, 0.0)
    return _FACTOR * (noise + np.sqrt(np.mean(noise * noise))) if noise.size else noise


class _Disturbed:
    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)

    def outputs(self, graph: Graph, inputs: Sequence[Array]) -> list[Array]:
        values = {v: self._moved(a, v.type) for v, a in zip(graph.inputs, inputs, strict=True)}
        with np.errstate(all="ignore"):
            self._run(graph, values)
        return [values[v] for v in graph.outputs]

    def _run(self, graph: Graph, values: dict[Value, Array]) -> None:
        for node in graph.nodes:
            values.update(zip(node.outputs, self._results(node, tuple(values[v] for v in node.inputs)), strict=True))

    def _results(self, node: Node, operands: tuple[Array, ...]) -> list[Array]:
        if isinstance(node.op, Fused | Call):
            values = dict(zip(node.op.body.inputs, operands, strict=True))
            self._run(node.op.body, values)
            return [values[v] for v in node.op.body.outputs]
        results = evaluate_node(node, operands)
        if not node.inputs:
            return results
        terms = evaluate_node(node, tuple(map(_magnitudes, operands))) if isinstance(node.op, _SUMS) else results
        return [self._moved(a, v.type, t) for a, v, t in zip(results, node.outputs, terms, strict=True)]

    def _moved(self, array: Array, type: TensorType, terms: Array | None = None) -> Array:
        """The array with each float moved by a unit in the last place, of itself or of the terms that it adds up."""
        if type.dtype not in EPSILON:
            return array
        size = np.asarray(array if terms is None else terms, np.float64)
        step = EPSILON[type.dtype] * size * self.random.choice((-1.0, 0.0, 1.0), array.shape)
        return in_dtype(array.astype(np.float64) + step, type.dtype)


def _magnitudes(array: Array) -> Array:
    return np.abs(array) if array.dtype.kind == "f" else array
