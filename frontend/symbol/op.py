"""Every operator of MXNet with a public name, as a function of symbols."""

from __future__ import annotations

from .ops import attribute_finder

__getattr__, __dir__ = attribute_finder("", globals())
