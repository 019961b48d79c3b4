"""Runs a symbol operator by operator: on arrays of which some are sparse, where each operator chooses storage types,
with operators whose results' extents depend on values, and on a tape."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any

from ...runtime.modes import set_training
from ..base import MXNetError
from .node import execution_order

if TYPE_CHECKING:
    from ..ndarray import NDArray
    from .node import SymNode
    from .symbol import Symbol

    Seen = Callable[[SymNode, list[NDArray]], None]


class StepwiseSpecialization:
    """Implements the interface of `SymbolSpecialization`. The types of its results are unknown before a run. States are
    updated by its operators."""

    is_stepwise = True
    types: tuple[Any, ...] = ()
    state: tuple[int, ...] = ()
    random = None

    def __init__(self, symbol: Symbol, training: bool) -> None:
        from ..ndarray.eager import bound_of

        self.heads = symbol._entries
        self.variables = symbol._variables()[0]
        self.training = training
        numpy = symbol._class is not None
        self.steps = [(n, bound_of(n.operator, numpy)) for n in execution_order(symbol._entries) if not n.is_variable]

    def call(self, arrays: Sequence[NDArray], version: Hashable, seen: Seen | None = None) -> list[NDArray]:
        """The outputs for arrays in the order of the symbol's inputs. `seen(node, results)` is called for each node."""
        from ..ndarray.eager import apply_bound

        values: dict[SymNode, list[NDArray]] = {n: [a] for n, a in zip(self.variables, arrays, strict=True)}
        before = set_training(self.training)
        try:
            for node, bound in self.steps:
                operands = [self._value(values, e.node, e.index) for e in node.inputs]
                results = apply_bound(bound, operands)
                values[node] = list(results) if isinstance(results, list | tuple) else [results]
                if seen is not None:
                    seen(node, values[node])
        finally:
            set_training(before)
        return [self._value(values, e.node, e.index) for e in self.heads]

    @staticmethod
    def _value(values: dict[SymNode, list[NDArray]], node: SymNode, index: int) -> NDArray:
        results = values[node]
        if index >= len(results):
            raise MXNetError(
                f"output {index} of {node.name} is hidden, and does not exist where operators run one by one"
            )
        return results[index]
