"""Reads the files of ONNX models: the message, and the data of tensors in other files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..base import MXNetError
from .writer import onnx_library

_LARGEST_NESTING = 64
_LARGE = 1 << 20
"""Initializers in other files with at least as many bytes are not copied into the message."""


class OnnxError(MXNetError):
    """A file holds no ONNX model that can be read."""


class Place(NamedTuple):
    """Where the elements of a tensor are: `length` bytes of a file, from `offset`."""

    file: Path
    offset: int
    length: int

    def read(self, dtype: np.dtype[Any], shape: Sequence[int]) -> np.ndarray:
        """The elements."""
        return np.fromfile(self.file, np.uint8, self.length, offset=self.offset).view(dtype).reshape(shape)


Places = dict[str, Place]


def read_model(path: str | os.PathLike[str]) -> tuple[Any, Places]:
    """The onnx.ModelProto of a file, and where the large initializers are that are in other files; other tensors have
    their data.

    These files must be in the model's folder. OnnxError if the file is damaged, or if a tensor's data is elsewhere or
    has another size than its shape.
    """
    library, file = onnx_library(), Path(path)
    try:
        model = library.ModelProto.FromString(file.read_bytes())
    except OSError as error:
        raise OnnxError(f"{file}: {error.strerror or error}") from None
    except Exception as error:  # of the package protobuf, whose implementations raise different classes
        raise OnnxError(f"{file}: not an ONNX model ({type(error).__name__}: {error})") from None
    if not model.graph.node and not model.graph.output:
        raise OnnxError(f"{file}: not an ONNX model: it has no graph")
    _check_texts(model, file)
    places: Places = {}
    initializers = len(model.graph.initializer)  # which are the first tensors
    for number, tensor in enumerate(_tensors(model)):
        if tensor.data_location == library.TensorProto.EXTERNAL:
            place = _place(tensor, file)
            if place.length >= _LARGE and number < initializers:
                places[tensor.name] = place
            else:
                read_data(tensor, place)
        elif data := tensor.raw_data:  # each access copies it
            _check_size(tensor, len(data), file)
    return model, places


def _check_texts(model: Any, file: Path) -> None:
    """OnnxError for names that are not UTF-8, which the package protobuf returns as bytes."""
    graphs = [model.graph]
    nodes = [node for function in model.functions for node in function.node]
    texts = [o.domain for o in model.opset_import]
    while graphs or nodes:
        if graphs:
            graph = graphs.pop()
            nodes.extend(graph.node)
            texts += [named.name for field in (graph.input, graph.output, graph.initializer) for named in field]
        if nodes:
            node = nodes.pop()
            texts += [node.op_type, node.name, node.domain, *node.input, *node.output]
            texts += [a.name for a in node.attribute]
            graphs.extend(a.g for a in node.attribute if a.HasField("g"))
    if not all(isinstance(text, str) for text in texts):
        raise OnnxError(f"{file}: not an ONNX model: a name is not UTF-8")


def _tensors(model: Any) -> Iterator[Any]:
    """All tensors of a model."""
    yield from _of_graph(model.graph, 0)
    for function in model.functions:
        yield from _of_nodes(function.node, 0)


def _of_graph(graph: Any, depth: int) -> Iterator[Any]:
    if depth > _LARGEST_NESTING:
        raise OnnxError("graphs are nested too deeply")
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        raise OnnxError(f"the initializer {sparse.values.name!r} is sparse: only dense ones are supported")
    yield from _of_nodes(graph.node, depth)


def _of_nodes(nodes: Sequence[Any], depth: int) -> Iterator[Any]:
    for node in nodes:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
            for graph in [attribute.g] if attribute.HasField("g") else attribute.graphs:
                yield from _of_graph(graph, depth + 1)


def _place(tensor: Any, model: Path) -> Place:
    """Where the data of a tensor is, which must be in another file of the model's folder."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    what = f"{model}: the data of tensor {tensor.name!r}"
    location = entries.get("location", "")
    folder = model.resolve().parent
    file = (folder / location).resolve()
    if not location or os.path.isabs(location) or not file.is_relative_to(folder):
        raise OnnxError(f"{what} is in {location!r}, which is outside the model's folder")
    try:
        size = file.stat().st_size if file.is_file() else -1
        offset = int(entries.get("offset", 0))
        length = int(entries.get("length", size - offset))
    except ValueError:
        raise OnnxError(f"{what} has no valid place: {entries}") from None
    if size < 0:
        raise OnnxError(f"{what} is missing: {file.name} is no file in the model's folder")
    if offset < 0 or length < 0 or offset + length > size:
        raise OnnxError(f"{what} is bytes {offset} to {offset + length} of {file.name}, which has {size}")
    _check_size(tensor, length, model)
    return Place(file, offset, length)


def read_data(tensor: Any, place: Place) -> None:
    """Put the data of a tensor into the message."""
    tensor.raw_data = place.read(np.dtype(np.uint8), (-1,)).tobytes()
    del tensor.external_data[:]
    tensor.data_location = onnx_library().TensorProto.DEFAULT


def _check_size(tensor: Any, size: int, model: Path) -> None:
    """OnnxError unless a tensor's data has the size of its shape."""
    library = onnx_library()
    try:
        dtype = library.helper.tensor_dtype_to_np_dtype(tensor.data_type)
    except (KeyError, TypeError, ValueError):
        raise OnnxError(f"{model}: tensor {tensor.name!r} has the unknown element type {tensor.data_type}") from None
    elements = prod(tensor.dims)
    packed = getattr(library.TensorProto, "INT4", -1), getattr(library.TensorProto, "UINT4", -1)
    if any(n < 0 for n in tensor.dims) or (
        size != elements * dtype.itemsize and tensor.data_type not in packed and dtype.itemsize > 1
    ):
        shape = tuple(tensor.dims)
        raise OnnxError(f"{model}: tensor {tensor.name!r} has {size} bytes, not those of {shape} {dtype.name}")
