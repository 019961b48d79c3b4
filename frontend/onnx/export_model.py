"""Exports a symbol with its parameters as an ONNX model."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
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
from ..base import MXNetError
from ..dtypes import from_memory
from ..ndarray import NDArray, load
from ..symbol import Symbol
from ..symbol import load as load_symbol
from ..symbol.to_graph import symbol_to_graph
from . import operator_rules
from .core_rules import write_inline
from .exported import ExportedModel
from .unknown_extents import Axis, Group, find_unknown
from .writer import OPSET, Writer, onnx_library

_PREFIXES = ("arg:", "aux:")
_SUFFIXES = {"_state_output": "1", "_statecell_output": "2", "_output": ""}
"""Suffixes of the names of outputs, and what MXNet writes in their place."""

_NULL = "null"
"""The name of variables in a symbol's file, which MXNet's list of operators has."""


def export_model(
    sym: Symbol | str,
    params: Mapping[str, Any] | Sequence[Mapping[str, Any]] | str,
    in_shapes: Sequence[Sequence[int]] | None = None,
    in_types: Any = np.float32,
    onnx_file_path: str = "model.onnx",
    verbose: bool = False,
    dynamic: bool = False,
    dynamic_input_shapes: Sequence[Sequence[int | str | None]] | None = None,
    run_shape_inference: bool = False,
    input_type: Any = None,
    input_shape: Any = None,
) -> str:
    """Write a model to an ONNX file. Returns the file's path.

    `sym` and `params` are a symbol and arrays by name, or the paths of their files. Names can have the prefixes `arg:`
    and `aux:`, and `params` can be one mapping or a sequence of mappings. `in_shapes` and `in_types` are the shapes and
    dtypes of the inputs in the order of `list_inputs`. Labels can be omitted, and one dtype can apply to all inputs.

    With `dynamic` the file serves many shapes: `dynamic_input_shapes` are the shapes of the inputs, in which an extent
    that varies is None, or a name for extents that are always equal. Without them all extents vary. An extent that the
    model requires, such as a number of channels, stays as in `in_shapes`, with a warning if it is None or a name.

    With `run_shape_inference` the file has the shapes of all tensors. A file of more than 2 GiB has its weights in
    another file beside it. Raises MXNetError for a node that ONNX cannot express.
    """
    in_shapes = input_shape if input_shape is not None else in_shapes
    in_types = input_type if input_type is not None else in_types
    symbol = load_symbol(sym) if isinstance(sym, str) else sym
    arrays = _parameters(load(params) if isinstance(params, str) else params)
    data = [name for name in symbol.list_inputs() if name not in arrays]
    types = _data_types(symbol, data, in_shapes, in_types, arrays)
    varying = _varying(types, in_shapes, dynamic, dynamic_input_shapes)
    model = export_symbol(symbol, arrays, types, varying, _ignore if dynamic_input_shapes is None else _warn)
    model = model.with_shapes() if run_shape_inference else model
    if verbose:
        print(onnx_library().printer.to_text(model.skeleton))
    model.write(onnx_file_path)
    return os.fspath(onnx_file_path)


def _parameters(params: Any) -> dict[str, np.ndarray]:
    """The parameters as NumPy arrays, by name without prefix."""
    merged = params if isinstance(params, Mapping) else {k: v for part in params for k, v in part.items()}
    plain = {name[4:] if name.startswith(_PREFIXES) else name: array for name, array in merged.items()}
    return {name: elements(a) if isinstance(a, NDArray) else np.asarray(a) for name, a in plain.items()}


def elements(array: NDArray) -> np.ndarray:
    """The elements of an array, which is not copied if it is dense and on the host; bfloat16 as float32."""
    return from_memory(array._memory(), array._dtype) if array.stype == "default" else array.asnumpy()


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


def _varying(
    types: Mapping[str, TensorType], in_shapes: Any, dynamic: bool, shapes: Sequence[Sequence[int | str | None]] | None
) -> list[Group]:
    """The axes whose extents shall vary, those with one name together."""
    if not dynamic:
        if shapes is not None:
            raise MXNetError("export_model: dynamic_input_shapes is specified: set dynamic=True")
        return []
    names = list(types) if len(in_shapes) == len(types) else [n for n in types if not n.endswith("label")]
    asked = [(None,) * types[n].rank for n in names] if shapes is None else [tuple(shape) for shape in shapes]
    if len(asked) != len(names):
        raise MXNetError(f"export_model: dynamic_input_shapes has {len(asked)} shapes for the inputs {names}")
    named: dict[str, Group] = {}
    for number, (name, shape) in enumerate(zip(names, asked, strict=True)):
        known = types[name].shape
        if len(shape) != len(known) or any(isinstance(w, int) and w != n for w, n in zip(shape, known, strict=True)):
            raise MXNetError(f"export_model: {shape} in dynamic_input_shapes is not the shape {known} of {name!r}")
        for axis, (extent, n) in enumerate(zip(shape, known, strict=True)):
            if not isinstance(extent, int):
                key = extent or f"\0{number} {axis}"
                named[key] = _with_axis(named.get(key), (name, axis), n, extent or "")
    return list(named.values())


def _with_axis(group: Group | None, axis: Axis, extent: int, name: str) -> Group:
    """A group with a further axis."""
    if group is not None and group.extent != extent:
        raise MXNetError(f"export_model: the extents {name!r} differ: {group.extent} and {extent}")
    return Group((*(group.axes if group else ()), axis), extent, name)


def export_symbol(
    symbol: Symbol,
    arrays: Mapping[str, np.ndarray],
    types: Mapping[str, TensorType],
    varying: Sequence[Group] = (),
    required: Callable[[str], None] | None = None,
) -> ExportedModel:
    """The ONNX model of a symbol with the parameters `arrays` and other inputs of these types.

    The extents of the groups `varying` are unknown. For one that the model requires, `required` is called with a
    sentence that names it.
    """
    used = {name: arrays[name] for name in symbol.list_inputs() if name in arrays}
    parameter_types = {name: TensorType(a.shape, DType.from_numpy(a.dtype)) for name, a in used.items()}
    graph = symbol_to_graph(symbol, {**parameter_types, **types}, used)
    extents: dict[str, str] = {}
    if varying:
        unknown = find_unknown(graph, varying, _written)
        graph, extents = unknown.graph(graph)
        for (name, axis), reason in unknown.refused.items():
            (required or _ignore)(f"axis {axis} of {name!r} is always {types[name].shape[axis]}: {reason}")
    return _model(_written(graph, extents), graph, symbol.list_outputs(), used)


def _ignore(reason: str) -> None:
    """Without named extents all vary that can."""


def _warn(reason: str) -> None:
    warnings.warn(f"export_model: {reason}", stacklevel=4)


def _written(graph: Graph, extents: Mapping[str, str] | None = None) -> Writer:
    """A writer with the nodes of a graph; `extents` are the names of symbolic extents."""
    w = Writer()
    w.extents.update(extents or {})
    for value in graph.inputs:
        w.names[value] = w.fresh(value.name)
        w.name_sizes(value)
    for node in graph.nodes:
        _write_operator(w, node)
    return w


def _model(w: Writer, graph: Graph, names: list[str], parameters: Mapping[str, np.ndarray]) -> ExportedModel:
    """The model of the written nodes. Outputs have the names that MXNet's export gives them, and unused inputs are
    omitted."""
    helper = onnx_library().helper
    computed = {name for node in w.nodes for name in node.output}
    outputs: list[str] = []
    for value, name in zip(graph.outputs, map(_output_name, names), strict=True):
        written = w.input(value)
        is_named = written == name and written in computed and written not in outputs
        is_inner = name not in outputs and (name in computed or name in w.initializers)
        if is_inner and not is_named:
            w.rename(name)
        outputs.append(written if is_named else w.op("Identity", w.input(value), hint=name))
    read = _names_read(w.nodes)
    w.initializers = {name: tensor for name, tensor in w.initializers.items() if name in read}
    infos = [w.value_info(w.names[v], v.type) for v in graph.inputs if v.name not in parameters and w.names[v] in read]
    weights = {w.names[v]: parameters[v.name] for v in graph.inputs if v.name in parameters and w.names[v] in read}
    results = [w.value_info(name, v.type) for name, v in zip(outputs, graph.outputs, strict=True)]
    # ir_version 8 is the oldest file format with these operators: older readers can read it
    opset = helper.make_opsetid("", OPSET)
    message = w.graph(graph.name or "model", infos, results)
    skeleton = helper.make_model(message, opset_imports=[opset], ir_version=8, producer_name="mxforge")
    return ExportedModel(skeleton, weights)


def _output_name(name: str) -> str:
    """The name of an output of a symbol in an ONNX file."""
    numbered = re.fullmatch(r"(.*)_output([0-9])", name, re.DOTALL)
    if numbered:
        return numbered[1] + numbered[2]
    for suffix, replaced in _SUFFIXES.items():
        if name.endswith(suffix):
            return name.removesuffix(suffix) + replaced
    return name


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


def get_operator_support(opset_version: int | None = None) -> list[str]:
    """The names of all operators, and `null`, that of variables.

    Some cannot be exported with some parameters: `export_model` raises an error that names them. An `opset_version`
    other than the supported one raises MXNetError.
    """
    if opset_version not in (None, OPSET):
        raise MXNetError(f"get_operator_support: files are written in opset {OPSET}, not {opset_version}")
    return sorted({_NULL, *(name for op in all_operators() for name in (op.mx_name(), *op.aliases))})
