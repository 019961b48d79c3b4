"""`mx.sym.image`: operators on images, created from their declarations."""

from __future__ import annotations

from .ops import attribute_finder

__getattr__, __dir__ = attribute_finder("image", globals())
