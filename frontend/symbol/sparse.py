"""`mx.sym.sparse`: operators that support sparse storage, created from their declarations."""

from __future__ import annotations

from .ops import attribute_finder

__getattr__, __dir__ = attribute_finder("sparse", globals())
