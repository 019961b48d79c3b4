"""Exports a symbol with its parameters as an ONNX model."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ...ir.dialects.core import Pointwise
from ...ir.dialects.mx.operator import Operator, all_operators
from ...ir.graph import Graph, GraphBuilder, Node
from ...ir.target import REFERENCE
from ...ir.types import DType, TensorType
from ...passes.expand import Expand
from ...passes.manager import Context, Options, run_passes
from ...passes.pipeline import FOR_REFERENCE
from ..artifacts import write_atomically
from ..base import MXNetError
from ..ndarray import NDArray, load
from ..symbol import Symbol
from ..symbol import load as load_symbol
from ..symbol.to_graph import symbol_to_graph
from . import operator_rules
from .core_rules import write_inline
from .writer import OPSET, Writer, onnx_library

_LARGEST_FILE = 2**31 - 1  # limit of Protocol Buffers
_PREFIXES = ("arg:", "aux:")


def export_model(
    sym: Symbol | str,
    params: Mapping[str, Any] | Sequence[Mapping[str, Any]] | str,
    in_shapes: Sequence[Sequence[int]] | None = None,
    in_types: Any = np.float32,
    onnx_file_path: str = "model.onnx",
    verbose: bool = False,
    dynamic: bool = False,
    dynamic_input_shapes: Any = None,
    run_shape_inference: bool = False,
    input_type: Any = None,
    input_shape: Any = None,
) -> str:
    """Write a model to an ONNX file. Returns the file's path.

    `sym` and `params` are a symbol and arrays by name, or the paths of their files. Names can have the prefixes `arg:`
    and `aux:`, and `params` can be one mapping or a sequence of mappings. `in_shapes` and `in_types` are the shapes and
    dtypes of the inputs in the order of `list_inputs`. Labels can be omitted, and one dtype can apply to all inputs.
    Raises MXNetError for a node that ONNX cannot express, and for `dynamic` shapes, which are not supported.
    """
    if dynamic or dynamic_input_shapes is not None:
        raise MXNetError("export_model: dynamic shapes are not supported: write a file for each shape")
    in_shapes = input_shape if input_shape is not None else in_shapes
    in_types = input_type if input_type is not None else in_types
    symbol = load_symbol(sym) if isinstance(sym, str) else sym
    arrays = _parameters(load(params) if isinstance(params, str) else params)
    data = [name for name in symbol.list_inputs() if name not in arrays]
    types = _data_types(symbol, data, in_shapes, in_types, arrays)
    model = export_symbol(symbol, arrays, types)
    if verbose:
        print(onnx_library().printer.to_text(model))
    write_model(model, onnx_file_path)
    return os.fspath(onnx_file_path)


def _parameters(params: Any) -> dict[str, np.ndarray]:
    """The parameters as NumPy arrays, by name without prefix."""
    merged = params if isinstance(params, Mapping) else {k: v for part in params for k, v in part.items()}
    plain = {name[4:] if name.startswith(_PREFIXES) else name: array for name, array in merged.items()}
    return {name: a.asnumpy() if isinstance(a, NDArray) else np.asarray(a) for name, a in plain.items()}


def _data_types(
    symbol: Symbol, data: list[str], shapes: Any, dtypes: Any, arrays: Mapping[str, np.ndarray]
) -> dict[str, TensorType]:
    """The types of the inputs that are not parameters. The types of omitted labels are inferred: float32."""
    if shapes is None:
        raise MXNetError(f"export_model: in_shapes is missing: pass the shapes of {data}")
    if len(shapes) not in (len(data), len(data) - sum(name.endswith("label") for name in data)):
        raise MXNetError(f"export_model: in_shapes has {len(shapes)} shapes for the inputs {data}")
    names = data if len(shapes) == len(data) else [name for name in data if not name.endswith("label")]
    kinds = list(dtypes) if isinstance(dtypes, list | tuple) else [dtypes] * len(names)
    types = {
        name: TensorType(tuple(shape), DType.from_numpy(dtype))
        for name, shape, dtype in zip(names, shapes, kinds, strict=True)
    }
    known = {name: t.shape for name, t in types.items()} | {name: a.shape for name, a in arrays.items()}
    inferred = dict(zip(symbol.list_arguments(), symbol.infer_shape(**known)[0] or (), strict=False))
    return {name: types.get(name) or TensorType(tuple(inferred[name]), DType.F32) for name in data}


def export_symbol(symbol: Symbol, arrays: Mapping[str, np.ndarray], types: Mapping[str, TensorType]) -> Any:
    """The ONNX model of a symbol with the parameters `arrays` and other inputs of these types."""
    used = {name: arrays[name] for name in symbol.list_inputs() if name in arrays}
    parameter_types = {name: TensorType(a.shape, DType.from_numpy(a.dtype)) for name, a in used.items()}
    graph = symbol_to_graph(symbol, {**parameter_types, **types}, used)
    w = Writer()
    for value in graph.inputs:
        w.names[value] = w.fresh(value.name)
    for node in graph.nodes:
        _write_operator(w, node)
    return _model(w, graph, symbol.list_outputs(), used)


def _model(w: Writer, graph: Graph, names: list[str], parameters: Mapping[str, np.ndarray]) -> Any:
    """The model of the written nodes. Outputs have MXNet's names, and unused inputs are omitted."""
    onnx = onnx_library()
    outputs = [w.op("Identity", w.input(value), hint=name) for value, name in zip(graph.outputs, names, strict=True)]
    read = _names_read(w.nodes)
    w.initializers = {name: tensor for name, tensor in w.initializers.items() if name in read}
    infos = [w.value_info(w.names[v], v.type) for v in graph.inputs if v.name not in parameters and w.names[v] in read]
    for value in graph.inputs:
        name = w.names[value]
        if value.name in parameters and name in read:
            w.initializers[name] = onnx.numpy_helper.from_array(np.asarray(parameters[value.name], order="C"), name)
    results = [w.value_info(name, v.type) for name, v in zip(outputs, graph.outputs, strict=True)]
    opset = onnx.helper.make_opsetid("", OPSET)
    # ir_version 8 is the oldest file format with these operators: older readers can read it
    return onnx.helper.make_model(
        w.graph(graph.name or "model", infos, results), opset_imports=[opset], ir_version=8, producer_name="mxforge"
    )


