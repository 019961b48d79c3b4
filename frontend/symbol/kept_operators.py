"""Keeps the users' operators in Python of one node of a symbol from run to run."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any


class KeptOperators:
    """The operators of one node. All runs of a bound symbol on operands of the same types share one operator.

    Otherwise a recorded run has an operator of its own until its gradient is computed, so that the gradient finds what
    the run stored there. As in MXNet, recorded runs after others begin with new operators, and the other way round.
    """

    def __init__(self, is_bound: bool) -> None:
        self.is_bound = is_bound
        self._recorded = False
        self._idle: dict[Hashable, list[Any]] = {}

    def take(self, types: Hashable, recorded: bool, make: Callable[[], Any]) -> Any:
        """The operator of a run on operands of these types, which `make` creates if none is idle."""
        if not self.is_bound and recorded != self._recorded:
            self._idle, self._recorded = {}, recorded
        idle = self._idle.setdefault(types, [])
        if not self.is_bound:
            return idle.pop() if idle else make()
        if not idle:
            idle.append(make())
        return idle[0]

    def give(self, types: Hashable, recorded: bool, operator: Any) -> None:
        """Take back the operator of a run that has ended."""
        if not self.is_bound and recorded == self._recorded:
            self._idle.setdefault(types, []).append(operator)
