"""Calls of operators while a block is traced: they become nodes of a graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...runtime.modes import modes

if TYPE_CHECKING:
    from ..context import Context
    from .ndarray import NDArray
    from .operator_function import BoundOperator


class TracedCall:
    """A call of an operator with its parameters, with the interface of a specialization."""

    state = ()
    may_write_first = False

    def __init__(self, bound: BoundOperator) -> None:
        self._bound = bound

    def call(
        self, arrays: Sequence[NDArray], out: Any = None, context: Context | None = None, scalars: Sequence[float] = ()
    ) -> Any:
        """See `OperatorSpecialization.call`. The scalar parameters are those of the operator."""
        assert modes.tracer is not None
        return modes.tracer.apply(self._bound, arrays, out, context)