def _names_read(nodes: Iterable[Any]) -> set[str]:
    """The names of all tensors that nodes read, including nodes of nested graphs."""
    read: set[str] = set()
    for node in nodes:
        read.update(node.input)
        for attribute in node.attribute:
            read |= _names_read(attribute.g.node)
            read.update(output.name for output in attribute.g.output)
    return read


def _write_operator(w: Writer, node: Node) -> None:
    """Write a node of mx with its rule, or lowered to primitives."""
    assert isinstance(node.op, Operator)
    rule = operator_rules.RULES.get(node.op.mx_name())
    results = rule(w, node, node.op) if rule is not None else None
    if results is None:
        results = write_inline(w, _primitives(node), [w.input(v) for v in node.inputs])
    w.names.update(zip(node.outputs, [results] if isinstance(results, str) else results, strict=False))


def _primitives(node: Node) -> Graph:
    """The node lowered to core, for inference. Raises MXNetError if it draws random numbers."""
    builder = GraphBuilder(node.name)
    operands = [builder.input(v.type) for v in node.inputs]
    copy = builder.node(node.op, *operands, name=node.name, location=node.location)
    passes = (*FOR_REFERENCE, Expand(Pointwise))
    graph = run_passes(passes, builder.build(copy.outputs), Context(REFERENCE, Options()))
    if len(graph.inputs) > len(operands):
        raise MXNetError(f"{node.describe()} cannot be written as ONNX: it draws random numbers")
    return graph


def write_model(model: Any, path: str | os.PathLike[str]) -> None:
    """Check an ONNX model and write it atomically. Raises MXNetError if it is too large for one file."""
    if model.ByteSize() > _LARGEST_FILE:
        raise MXNetError(f"the ONNX model has {model.ByteSize()} bytes; the limit of a file is {_LARGEST_FILE}")
    onnx_library().checker.check_model(model)
    write_atomically(path, model.SerializeToString())


def get_operator_support(opset_version: int | None = None) -> list[str]:
    """The names of all operators.

    Some cannot be exported with some parameters: `export_model` raises an error that names them. An `opset_version`
    other than the supported one raises MXNetError.
    """
    if opset_version not in (None, OPSET):
        raise MXNetError(f"get_operator_support: files are written in opset {OPSET}, not {opset_version}")
    return sorted(op.mx_name() for op in all_operators())
