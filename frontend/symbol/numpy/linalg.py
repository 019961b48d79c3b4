"""`mx.sym.np.linalg`. Functions are created when they are first accessed."""

from __future__ import annotations

from ...numpy_functions import module_members
from .functions import internal

__getattr__, __dir__ = module_members(globals(), "linalg", internal, "mxforge.symbol.numpy.linalg")
