"""`mx.np.random`. Functions are created when they are first accessed."""

from __future__ import annotations

from ..numpy_functions import module_members
from .functions import operator_named

__getattr__, __dir__ = module_members(globals(), "random", operator_named, "mxforge.numpy.random")
