"""Imports ONNX models; `export_model` is that of `mxforge.onnx`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ...gluon import SymbolBlock
    from ...ndarray import NDArray
    from ...symbol import Symbol

__all__ = ["export_model", "get_model_metadata", "import_model", "import_to_gluon"]


def export_model(*args: Any, **kwargs: Any) -> str:
    """As `mxforge.onnx.export_model`."""
    from ...onnx import export_model

    return export_model(*args, **kwargs)


def import_model(model_file: str) -> tuple[Symbol, dict[str, NDArray], dict[str, NDArray]]:
    """An ONNX model as a symbol, its parameters and its auxiliary states.

    The symbol has MXNet's operators where they have the meaning of ONNX's, and operators `_onnx_graph`, which real
    MXNet does not have, for the other nodes. A model that computes shapes, or has loops or functions of its own, is one
    such operator. Needs the package onnx. MXNetError names all operators that are not supported.
    """
    from ...onnx.import_model import import_model

    return import_model(model_file)


def get_model_metadata(model_file: str) -> dict[str, list[tuple[Any, ...]]]:
    """The names, shapes and element types of a model's inputs, and the names and shapes of its outputs.

    `{"input_tensor_data": [(name, shape, type)], "output_tensor_data": [(name, shape)]}`; as in MXNet, types are the
    numbers of onnx.TensorProto.DataType, and extents that are not fixed are 0.
    """
    from ...onnx.import_model import get_model_metadata

    return get_model_metadata(model_file)


def import_to_gluon(model_file: str, ctx: Any) -> SymbolBlock:
    """An ONNX model as a block with its parameters on `ctx`: it can be called, hybridized and trained."""
    from ...gluon import SymbolBlock
    from ...onnx.import_model import import_symbol
    from ...symbol import var

    symbol, arguments, auxiliary, data = import_symbol(model_file)
    block = SymbolBlock(symbol, [var(name) for name in data])
    parameters = block.collect_params()
    for name, value in {**arguments, **auxiliary}.items():
        if name in parameters:
            parameters[name].shape = value.shape
            parameters[name].dtype = value.dtype
            parameters[name]._load_init(value, ctx=ctx)
    return block
