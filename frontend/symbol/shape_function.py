"""The shapes of a symbol's arguments and states as a function of those of some of them, inferred once."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Any

from ...ir.symbolic import Evaluator, Trace
from ..base import MXNetError
from ..util import is_np_shape
from .network import Network

if TYPE_CHECKING:
    from .symbol import Symbol

_REMEMBERED = 8  # functions for the same names and ranks, which differ in their guards

Shapes = tuple[tuple[int, ...], ...]


class ShapeFunction:
    """Infers the shapes of a symbol for new extents without its operators. A call returns the shapes of the arguments
    and of the states, or None if they must be inferred: the first time, with unknown extents, and if the operators
    decide by these extents in another way."""

    def __init__(self, symbol: Symbol) -> None:
        self._symbol = symbol
        self._known: dict[Hashable, list[Evaluator]] = {}

    def __call__(self, shapes: Mapping[str, Any]) -> tuple[Shapes, Shapes] | None:
        extents = [n for shape in shapes.values() for n in shape]
        if not all(isinstance(n, int) and n > 0 for n in extents):
            return None
        key = (is_np_shape(), *((name, len(shape)) for name, shape in shapes.items()))
        known = self._known.get(key)
        if known is None:
            self._known[key] = []
            return None
        for evaluate in known:
            inferred = evaluate(*extents)
            if inferred is not None:
                return inferred
        if len(known) < _REMEMBERED:
            known += self._traced(shapes)
        return None

    def _traced(self, shapes: Mapping[str, Any]) -> list[Evaluator]:
        """The function that these extents satisfy; none if they do not determine all shapes."""
        trace, network = Trace(), Network(self._symbol._entries)
        symbolic = {name: tuple(map(trace.unknown, shape)) for name, shape in shapes.items()}
        try:
            inferred = network.infer(symbolic, {})
        except (MXNetError, TypeError, AttributeError):  # what NumPy raises for symbolic numbers
            return []
        variables, states = self._symbol._variables()
        if inferred.unknown([network.first[node] for node in variables]):
            return []
        shape_of = {node: inferred.shapes[network.first[node]] for node in variables}
        arguments = tuple([shape_of[node] for node in variables if node not in states])
        return [trace.evaluator((arguments, tuple([shape_of[node] for node in variables if node in states])))]
