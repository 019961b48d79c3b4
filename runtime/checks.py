"""Raises the error of a run whose values do not satisfy a check of its program (`ir/graph.py`)."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.graph import Check
from .errors import invalid_value


def verify(checks: Sequence[Check], flags: bytes) -> None:
    """Raise the message of the first check whose flag is 0, as an IndexError if it is about an index."""
    for check, holds in zip(checks, flags, strict=True):
        if not holds:
            raise IndexError(check.message) if check.is_index else invalid_value(check.message)
