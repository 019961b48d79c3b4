"""Runs a symbol on arrays of which some are sparse: operator by operator, so that each decides about storage types."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

from . import autograd
from .base import MXNetError

if TYPE_CHECKING:
    from .ndarray import NDArray
    from .symbol import Symbol
    from .symbol.node import SymNode


class SparsePlan:
    """Takes the place of a compiled `Plan`. It knows nothing of its results before it runs, and its operators change
    states themselves."""

    types: tuple[Any, ...] = ()
    state: tuple[int, ...] = ()
    random = None

    def __init__(self, symbol: Symbol, training: bool) -> None:
        from .ndarray.eager import bound_of
        from .symbol.node import depth_first

        self.heads = symbol._entries
        self.variables = symbol._variables()[0]
        self.training = training
        self.steps = [(n, bound_of(n.operator)) for n in depth_first(symbol._entries) if not n.is_variable]

    def run(self, arrays: Sequence[NDArray], version: Hashable) -> list[NDArray]:
        """The outputs for arrays in the order of the symbol's inputs."""
        from .ndarray.eager import apply_bound

        values: dict[SymNode, list[NDArray]] = {n: [a] for n, a in zip(self.variables, arrays, strict=True)}
        before = autograd.set_training(self.training)
        try:
            for node, bound in self.steps:
                operands = [self._value(values, e.node, e.index) for e in node.inputs]
                found = apply_bound(bound, operands)
                values[node] = list(found) if isinstance(found, list | tuple) else [found]
        finally:
            autograd.set_training(before)
        return [self._value(values, e.node, e.index) for e in self.heads]

    @staticmethod
    def _value(values: dict[SymNode, list[NDArray]], node: SymNode, index: int) -> NDArray:
        found = values[node]
        if index >= len(found):
            raise MXNetError(f"output {index} of {node.name} is hidden, and does not exist where operands are sparse")
        return found[index]
