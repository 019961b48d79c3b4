"""`mx.npx.random`. Functions are created when they are first accessed."""

from __future__ import annotations

from ..numpy.functions import operator_named
from ..numpy_functions import module_members
from ..random import seed  # noqa: F401

__getattr__, __dir__ = module_members(
    globals(), "npx_random", operator_named, "mxforge.numpy_extension.random", ["seed"]
)
