"""The seed of random operators. The functions of `mx.random` are those of `mx.nd.random`.

Random operators are pure functions of a key of four words: (seed, seed, call number, draw within the call). In a
compiled graph each operator that draws has its own call number, so the graph returns the same numbers as eager calls.
The numbers differ from MXNet's for the same seed. As in MXNet, a seed reproduces them, and successive calls differ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..runtime.random_keys import seed_all, seed_device
from .base import check_call, integer_types
from .context import Context, as_context

if TYPE_CHECKING:
    from .ndarray.random import (  # noqa: F401 (at run time they are borrowed names)
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
    """Set the seed of random numbers, on all devices or on one. Equal seeds give equal numbers on every context.

    Args:
        seed_state: An integer; ValueError for other types.
        ctx: "all", or a Context.

    Example:
        >>> mx.random.seed(1)
        >>> first = mx.nd.random.uniform(shape=(3,))
        >>> mx.random.seed(1)
        >>> bool((first == mx.nd.random.uniform(shape=(3,))).min().asscalar())
        True
    """
    if not isinstance(seed_state, integer_types):
        raise ValueError("seed_state must be int")
    if ctx == "all":
        seed_all(int(seed_state))
    else:
        seed_device(int(seed_state), as_context(ctx))
