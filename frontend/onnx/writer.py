"""Collects the nodes and constants of an ONNX graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ir.graph import Graph, Node, Value
from ...ir.types import DType, TensorType
from ..base import MXNetError
from ..namespace.whole_imports import import_whole

OPSET = 18
"""The version of ONNX's operators that is written: the first with reductions in ScatterND and axes as inputs."""

# onnx.TensorProto.DataType
_ONNX_TYPES = {
    DType.F32: 1,
    DType.U8: 2,
    DType.I8: 3,
    DType.U16: 4,
    DType.I16: 5,
    DType.I32: 6,
    DType.I64: 7,
    DType.BOOL: 9,
    DType.F16: 10,
    DType.F64: 11,
    DType.U32: 12,
    DType.U64: 13,
    DType.BF16: 16,
}


def onnx_type(dtype: DType) -> int:
    """ONNX's number of a dtype."""
    return _ONNX_TYPES[dtype]


def onnx_library() -> Any:
    """The package onnx; ImportError that says what needs it."""
    try:
        return import_whole("onnx")
    except ImportError as error:
        raise ImportError("writing ONNX files needs the package onnx: pip install 'mxforge[convert]'") from error


class Writer:
    """Nodes in order and constants of one ONNX graph; tensors go by name.

    A writer of a nested graph (the body of a loop) sees its parent's tensors and makes names that differ from them.
    """

    def __init__(self, parent: Writer | None = None) -> None:
        self.nodes: list[Any] = []
        self.initializers: dict[str, Any] = {}
        self.names: dict[Value, str] = dict(parent.names) if parent else {}
        self._taken: set[str] = parent._taken if parent else set()
        self._constants: dict[tuple[Any, ...], str] = dict(parent._constants) if parent else {}

    def fresh(self, hint: str) -> str:
        """A name that nobody has: `hint`, or with a number behind it."""
        name, number = hint, 1
        while name in self._taken:
            name, number = f"{hint}_{number}", number + 1
        self._taken.add(name)
        return name

    def op(self, kind: str, *inputs: str, hint: str = "", **attributes: Any) -> str:
        """The one result of a new node of ONNX operator `kind`; an empty name is an input that is left out."""
        return self.ops(kind, inputs, 1, hint, **attributes)[0]

    def ops(self, kind: str, inputs: Sequence[str], count: int, hint: str = "", **attributes: Any) -> list[str]:
        """The results of a new node with several."""
        name = self.fresh(hint or kind.lower())
        outputs = [name, *(self.fresh(f"{name}_{i}") for i in range(1, count))]
        made = onnx_library().helper.make_node(kind, list(inputs), outputs, name=name, **attributes)
        self.nodes.append(made)
        return outputs

    def constant(self, array: Any, dtype: Any = None, hint: str = "constant") -> str:
        """The name of a constant; equal ones share one."""
        array = np.asarray(array, dtype)
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._constants:
            name = self.fresh(hint)
            self.initializers[name] = onnx_library().numpy_helper.from_array(np.asarray(array, order="C"), name)
            self._constants[key] = name
        return self._constants[key]

    def scalar(self, value: float, dtype: DType) -> str:
        """A constant of rank 0."""
        if dtype is DType.BF16:
            return self.cast(self.constant(value, np.float32), dtype)
        return self.constant(value, dtype.numpy)

    def ints(self, values: Sequence[int]) -> str:
        """A list of numbers as ONNX takes shapes and axes: I64."""
        return self.constant(list(values), np.int64, "ints")

    def cast(self, x: str, dtype: DType) -> str:
        return self.op("Cast", x, to=onnx_type(dtype))

    def reshape(self, x: str, shape: Sequence[int]) -> str:
        return self.op("Reshape", x, self.ints(shape), allowzero=1)

    def transpose(self, x: str, permutation: Sequence[int]) -> str:
        if list(permutation) == sorted(permutation):
            return x
        return self.op("Transpose", x, perm=list(permutation))

    def slice(self, x: str, start: Sequence[int], stop: Sequence[int], step: Sequence[int] | None = None) -> str:
        axes = range(len(start))
        return self.op("Slice", x, *map(self.ints, (start, stop, list(axes), step or [1] * len(start))))

    def input(self, value: Value) -> str:
        """The name of a value that has been written."""
        return self.names[value]

    def value_info(self, name: str, type: TensorType) -> Any:
        return onnx_library().helper.make_tensor_value_info(name, onnx_type(type.dtype), list(type.shape))

    def body(self, graph: Graph, extra: Sequence[Any] = ()) -> tuple[Writer, list[Any]]:
        """A writer for a nested graph whose inputs have names, and the descriptions of these, after `extra` ones."""
        inner = Writer(self)
        infos = list(extra)
        for value in graph.inputs:
            inner.names[value] = inner.fresh(value.name or "operand")
            infos.append(inner.value_info(inner.names[value], value.type))
        return inner, infos

    def graph(self, name: str, inputs: Sequence[Any], outputs: Sequence[Any]) -> Any:
        """The ONNX graph of all that was collected."""
        return onnx_library().helper.make_graph(
            self.nodes, name, list(inputs), list(outputs), list(self.initializers.values())
        )


def unsupported(node: Node, why: str) -> MXNetError:
    """The error for a node that ONNX cannot express."""
    return MXNetError(f"{node.describe()} cannot be written as ONNX: {why}")
