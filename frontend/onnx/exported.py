"""Writes ONNX models to files: the message is built without the weights, whose bytes are never copied."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from ...ir.lazy_dataclass import dataclass
from ..artifacts import write_atomically
from .writer import onnx_library

_LARGEST_FILE = 2**31 - 1
"""The largest message that readers of Protocol Buffers accept, in bytes."""

_ALIGNMENT = 4096
"""Weights in another file start at multiples of this, so that readers can map them into memory."""

# Fields of length-delimited content: the number of the field times 8, plus 2.
_MODEL_GRAPH = bytes((7 << 3 | 2,))
_GRAPH_INITIALIZER = bytes((5 << 3 | 2,))
_TENSOR_RAW_DATA = bytes((9 << 3 | 2,))


@dataclass(frozen=True, eq=False)
class ExportedModel:
    """An ONNX model: `skeleton` is the onnx.ModelProto without the initializers `weights`."""

    skeleton: Any
    weights: Mapping[str, np.ndarray]

    def proto(self) -> Any:
        """The whole model as one onnx.ModelProto."""
        library = onnx_library()
        return library.ModelProto.FromString(b"".join(self._chunks()))

    def with_shapes(self) -> ExportedModel:
        """The model with the types of all tensors that ONNX infers."""
        library = onnx_library()
        inferred = library.shape_inference.infer_shapes(self._complete())
        skeleton = library.ModelProto()
        skeleton.CopyFrom(self.skeleton)
        skeleton.graph.value_info.extend(inferred.graph.value_info)
        return ExportedModel(skeleton, self.weights)

    def check(self) -> None:
        """Check the model by the rules of ONNX, with inputs in place of the weights, whose elements are not read."""
        onnx_library().checker.check_model(self._complete())

    def _complete(self) -> Any:
        """A model whose weights are inputs."""
        library = onnx_library()
        model = library.ModelProto()
        model.CopyFrom(self.skeleton)
        info = library.helper.make_tensor_value_info
        model.graph.input.extend(info(n, _element_type(a), list(a.shape)) for n, a in self.weights.items())
        return model

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the model atomically.

        If it exceeds 2 GiB, the limit of a message, the weights go into another file in the same folder, which is
        written first. Its name, `NAME.DIGEST.data`, has a digest of its content, so the model at `path` always reads
        the weights that it was written with. The one of an older model at `path` is removed afterwards.
        """
        self.check()
        target = Path(os.path.realpath(path))
        kept = ""
        if self.nbytes() <= _LARGEST_FILE:
            write_atomically(path, self._chunks())
        else:
            kept = f"{target.name}.{self._digest()}.data"
            write_atomically(target.with_name(kept), self._data())
            write_atomically(path, self._external(kept).SerializeToString())
        _remove_others(target, kept)

    def nbytes(self) -> int:
        """The size of the model as one message, in bytes."""
        return sum(len(chunk) for chunk in self._chunks())

    def _chunks(self) -> Iterator[bytes | memoryview]:
        """The message in parts. A field of a message can be anywhere in it, so the weights are its last ones."""
        head = onnx_library().ModelProto()
        head.CopyFrom(self.skeleton)
        head.ClearField("graph")
        graph = self.skeleton.graph.SerializeToString()
        tensors = [(_head(name, array).SerializeToString(), array) for name, array in self.weights.items()]
        sizes = [len(start) + 1 + len(_varint(a.nbytes)) + a.nbytes for start, a in tensors]
        size = len(graph) + sum(1 + len(_varint(n)) + n for n in sizes)
        yield head.SerializeToString()
        yield _MODEL_GRAPH + _varint(size)
        yield graph
        for (start, array), n in zip(tensors, sizes, strict=True):
            yield b"".join((_GRAPH_INITIALIZER, _varint(n), start, _TENSOR_RAW_DATA, _varint(array.nbytes)))
            yield _bytes(array)

    def _places(self) -> Iterator[tuple[str, np.ndarray, int]]:
        """Each weight and its offset in the file of weights."""
        offset = 0
        for name, array in self.weights.items():
            yield name, array, offset
            offset += array.nbytes + -array.nbytes % _ALIGNMENT

    def _data(self) -> Iterator[bytes | memoryview]:
        for array in self.weights.values():
            yield _bytes(array)
            yield bytes(-array.nbytes % _ALIGNMENT)

    def _digest(self) -> str:
        digest = hashlib.blake2b(digest_size=8)
        for chunk in self._data():
            digest.update(chunk)
        return digest.hexdigest()

    def _external(self, location: str) -> Any:
        """The model whose weights are in another file."""
        library = onnx_library()
        model = library.ModelProto()
        model.CopyFrom(self.skeleton)
        for name, array, offset in self._places():
            tensor = _head(name, array)
            tensor.data_location = library.TensorProto.EXTERNAL
            for key, value in (("location", location), ("offset", offset), ("length", array.nbytes)):
                tensor.external_data.add(key=key, value=str(value))
            model.graph.initializer.append(tensor)
        return model


def _element_type(array: np.ndarray) -> int:
    return onnx_library().helper.np_dtype_to_tensor_dtype(array.dtype)


def _head(name: str, array: np.ndarray) -> Any:
    """A TensorProto without elements."""
    return onnx_library().TensorProto(dims=array.shape, data_type=_element_type(array), name=name)


def _bytes(array: np.ndarray) -> memoryview:
    """The elements, little-endian and row-major."""
    flat = np.asarray(array, array.dtype.newbyteorder("<"), order="C").reshape(-1)
    return flat.view(np.uint8).data


def _varint(number: int) -> bytes:
    """A number of Protocol Buffers: 7 bits in each byte, the lowest first."""
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def _remove_others(model: Path, kept: str) -> None:
    """Remove files of weights that belong to models which were at this path before."""
    pattern = re.compile(re.escape(model.name) + r"\.[0-9a-f]{16}\.data")
    with suppress(OSError):  # the model is written; a file that stays does no harm
        for name in os.listdir(model.parent):
            if name != kept and pattern.fullmatch(name):
                (model.parent / name).unlink()
