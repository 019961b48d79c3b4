"""Recorded calls of `mx.np` on a simulated GPU return MXNet's answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import mxforge as mx
import pytest
from grouped import grouped
from mxforge import np, util
from numpy_goldens import RESULTS, evaluated, recorded, same, variables

CALLS = [c for c in recorded() if "error" not in c and c["call"] not in RESULTS][::3]


@pytest.fixture(autouse=True)
def numpy_mode() -> Iterator[None]:
    util.set_np()
    yield
    util.reset_np()


@pytest.mark.usefixtures("simulated_gpus")
@grouped("call", CALLS, by=lambda c: c["group"], ids=lambda c: c["call"])
def test_calls_on_a_gpu(call: dict[str, Any]) -> None:
    with mx.gpu(0):
        result = evaluated(call["call"], variables(np))
    same(result, call["result"], call["call"])
    if isinstance(result, np.ndarray):
        assert str(result.ctx) == "gpu(0)"
