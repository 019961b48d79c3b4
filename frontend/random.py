"""The seed of random operators. The draws under `mx.random` are those of `mx.nd.random`.

Random operators are pure functions of a key of four words: (seed, seed, number of the call, draw inside of the call). A
compiled graph counts a call for each of its operators that draw, so it gives what the same operators give one by one.
The numbers differ from MXNet's for the same seed; that a seed repeats them, and that calls differ, holds as there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..runtime.random_keys import seed_all, seed_device
from .base import check_call, integer_types
from .context import Context, as_context

if TYPE_CHECKING:
    from .ndarray.random import (  # noqa: F401 (at run time they are found as borrowed names)
        exponential,
        gamma,
        generalized_negative_binomial,
        multinomial,
        negative_binomial,
        normal,
        poisson,
        randint,
        randn,
        shuffle,
        uniform,
    )

__all__ = ["check_call", "seed"]


def seed(seed_state: int, ctx: Context | str = "all") -> None:
    """Start the random numbers anew, on all devices or on one. Equal seeds give equal numbers, on one context as on
    another."""
    if not isinstance(seed_state, integer_types):
        raise ValueError("seed_state must be int")
    if ctx == "all":
        seed_all(int(seed_state))
    else:
        seed_device(int(seed_state), as_context(ctx))
