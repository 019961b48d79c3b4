"""`mx.sym.npx.random`. Functions are created when they are first accessed."""

from __future__ import annotations

from ...numpy_functions import module_members
from ..numpy.functions import internal

__getattr__, __dir__ = module_members(globals(), "npx_random", internal, "mxforge.symbol.numpy_extension.random")
