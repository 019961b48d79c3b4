"""Linear algebra on the last two axes: `nd.linalg.potrf`, ..."""

from __future__ import annotations

from .functions import attribute_finder

__getattr__, __dir__ = attribute_finder("linalg", globals())
