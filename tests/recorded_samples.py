"""One recorded call and one recorded gradient of each operator, for targets that compile slowly."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from differences import WRONG_IN_MXNET, other_result
from goldens import Golden, Gradient, gradient_goldens, operator_goldens, swept_goldens, swept_gradients
from recorded_gradients import is_compared
from sweeps import is_refused

Case = TypeVar("Case", Golden, Gradient)


def _first(cases: Iterable[Case]) -> list[Case]:
    """The first case of each operator."""
    first: dict[str, Case] = {}
    for case in cases:
        first.setdefault(case.op, case)
    return list(first.values())


def parts(cases: list[Case], size: int) -> list[list[Case]]:
    """The cases in parts of a program each. Neighbours in the list are in different parts."""
    count = -(-len(cases) // size)
    return [cases[i::count] for i in range(count)]


CALLS = _first(g for g in swept_goldens() if not is_refused(g) and not other_result(g))
TRAINED = [g for g in operator_goldens() if g.train and str(g) not in WRONG_IN_MXNET]
"""All calls in training mode."""
GRADIENTS = _first(
    g for g in (*gradient_goldens(), *(g for gs in swept_gradients().values() for g in gs)) if is_compared(g)
)
