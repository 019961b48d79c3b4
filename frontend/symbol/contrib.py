"""`sym.contrib`: the operators whose names start with `_contrib_`, control flow, and `rand_zipfian`."""

from __future__ import annotations

import math
from typing import Any

from ..attribute import AttrScope
from .contrib_updates import adamw_update, mp_adamw_update
from .control_flow import cond, foreach, while_loop
from .ops import attribute_finder
from .random import uniform
from .symbol import Symbol

__all__ = [
    "AttrScope",
    "Symbol",
    "adamw_update",
    "cond",
    "foreach",
    "mp_adamw_update",
    "rand_zipfian",
    "uniform",
    "while_loop",
]

__getattr__, __dir__ = attribute_finder("contrib", globals())


def rand_zipfian(true_classes: Symbol, num_sampled: int, range_max: int) -> tuple[Symbol, Symbol, Symbol]:
    """Draws classes in [0, range_max), class k with probability log((k + 2) / (k + 1)) / log(range_max + 1).

    Args:
        true_classes: Classes whose expected counts are computed too.
        num_sampled: Number of draws.
        range_max: Number of classes.
    Returns:
        The draws (int64), and the expected counts of the true and of the drawn classes among `num_sampled` draws
        (float64).
    """
    log_range = math.log(range_max + 1)
    draws: Any = uniform(0, log_range, shape=(num_sampled,), dtype="float64")
    sampled = (draws.exp() - 1).astype("int64") % range_max

    def expected(classes: Any) -> Symbol:
        k = classes.astype("float64")
        return ((k + 2.0) / (k + 1.0)).log() / log_range * num_sampled

    counts = expected(true_classes)
    return sampled, counts, expected(sampled)
