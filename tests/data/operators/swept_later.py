"""Golden cases of linear algebra, detectors and alignments in every dtype, with every value of each parameter, in other
shapes; refusals are recorded too."""

from __future__ import annotations

from golden_case import Case
from sweep import distinct_cases, in_dtypes, in_parameters, in_shapes, later_bases, signatures

SWEPT = True


def cases() -> list[Case]:
    """All cases of this file."""
    known = signatures()
    made = [found for base in later_bases() for found in (*in_dtypes(base), *in_shapes(base))]
    made += [found for base in later_bases() for found in in_parameters(base, known[base.op])]
    return distinct_cases(iter(made))
