"""Linear algebra on the last two axes: `nd.linalg.potrf`, ... Written by tools/make_stubs.py: not to be changed by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..context import Context
from .ndarray import NDArray


