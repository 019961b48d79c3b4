"""Builds the nodes and constants of an ONNX graph."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache, reduce
from itertools import groupby
from typing import Any

import numpy as np

from ...ir.graph import Graph, Node, Value
from ...ir.symbolic import Symbol, is_symbolic
from ...ir.types import DType, TensorType
from ..base import MXNetError
from ..namespace.atomic_imports import import_atomically

OPSET = 18
"""The operator set of written files: the first one with reductions in ScatterND and with axes as inputs."""

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
    """The value of a dtype in onnx.TensorProto.DataType."""
    return _ONNX_TYPES[dtype]


@cache
def onnx_library() -> Any:
    """The package onnx. If it is missing, raises ImportError with an instruction to install it."""
    try:
        return import_atomically("onnx")
    except ImportError as error:
        raise ImportError("writing ONNX files requires the package onnx: pip install 'mxforge[convert]'") from error


class Writer:
    """The ordered nodes and the constants of one ONNX graph. Tensors are identified by name.

    The writer of a nested graph (the body of a loop) can read its parent's tensors, and its names differ from theirs.
    Extents can be symbolic numbers (`ir/symbolic.py`), which nodes compute; `extents` are the names of unknown ones.
    """

    def __init__(self, parent: Writer | None = None) -> None:
        self.nodes: list[Any] = []
        self.initializers: dict[str, Any] = {}
        self.names: dict[Value, str] = dict(parent.names) if parent else {}
        self._taken: set[str] = parent._taken if parent else set()
        self._constants: dict[tuple[Any, ...], str] = dict(parent._constants) if parent else {}
        self._sizes: dict[str, str] = dict(parent._sizes) if parent else {}
        self._measured: dict[str, tuple[str, int]] = parent._measured if parent else {}
        self.extents: dict[str, str] = parent.extents if parent else {}

    def fresh(self, hint: str) -> str:
        """An unused name: `hint`, or `hint` with a number appended."""
        name, number = hint, 1
        while name in self._taken:
            name, number = f"{hint}_{number}", number + 1
        self._taken.add(name)
        return name

    def rename(self, name: str) -> None:
        """Give another name to a constant or a result of a node, so that this one is free."""
        new = self.fresh(name)
        if name in self.initializers:
            self.initializers[new] = self.initializers.pop(name)
            self.initializers[new].name = new
        for node in _with_nested(self.nodes):
            node.name = new if node.name == name else node.name
            for names in (node.input, node.output):
                names[:] = [new if n == name else n for n in names]
            for attribute in node.attribute:
                for output in attribute.g.output:
                    output.name = new if output.name == name else output.name
        self.names = {value: new if n == name else n for value, n in self.names.items()}
        self._taken.discard(name)

    def op(self, op_type: str, *inputs: str, hint: str = "", **attributes: Any) -> str:
        """Add a node of an ONNX operator with one result. Returns its name. An empty input name omits an input."""
        return self.ops(op_type, inputs, 1, hint, **attributes)[0]

    def ops(self, op_type: str, inputs: Sequence[str], count: int, hint: str = "", **attributes: Any) -> list[str]:
        """Add a node with `count` results. Returns their names."""
        name = self.fresh(hint or op_type.lower())
        outputs = [name, *(self.fresh(f"{name}_{i}") for i in range(1, count))]
        node = onnx_library().helper.make_node(op_type, list(inputs), outputs, name=name, **attributes)
        self.nodes.append(node)
        return outputs

    def constant(self, array: Any, dtype: Any = None, hint: str = "constant") -> str:
        """The name of a constant. Equal constants share one tensor."""
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
        """An I64 vector for shapes and axes: a constant, or computed from extents of the inputs."""
        if not any(map(is_symbolic, values)):
            return self.constant(list(values), np.int64, "ints")
        grouped = [(symbolic, list(group)) for symbolic, group in groupby(values, is_symbolic)]
        listed = [[self.size(n) for n in group] if symbolic else [self.ints(group)] for symbolic, group in grouped]
        parts = [part for group in listed for part in group]
        return parts[0] if len(parts) == 1 else self.op("Concat", *parts, axis=0)

    def cast(self, x: str, dtype: DType) -> str:
        return self.op("Cast", x, to=onnx_type(dtype))

    def reshape(self, x: str, shape: Sequence[int]) -> str:
        """A single symbolic extent is -1, which ONNX computes."""
        unknown = [i for i, n in enumerate(shape) if is_symbolic(n)]
        if len(unknown) == 1 and 0 not in [n for n in shape if not is_symbolic(n)]:
            return self.op("Reshape", x, self.ints([-1 if is_symbolic(n) else n for n in shape]))
        return self.op("Reshape", x, self.ints(shape), allowzero=1)

    def transpose(self, x: str, permutation: Sequence[int]) -> str:
        if list(permutation) == sorted(permutation):
            return x
        return self.op("Transpose", x, perm=list(permutation))

    def slice(self, x: str, start: Sequence[int], stop: Sequence[int], step: Sequence[int] | None = None) -> str:
        axes = range(len(start))
        return self.op("Slice", x, *map(self.ints, (start, stop, list(axes), step or [1] * len(start))))

    def input(self, value: Value) -> str:
        """The name of a written value."""
        return self.names[value]

    def value_info(self, name: str, type: TensorType) -> Any:
        extents = [self.extents.get(n.name) if isinstance(n, Symbol) else n for n in type.shape]
        return onnx_library().helper.make_tensor_value_info(name, onnx_type(type.dtype), extents)

    # -- symbolic numbers

    def name_sizes(self, value: Value) -> None:
        """Note that symbolic extents which are not known yet are those of an input."""
        for axis, n in enumerate(value.type.shape):
            if isinstance(n, Symbol):
                self._measured.setdefault(n.name, (self.names[value], axis))

    def size(self, n: int) -> str:
        """An I64 vector of one number."""
        if not isinstance(n, Symbol):
            return self.ints([n])
        if n.name not in self._sizes:
            self._sizes[n.name] = self._computed(n)
        return self._sizes[n.name]

    def _computed(self, n: Symbol) -> str:
        if n.name in self._measured:
            name, axis = self._measured[n.name]
            return self.op("Shape", name, start=axis, end=axis + 1)
        if n.polynomial.keys() == {(n.name,)}:
            return self._quotient(n)
        terms = [self._term(factors, coefficient, n) for factors, coefficient in n.polynomial.items()]
        return reduce(lambda total, term: self.op("Add", total, term), terms)

    def _term(self, factors: Sequence[str], coefficient: int, n: Symbol) -> str:
        numbers = [self.size(n.trace.named(name)) for name in factors]
        if coefficient != 1 or not numbers:
            numbers.append(self.ints([coefficient]))
        return reduce(lambda product, number: self.op("Mul", product, number), numbers)

    def _quotient(self, n: Symbol) -> str:
        """A quotient, rounded down, or its remainder. ONNX rounds quotients to zero; remainders have b's sign."""
        operation, operands = n.trace.definition(n)
        if operation not in ("//", "%"):
            raise MXNetError("ONNX has no operators that compute an extent of the model from this one")
        a, b = map(self.size, operands)
        rest = self.op("Mod", a, b)
        return rest if operation == "%" else self.op("Div", self.op("Sub", a, rest), b)

    # -- graphs

    def body(self, graph: Graph, extra: Sequence[Any] = ()) -> tuple[Writer, list[Any]]:
        """A writer for a nested graph, with names for its inputs, and the input descriptions: `extra`, then these."""
        inner = Writer(self)
        infos = list(extra)
        for value in graph.inputs:
            inner.names[value] = inner.fresh(value.name or "operand")
            infos.append(inner.value_info(inner.names[value], value.type))
        return inner, infos

    def graph(self, name: str, inputs: Sequence[Any], outputs: Sequence[Any]) -> Any:
        """The ONNX graph of all nodes and constants."""
        return onnx_library().helper.make_graph(
            self.nodes, name, list(inputs), list(outputs), list(self.initializers.values())
        )


def _with_nested(nodes: Iterable[Any]) -> Iterator[Any]:
    """Nodes, and those of nested graphs."""
    for node in nodes:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _with_nested(attribute.g.node)


def unsupported(node: Node, why: str) -> MXNetError:
    """The error for a node that ONNX cannot express."""
    return MXNetError(f"{node.describe()} cannot be written as ONNX: {why}")
