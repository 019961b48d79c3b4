"""Random programs of MXNet's operators, run eagerly, hybridized and bound, against the reference target."""

from __future__ import annotations

import os
import warnings

import pytest
from random_program_forms import check
from random_programs import Program
from run_random_programs import reference_programs

COUNT, SHARE = 40, 20
FIRST = COUNT if "MXFORGE_CPU" in os.environ else 0
"""Code for another processor than this one runs other programs."""


@pytest.mark.sampled(2)
@pytest.mark.parametrize("first", range(FIRST, FIRST + COUNT, SHARE))
def test_every_form_of_a_random_program_agrees_with_the_reference(first: int) -> None:
    """`python tests/run_random_programs.py --first SEED --count 1` repeats one program."""
    for program in reference_programs(first, SHARE):
        assert isinstance(program, Program)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The .* input to HybridBlock is not used")
            try:
                check(program)
            except Exception as error:
                raise AssertionError(f"{error}\n{program}") from error
