"""The reference interpreter: evaluates a core graph node by node in NumPy."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ...graph import Graph, GraphError, Node, Value
from ...types import DType, TensorType
from .numerics import round_bfloat16
from .primitive import Array, Primitive, storage


def interpret(graph: Graph, inputs: Iterable[Array]) -> list[Array]:
    """The graph's outputs. BF16 tensors are float32 arrays. GraphError names an input or node that does not fit."""
    values: dict[Value, Array] = {}
    for position, (value, array) in enumerate(zip(graph.inputs, inputs, strict=True)):
        values[value] = _check_input(value, position, np.asarray(array))
    with np.errstate(all="ignore"):
        for node in graph.nodes:
            results = evaluate_node(node, tuple(values[v] for v in node.inputs))
            values.update(zip(node.outputs, results, strict=True))
    return [values[v] for v in graph.outputs]


evaluate_graph = interpret


def _check_input(value: Value, position: int, array: Array) -> Array:
    expected = storage(value.type.dtype)
    if array.shape != value.type.shape or array.dtype != expected:
        name = value.name or f"#{position}"
        raise GraphError(f"input {name} is {array.dtype}{array.shape}, the graph takes {expected}{value.type.shape}")
    return round_bfloat16(array) if value.type.dtype is DType.BF16 else array


def evaluate_node(node: Node, operands: tuple[Array, ...]) -> list[Array]:
    """The results of one node. GraphError if it is not of core, or if they do not have its types."""
    if not isinstance(node.op, Primitive):
        raise GraphError(f"{node.describe()} is not a core primitive: decompose the graph before it is interpreted")
    results = node.op.evaluate(*operands)
    return [_finish(node, v.type, r) for v, r in zip(node.outputs, results, strict=True)]


def _finish(node: Node, type: TensorType, result: Array) -> Array:
    if result.shape != type.shape or result.dtype != storage(type.dtype):
        raise GraphError(f"{node.describe()} gave {result.dtype}{result.shape} where {type} was inferred")
    return round_bfloat16(result) if type.dtype is DType.BF16 else result
