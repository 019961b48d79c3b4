"""Golden cases of every value of every parameter; refusals are recorded too."""

from __future__ import annotations

from golden_case import Case
from sweep import bases, distinct_cases, in_parameters, signatures

SWEPT = True


def cases() -> list[Case]:
    """All cases of this file."""
    known = signatures()
    return distinct_cases(found for base in bases() for found in in_parameters(base, known[base.op]))
