"""Random expressions of `mx.np`; `python tests/random_numpy.py --count 1000` tries more."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import random_numpy
from mxforge import util


@pytest.fixture(autouse=True)
def numpy_mode() -> Iterator[None]:
    util.set_np()
    yield
    util.reset_np()


@pytest.mark.parametrize("seed", range(1, 41))
def test_random_expression(seed: int) -> None:
    random_numpy.check(seed)
