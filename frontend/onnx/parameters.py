"""Divides an ONNX model into a graph without weights, and the weights by name."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np

from ...ir.types import DType
from .files import Place, Places, read_data
from .reader.tensors import array_of
from .writer import onnx_library

_LARGEST_CONSTANT = 1024
"""Tensors with more elements are parameters; smaller ones are too if they are floats, and no operand of `_STATIC`."""

_STATIC = {"Resize": (1, 2), "Upsample": (1,), "Range": (0, 1, 2)}
"""Operands that are floats and determine shapes."""


def divided(model: Any, places: Places) -> tuple[Any, dict[str, np.ndarray]]:
    """The model whose parameters are inputs after its data, and the parameters' elements.

    Parameters are initializers and constants of the main graph that are floats, or large. The others stay constants:
    they determine shapes and positions. `places` are those of elements in other files. The model is changed in place.
    """
    graph = model.graph
    fixed = _static_names(graph)
    initializers = {t.name: t for t in graph.initializer}
    chosen = {name: t for name, t in initializers.items() if _is_parameter(t, name in fixed)}
    kept_nodes = []
    for node in graph.node:
        tensor = _constant_of(node)
        if tensor is not None and tensor.dims and _is_parameter(tensor, node.output[0] in fixed):
            chosen[node.output[0]] = tensor
        else:
            kept_nodes.append(node)
    parameters = {name: _elements(tensor, places.get(name)) for name, tensor in chosen.items()}
    constants = [t for t in graph.initializer if t.name not in chosen]
    for tensor in constants:
        if tensor.name in places:
            read_data(tensor, places[tensor.name])
    data = [i for i in graph.input if i.name not in initializers]
    info = onnx_library().helper.make_tensor_value_info
    weights = [info(name, t.data_type, list(t.dims)) for name, t in chosen.items()]
    for field, values in ((graph.input, [*data, *weights]), (graph.initializer, constants), (graph.node, kept_nodes)):
        copies = [_copy(value) for value in values]
        del field[:]
        field.extend(copies)
    del graph.value_info[:]
    return model, parameters


def _elements(tensor: Any, place: Place | None) -> np.ndarray:
    if place is None:
        return array_of(tensor)
    return place.read(onnx_library().helper.tensor_dtype_to_np_dtype(tensor.data_type), tensor.dims)


def _copy(message: Any) -> Any:
    copy = type(message)()
    copy.CopyFrom(message)
    return copy


def _static_names(graph: Any) -> set[str]:
    listed = ((node, _STATIC.get(node.op_type, ())) for node in graph.node)
    return {node.input[i] for node, positions in listed for i in positions if i < len(node.input)}


def _constant_of(node: Any) -> Any:
    """The tensor of a node Constant, or None."""
    if node.op_type != "Constant" or node.domain not in ("", "ai.onnx"):
        return None
    return next((a.t for a in node.attribute if a.name == "value"), None)


def _is_parameter(tensor: Any, is_static: bool) -> bool:
    dtype = _dtype(tensor)
    size = prod(tensor.dims)
    if dtype is None or is_static or size <= 1:
        return False
    return dtype.is_float or size > _LARGEST_CONSTANT


def _dtype(tensor: Any) -> DType | None:
    """The dtype of a tensor whose elements arrays can have."""
    try:
        return DType.from_numpy(onnx_library().helper.tensor_dtype_to_np_dtype(tensor.data_type))
    except (KeyError, TypeError, ValueError):
        return None


def data_inputs(model: Any) -> Iterator[Any]:
    """The inputs of a model that are no initializers."""
    initializers = {t.name for t in model.graph.initializer}
    return (i for i in model.graph.input if i.name not in initializers)
