"""The operator `_onnx_graph`: a graph of ONNX as one node of a symbol. Real MXNet cannot load symbols that have it."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from ...ir.dialects.mx.builder import MxBuilder
from ...ir.dialects.mx.operator import Operator, Results, operator
from ...ir.dialects.mx.parameters import Text
from ...ir.dialects.mx.shapes import UNKNOWN, PartialShape, unify_at
from ...ir.graph import Value
from ...ir.types import DType
from .reader.graph import read_graph
from .reader.node import Unsupported, dtype_of
from .writer import onnx_library

NAME = "_onnx_graph"


def text_of(model: Any) -> str:
    """A model as text, which is the parameter of the operator."""
    return base64.b64encode(model.SerializeToString(deterministic=True)).decode()


@lru_cache(maxsize=64)
def _model_of(text: str) -> Any:
    """The model of a text; ValueError if it holds none."""
    library = onnx_library()
    try:
        return library.ModelProto.FromString(base64.b64decode(text, validate=True))
    except (binascii.Error, UnicodeError) as error:
        raise ValueError(f"{NAME}: model: {error}") from None
    except Exception as error:  # of the package protobuf, whose implementations raise different classes
        raise ValueError(f"{NAME}: model: not an ONNX model ({error})") from None


@operator(NAME, listed=False)
class OnnxGraph(Operator):
    """The results of an ONNX graph.

    Args:
        data: The inputs of the graph, and the parameters, in the order of the graph's inputs.
        model: The onnx.ModelProto, without the parameters, in base64.
    """

    inputs = ("data*",)
    variadic = ""
    model: Text

    def check(self) -> None:
        _model_of(self.model)

    @property
    def _graph(self) -> Any:
        return _model_of(self.model).graph

    def input_names(self, passed: int | None = None) -> tuple[str, ...]:
        return tuple(i.name for i in self._graph.input)

    def output_names(self) -> tuple[str, ...]:
        return tuple(o.name for o in self._graph.output)

    def complete(self, inputs: list[PartialShape], outputs: list[PartialShape]) -> None:
        for i, info in enumerate(self._graph.input):
            unify_at(inputs, i, declared_shape(info))

    def complete_dtypes(self, inputs: list[DType | None], outputs: list[DType | None]) -> None:
        """The dtypes that the file declares; floats can be narrower or wider."""
        for i, info in enumerate(self._graph.input):
            inputs[i] = inputs[i] or declared_dtype(info)

    def output_dtypes(self, inputs: Sequence[DType]) -> Sequence[DType | None]:
        return [None] * self.num_outputs

    def fixed_dtypes(self) -> Sequence[DType | None]:
        return [None] * self.num_outputs

    def decompose(self, b: MxBuilder, *inputs: Value) -> Results:
        try:
            results = read_graph(b, _model_of(self.model), dict(zip(self.input_names(), inputs, strict=True)), {})
        except Unsupported as error:
            raise ValueError(str(error)) from None
        return tuple(results)


def declared_shape(info: Any) -> PartialShape:
    """The shape of a ValueInfoProto, whose named extents are unknown; None if it has none."""
    if not info.type.tensor_type.HasField("shape"):
        return None
    dims = info.type.tensor_type.shape.dim
    return tuple(d.dim_value if d.HasField("dim_value") and d.dim_value >= 0 else UNKNOWN for d in dims)


def declared_dtype(info: Any) -> DType | None:
    """The dtype of a ValueInfoProto, None without a type; ValueError for what is no tensor of a supported dtype."""
    if not info.HasField("type"):
        return None
    if not info.type.HasField("tensor_type"):
        raise ValueError(f"{info.name!r} is not a tensor")
    try:
        return dtype_of(info.type.tensor_type.elem_type)
    except Unsupported as error:
        raise ValueError(f"{info.name!r}: {error}") from None
