"""The operators of MXNet with public names, as functions of symbols."""

from __future__ import annotations

from .ops import attribute_finder

__getattr__, __dir__ = attribute_finder("", globals())
