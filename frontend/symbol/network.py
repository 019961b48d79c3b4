"""A symbol's nodes with numbered values, for the inference of shapes and dtypes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ...ir.types import DType
from ..base import MXNetError
from ..shapes import from_mxnet
from ..tracebacks import cause_of
from ..type_flags import DTYPE_NAMES
from ..util import is_np_shape
from .node import Entry, SymNode, depth_first

if TYPE_CHECKING:
    from ...ir.dialects.mx.infer_types import Inference, Use
    from ...ir.dialects.mx.shapes import PartialShape


class Network:
    """The nodes on which `entries` depend, in order; `first[node]` is the number of a node's first output."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self.entries = entries
        self.nodes = depth_first(entries)
        self.first: dict[SymNode, int] = {}
        total = 0
        for node in self.nodes:
            self.first[node] = total
            total += node.num_outputs

    @property
    def variables(self) -> list[SymNode]:
        return [node for node in self.nodes if node.is_variable]

    def number(self, entry: Entry) -> int:
        return self.first[entry.node] + entry.index

    def uses(self) -> list[Use]:
        from ...ir.dialects.mx.infer_types import Use

        legacy = not is_np_shape()
        return [
            Use(
                n.operator.with_legacy_shapes() if legacy else n.operator,
                tuple(map(self.number, n.inputs)),
                tuple(self._outputs(n)),
                n.name,
                n.location,
            )
            for n in self.nodes
            if not n.is_variable
        ]

    def _outputs(self, node: SymNode) -> range:
        return range(self.first[node], self.first[node] + node.num_outputs)

    def infer(self, shapes: Mapping[str, PartialShape], dtypes: Mapping[str, DType]) -> Inference:
        """Infer shapes and dtypes from those of variables by name, and from the variables' attributes.

        MXNetError names a node whose shapes or dtypes contradict each other.
        """
        from ...ir.dialects.mx.infer_types import InferenceError, infer_types

        numbered: dict[int, PartialShape] = {}
        kinds: dict[int, DType | None] = {}
        for node in self.variables:
            shape = shapes.get(node.name)
            shape = declared_shape(node) if shape is None else shape
            if shape is not None:
                numbered[self.first[node]] = shape
            dtype = dtypes.get(node.name) or declared_dtype(node)
            if dtype is not None:
                kinds[self.first[node]] = dtype
        try:
            return infer_types(self.uses(), numbered, kinds)
        except InferenceError as error:
            raise MXNetError(f"Error in operator {error}") from cause_of(error)

    def check_names(self, names: Iterable[str], function: str) -> None:
        """MXNetError if one of `names` is not a variable."""
        variables = [node.name for node in self.variables]
        for name in names:
            if name not in variables:
                candidates = "\n".join(f"\t[{i}]{v}" for i, v in enumerate(variables))
                raise MXNetError(
                    f"{function}Keyword argument name {name} not found.\nCandidate arguments:\n{candidates}"
                )


def declared_shape(node: SymNode) -> PartialShape:
    """The shape in a variable's attributes."""
    numbers = _declared_numbers(node)
    return None if numbers is None else from_mxnet(numbers)


def _declared_numbers(node: SymNode) -> tuple[int, ...] | None:
    text = node.attrs.get("__shape__")
    if text in (None, "None"):
        return None
    try:
        return tuple(int(n) for n in text.strip("()[] ").replace("L", "").split(",") if n.strip())
    except ValueError:
        raise MXNetError(f"variable {node.name!r}: __shape__ is {text!r}, which is not a shape") from None


def declare_in_numpy_shapes(node: SymNode) -> None:
    """Convert a variable's shape from the legacy semantics, where 0 and () are unknown, to NumPy's. The text is
    MXNet's."""
    numbers = _declared_numbers(node)
    if numbers is not None:
        node.attrs["__shape__"] = f"[{','.join(str(n or -1) for n in numbers)}]" if numbers else "None"


def declared_dtype(node: SymNode) -> DType | None:
    """The dtype in a variable's attributes."""
    number = node.attrs.get("__dtype__")
    if number in (None, "-1"):
        return None
    if number not in DTYPE_NAMES:
        raise MXNetError(f"variable {node.name!r}: __dtype__ is {number!r}, which is not a dtype")
    return DType.from_numpy(DTYPE_NAMES[number])
