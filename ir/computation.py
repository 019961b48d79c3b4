"""A computation on inputs of any extents, as a function from the types of its inputs to its graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .graph import Graph
from .lazy_dataclass import dataclass
from .types import TensorType


@dataclass(frozen=True)
class Computation:
    """`build` makes the graph for inputs of types like `types`, in which extents can be symbolic. `family` identifies
    what is computed for any extents, `names` are those of the nodes.

    `build` raises GraphError for types that do not fit. Graphs of mx nodes need none: `codegen/dynamic.py` infers their
    types again.
    """

    types: tuple[TensorType, ...]
    build: Callable[[Sequence[TensorType]], Graph]
    family: str
    names: tuple[str, ...]
    weights: frozenset[int] = frozenset()
    """Positions of inputs whose types are part of the family: the windows of convolutions choose their code."""

    @property
    def graph(self) -> Graph:
        """The graph for inputs of `types`."""
        return self.build(self.types)
