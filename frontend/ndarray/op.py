"""The operators of `nd` itself: `nd.op.FullyConnected` is `nd.FullyConnected`."""

from __future__ import annotations

from .functions import attribute_finder

__getattr__, __dir__ = attribute_finder("", globals())
