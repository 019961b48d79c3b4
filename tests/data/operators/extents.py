"""Golden cases of every operator in other shapes: ones, odd sizes, 0, more and fewer axes; refusals recorded too."""

from __future__ import annotations

from golden_case import Case
from sweep import bases, distinct_cases, in_shapes

SWEPT = True


def cases() -> list[Case]:
    """All cases of this file."""
    return distinct_cases(found for base in bases() for found in in_shapes(base))
