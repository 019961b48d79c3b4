"""The operators whose names begin with an underscore, which other functions are built on:
`nd._internal._plus_scalar`."""

from __future__ import annotations

from .functions import attribute_finder
from .ndarray import NDArray as NDArrayBase  # noqa: F401 (a name of MXNet)

__getattr__, __dir__ = attribute_finder("_internal", globals())
