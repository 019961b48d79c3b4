"""Every operator on a simulated GPU returns the CPU's results. Primitives without a Triton kernel run on the host."""

from __future__ import annotations

from typing import Any

import mxforge as mx
import numpy as np
import pytest
from forms import applied
from goldens import Golden, operator_goldens

CONTROL_FLOW = ("_foreach", "_while_loop", "_cond")  # they take functions
TOLERANCE = {2: 4e-3, 4: 2e-5, 8: 2e-5}  # by bytes of a float; the simulation uses NumPy for exp, log, ...
LOOSER = {"ftml_update": 5e-5}
"""CUDA's float32 power has an error of up to 4 units in the last place, and `1 - 0.999 ** t` keeps few of its bits."""


def first_calls() -> list[Golden]:
    """The first recorded call of each operator in each mode."""
    calls = (g for g in operator_goldens() if g.op not in CONTROL_FLOW)
    return list({(g.op, g.train): g for g in reversed(list(calls))}.values())


def outputs(golden: Golden, context: mx.Context) -> list[Any]:
    """The results of a call, and its operands, some of which are states that it updates."""
    mx.random.seed(3)
    operands = [mx.nd.array(x, dtype=x.dtype, ctx=context) for x in golden.inputs]
    with context, mx.autograd.pause(train_mode=golden.train):
        found = applied(mx.nd, golden.op, operands, golden.attributes)
    return [*(found if isinstance(found, list | tuple) else [found]), *operands]


def agree(op: str, x: np.ndarray, y: np.ndarray) -> bool:
    if (x.shape, x.dtype) != (y.shape, y.dtype):
        return False
    limit = max(TOLERANCE[x.dtype.itemsize], LOOSER.get(op, 0)) if x.dtype.kind == "f" else 0
    return np.allclose(x, y, limit, limit, equal_nan=x.dtype.kind == "f")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("golden", first_calls(), ids=lambda g: f"{g.op}{'-train' * g.train}")
@pytest.mark.usefixtures("simulated_gpus")
def test_operator(golden: Golden) -> None:
    expected, found = outputs(golden, mx.cpu()), outputs(golden, mx.gpu(0))
    assert {str(y.context) for y in found} == {"gpu(0)"}
    for x, y in zip(expected, found, strict=True):
        assert agree(golden.op, x.asnumpy(), y.asnumpy()), f"{x.asnumpy()} and {y.asnumpy()}"[:2000]
