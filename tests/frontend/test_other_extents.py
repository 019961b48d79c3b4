"""Eager calls by programs that were compiled for other extents: a sample of the recorded calls of all operators."""

from __future__ import annotations

import pytest
from goldens import Golden
from grouped import grouped
from other_extents import calls, differences

EVERY = 48
"""`python tests/other_extents.py` runs all calls."""


@pytest.mark.any_processor
@grouped("golden", calls(every=EVERY), lambda golden: "recorded calls")
def test_programs_for_any_extents_agree_with_those_of_one_shape(golden: Golden) -> None:
    assert not differences(golden)
