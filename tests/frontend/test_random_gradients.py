"""Random programs with gradients: eager, hybridized, bound and in a Module, against the reference target."""

from __future__ import annotations

import os
import warnings

import pytest
from random_gradient_forms import check
from random_gradient_programs import GradientProgram
from run_random_programs import reference_programs

COUNT, SHARE = 40, 10
FIRST = COUNT if "MXFORGE_CPU" in os.environ else 0
"""Code for another processor than this one runs other programs."""


@pytest.mark.sampled(2)
@pytest.mark.parametrize("first", range(FIRST, FIRST + COUNT, SHARE))
def test_every_form_of_a_random_program_has_the_gradients_of_the_reference(first: int) -> None:
    """`python tests/run_random_programs.py --gradients --first SEED --count 1` repeats one program."""
    for program in reference_programs(first, SHARE, gradients=True):
        assert isinstance(program, GradientProgram), program
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".* is not used by any computation")
            try:
                check(program)
            except Exception as error:
                raise AssertionError(f"{error}\n{program}") from error
