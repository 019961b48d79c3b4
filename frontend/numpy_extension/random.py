"""`mx.npx.random`. Functions are created when they are first accessed."""

from __future__ import annotations

from .. import random
from ..context import Context
from ..numpy.functions import operator_named
from ..numpy_functions import module_members


def seed(seed: int, ctx: Context | str = "all") -> None:
    """Sets the seed of random numbers, on all devices or on one; see `mx.random.seed`."""
    random.seed(seed, ctx)


__getattr__, __dir__ = module_members(
    globals(), "npx_random", operator_named, "mxforge.numpy_extension.random", ["seed"]
)
