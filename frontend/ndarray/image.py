"""`nd.image`: operators on images, such as `nd.image.to_tensor`."""

from __future__ import annotations

from .functions import attribute_finder

__getattr__, __dir__ = attribute_finder("image", globals())
