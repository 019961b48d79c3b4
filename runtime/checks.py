"""Raises the error of a run whose values do not satisfy a check of its program (`ir/graph.py`)."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.graph import Check

_classes: list[type[Exception]] = [ValueError]


def raise_failed_checks_as(error: type[Exception]) -> None:
    """Set the class of the errors of checks that are not about indices; those are IndexErrors."""
    _classes[:] = [error]


def value_error(message: str) -> Exception:
    """The error for a value that a run cannot use."""
    return _classes[0](message)


def verify(checks: Sequence[Check], flags: bytes) -> None:
    """Raise the message of the first check whose flag is 0."""
    for check, holds in zip(checks, flags, strict=True):
        if not holds:
            raise IndexError(check.message) if check.is_index else value_error(check.message)
