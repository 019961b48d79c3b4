"""Imports ONNX models as symbols."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from ...ir.dialects.mx.shapes import UNKNOWN
from ..ndarray import NDArray, array
from ..symbol import Group, Symbol, var
from .files import OnnxError, read_model
from .operator import declared_dtype, declared_shape
from .parameters import data_inputs, divided
from .reader.graph import opset_of
from .reader.node import Unsupported
from .reader.unsupported import refuse_recursion, refuse_undefined, refuse_unknown
from .translate import renamed, translated

Arrays = dict[str, NDArray]


class ImportedModel(NamedTuple):
    """A symbol with the parameters and auxiliary states of a model, and the names of its data."""

    symbol: Symbol
    arguments: Arrays
    auxiliary: Arrays
    data: list[str]


def import_symbol(path: str | os.PathLike[str], own_names: bool = False) -> ImportedModel:
    """A model made of operators of `mx` where they have the meaning of ONNX's; `own_names`: its outputs have the names
    that they have in the file.

    OnnxError for a file that cannot be read. It names all operators that are not supported.
    """
    model, places = read_model(path)
    try:
        opset_of(model)
        refuse_unknown(model)
        refuse_recursion(model)
        refuse_undefined(model.graph)
        graph, parameters = divided(model, places)
        variables = {i.name: _variable(i, i.name in parameters) for i in graph.graph.input}
        outputs = translated(graph, parameters, variables)
    except (Unsupported, ValueError) as error:
        raise OnnxError(f"{os.fspath(path)}: {error}") from None
    except (TypeError, KeyError, IndexError, AttributeError) as error:  # of attributes of wrong kinds
        raise OnnxError(f"{os.fspath(path)}: a node is invalid: {error}") from None
    if own_names:
        outputs = renamed(outputs, [o.name for o in graph.graph.output], graph)
    symbol = Group(outputs) if len(outputs) > 1 else outputs[0]
    states, inputs = symbol.list_auxiliary_states(), set(symbol.list_inputs())
    arrays = {name: array(value, dtype=value.dtype) for name, value in parameters.items() if name in inputs}
    arguments = {name: a for name, a in arrays.items() if name not in states}
    auxiliary = {name: a for name, a in arrays.items() if name in states}
    return ImportedModel(symbol, arguments, auxiliary, [n for n in variables if n not in parameters])


def _variable(info: Any, is_parameter: bool) -> Symbol:
    """The variable of an input; that of data has the dtype, and the shape if only the batch is not fixed."""
    if is_parameter:
        return var(info.name)
    dtype, shape = declared_dtype(info), declared_shape(info)
    known = shape is not None and 0 not in shape
    extents = tuple(0 if n is UNKNOWN else int(n) for n in shape) if shape is not None and known else None
    name = None if dtype is None else dtype.full_name
    return var(info.name, shape=extents, dtype=name)


def import_model(model_file: str | os.PathLike[str]) -> tuple[Symbol, Arrays, Arrays]:
    """An ONNX model as a symbol, its parameters and its auxiliary states.

    The symbol has MXNet's operators where they have the meaning of ONNX's, and operators `_onnx_graph`, which real
    MXNet does not have, for the other nodes. A model that computes shapes, or has loops or functions of its own, is one
    such operator. Needs the package onnx. MXNetError names all operators that are not supported.
    """
    imported = import_symbol(model_file)
    return imported.symbol, imported.arguments, imported.auxiliary


def get_model_metadata(model_file: str | os.PathLike[str]) -> dict[str, list[tuple[Any, ...]]]:
    """The names, shapes and element types of a model's inputs, and the names and shapes of its outputs.

    `{"input_tensor_data": [(name, shape, type)], "output_tensor_data": [(name, shape)]}`; as in MXNet, types are the
    numbers of onnx.TensorProto.DataType, and extents that are not fixed are 0.
    """
    model, _ = read_model(model_file)
    inputs = [(i.name, _shape(i), i.type.tensor_type.elem_type) for i in data_inputs(model)]
    outputs = [(o.name, _shape(o)) for o in model.graph.output]
    return {"input_tensor_data": inputs, "output_tensor_data": outputs}


def _shape(info: Any) -> tuple[int, ...]:
    return tuple(d.dim_value for d in info.type.tensor_type.shape.dim)
