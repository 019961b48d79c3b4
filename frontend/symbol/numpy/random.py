"""`mx.sym.np.random`. Functions are created when they are first accessed."""

from __future__ import annotations

from ...numpy_functions import module_members
from .functions import internal

__getattr__, __dir__ = module_members(globals(), "random", internal, "mxforge.symbol.numpy.random")
