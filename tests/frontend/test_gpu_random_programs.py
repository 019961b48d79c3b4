"""Random programs, with and without gradients, on a simulated GPU against the reference target."""

from __future__ import annotations

import warnings

import mxforge as mx
import pytest
from run_random_programs import checker, reference_programs

COUNT = 6


@pytest.mark.parametrize("gradients", [False, True], ids=["forward", "gradients"])
@pytest.mark.usefixtures("simulated_gpus")
def test_every_form_of_a_random_program_agrees_with_the_reference(gradients: bool) -> None:
    """`python tests/run_random_programs.py --target gpu --first SEED --count 1` repeats one program."""
    from support.simulated_gpu import open_device

    check, launched = checker(gradients), open_device(0).launched
    before = sum(launched.values())
    for program in reference_programs(0, COUNT, gradients=gradients):
        assert not isinstance(program, str), program
        with warnings.catch_warnings(), mx.gpu(0):
            warnings.filterwarnings("ignore", ".* is not used")
            try:
                check(program)
            except Exception as error:
                raise AssertionError(f"{error}\n{program}") from error
    assert sum(launched.values()) >= before + 10 * COUNT
