"""One node of an ONNX graph as its rule sees it, and the table of rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from ....ir.dialects.core.builder import CoreBuilder
from ....ir.graph import Value
from ....ir.symbolic import is_symbolic
from ....ir.types import DType
from ..writer import onnx_library

if TYPE_CHECKING:
    from .graph import GraphReader

Known = np.ndarray[Any, Any]
"""A value that is known when the graph is read: constants, shapes, and what is computed from them."""


class TensorSequence:
    """A sequence of ONNX, whose length is known when the graph is read."""

    def __init__(self, tensors: Sequence[Value | Known]) -> None:
        self.tensors = tuple(tensors)


Result = Value | Known
Defined = Result | TensorSequence
"""What a name of a graph can be."""

Results = Defined | Sequence[Defined]
Rule = Callable[["OnnxNode"], Results]

RULES: dict[str, Rule] = {}
"""The rule of each operator: it adds primitives to `node.b`, and returns the results."""


class Unsupported(ValueError):
    """A node cannot be read; the message is the reason without the node's name."""


class TooLarge(Unsupported):
    """A model has too many nodes to read the others."""


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Register a function as the rule of operators."""

    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, function))
        return function

    return register


class OnnxNode:
    """A node with its operands and attributes; `b` builds the graph, `opset` is the version of the operators."""

    def __init__(self, reader: GraphReader, proto: Any, attributes: dict[str, Any]) -> None:
        self.reader, self.b, self.opset = reader, reader.b, reader.opset
        self.op_type: str = proto.op_type
        self.names: list[str] = list(proto.input)
        self.results: list[str] = list(proto.output)
        self.attributes = attributes

    b: CoreBuilder

    def has(self, position: int) -> bool:
        """True if the operand is present."""
        return position < len(self.names) and bool(self.names[position])

    def __getitem__(self, position: int) -> Value:
        """An operand as a value of the graph."""
        if not self.has(position):
            raise Unsupported(f"operand {position} is missing")
        return self.reader.value(self.names[position])

    def operands(self) -> list[Value]:
        """All operands, none of which may be missing."""
        return [self[i] for i in range(len(self.names))]

    def get(self, position: int) -> Value | None:
        """An operand, or None if it is omitted."""
        return self[position] if self.has(position) else None

    def result(self, position: int) -> Result:
        """An operand as a known tensor if it is one, else as a value of the graph."""
        name = self.names[position] if self.has(position) else ""
        return self.reader.known[name] if name in self.reader.known else self[position]

    def sequence(self, position: int) -> tuple[Result, ...]:
        """The tensors of an operand that is a sequence."""
        name = self.names[position] if self.has(position) else ""
        if name not in self.reader.sequences:
            raise Unsupported(f"operand {position} must be a sequence whose length is known")
        return self.reader.sequences[name].tensors

    def known(self, position: int) -> Known:
        """The elements of an operand that must be known when the graph is read."""
        array = self.reader.known.get(self.names[position]) if self.has(position) else None
        if array is None:
            raise Unsupported(f"operand {position} must be a constant, since it determines shapes")
        return array

    def ints(self, position: int, attribute: str) -> list[int] | None:
        """Integers that newer versions have as an operand and older ones as an attribute; None if omitted."""
        if attribute in self.attributes:
            value = self.attributes[attribute]
            return list(value) if isinstance(value, list | tuple) else [value]
        return integers(self.known(position)) if self.has(position) else None

    def attr(self, name: str, default: Any = None) -> Any:
        """An attribute; strings are decoded."""
        value = self.attributes.get(name, default)
        return value.decode(errors="replace") if isinstance(value, bytes) else value

    def axis(self, default: int, rank: int) -> int:
        """The attribute `axis`, counted from the front."""
        return front(self.attr("axis", default), rank)


def listed(results: Results) -> list[Defined]:
    """The results of a rule as a list."""
    return list(results) if isinstance(results, list | tuple) else [results]  # type: ignore[list-item]


def front(axis: int, rank: int) -> int:
    """An axis counted from the front."""
    if not -rank <= axis < max(rank, 1):
        raise Unsupported(f"axis {axis} is outside a tensor of rank {rank}")
    return axis % rank if rank else 0


LARGEST_TABLE = 1 << 26
"""The number of elements of an array that is computed when the graph is read; larger ones are refused."""

_LARGEST = 1 << 31
"""The number of elements of a tensor whose shape is in the file."""


def limited(shape: Sequence[int], largest: int = _LARGEST) -> Sequence[int]:
    """The shape of a tensor; Unsupported if it is known and has too many elements."""
    if not any(map(is_symbolic, shape)) and prod(shape) > largest:
        raise Unsupported(f"a tensor of shape {tuple(shape)} is too large")
    return shape


def integers(array: Known) -> list[int]:
    """The elements of a known array, of which some can be symbolic."""
    return [n if is_symbolic(n) else int(n) for n in np.ravel(array).tolist()]


def dtype_of(number: int) -> DType:
    """The dtype of a number of onnx.TensorProto.DataType."""
    library = onnx_library()
    if number == library.TensorProto.BFLOAT16:
        return DType.BF16
    name = library.TensorProto.DataType.Name(number).lower() if number in library.TensorProto.DataType.values() else ""
    try:
        return DType.from_numpy(library.helper.tensor_dtype_to_np_dtype(number))
    except (TypeError, KeyError, ValueError):
        raise Unsupported(f"the element type {name or number} is not supported") from None
