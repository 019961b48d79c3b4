"""`nd.linalg`: linear algebra on the last two axes, such as `nd.linalg.potrf`."""

from __future__ import annotations

from .functions import attribute_finder

__getattr__, __dir__ = attribute_finder("linalg", globals())
