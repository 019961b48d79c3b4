"""Tensors of messages as arrays, and arrays as constants of graphs."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....ir.dialects.core.builder import CoreBuilder
from ....ir.graph import Value
from ....ir.symbolic import is_symbolic
from ....ir.types import DType
from ..writer import onnx_library
from .node import Known, Unsupported


def attributes_of(proto: Any) -> dict[str, Any]:
    """The attributes of a node by name."""
    return {a.name: onnx_library().helper.get_attribute_value(a) for a in proto.attribute if not a.ref_attr_name}


def array_of(tensor: Any) -> Known:
    """The elements of a TensorProto; ValueError if their number or type does not fit."""
    library = onnx_library()
    if tensor.data_location == library.TensorProto.EXTERNAL:
        raise Unsupported(f"the data of tensor {tensor.name!r} is outside the file")
    name = library.TensorProto.DataType.Name(tensor.data_type)
    if tensor.data_type == library.TensorProto.STRING:
        raise Unsupported(f"tensor {tensor.name!r} has elements of type string")
    if any(n < 0 for n in tensor.dims):
        raise ValueError(f"tensor {tensor.name!r} has a negative extent")
    try:
        return library.numpy_helper.to_array(tensor)
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"the elements of tensor {tensor.name!r} ({name}) do not fit its shape: {error}") from None


def constant(b: CoreBuilder, array: Known) -> Value:
    """A constant of the graph, whose elements can be symbolic integers."""
    if array.dtype == object:
        numbers = array.ravel().tolist()
        if any(isinstance(n, float) for n in numbers):
            raise Unsupported("numbers that depend on unknown extents must be integers")
        if any(map(is_symbolic, numbers)):
            return b.reshape(b.integers(numbers), array.shape)
        array = array.astype(np.int64)
    if array.dtype.name == "bfloat16":
        return b.constant(array.astype(np.float32), DType.BF16)
    try:
        dtype = DType.from_numpy(array.dtype)
    except TypeError:
        raise Unsupported(f"the element type {array.dtype} is not supported") from None
    if array.size > 1 and not any(array.strides):  # one number, repeated
        return b.full(array.shape, array.ravel()[0], dtype)
    return b.constant(np.ascontiguousarray(array).reshape(array.shape), dtype)
