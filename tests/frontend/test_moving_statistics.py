"""Moving statistics change in the backward pass of calls whose gradients are computed, as in MXNet on CPUs."""

from __future__ import annotations

from typing import Any

import mxforge as mx
import numpy as np
import pytest

nd, autograd = mx.nd, mx.autograd


def normalized(x: Any) -> tuple[Any, Any]:
    """The result of a BatchNorm, and its moving mean."""
    mean = nd.zeros((4,))
    return nd.BatchNorm(x, nd.ones((4,)), nd.zeros((4,)), mean, nd.ones((4,))), mean


def test_statistics_move_if_a_gradient_passes_them() -> None:
    """Only calls between the heads and the requested variables are differentiated, as in MXNet."""
    x, other = nd.array(np.arange(12).reshape(3, 4)), nd.ones((3, 4))
    x.attach_grad()
    other.attach_grad()
    for wanted, expected in (([other], 0), ([x], 0.4), ([x, other], 0.4)):
        with autograd.record():
            y, mean = normalized(x)
            z = y + other
        found = autograd.grad(z, wanted)
        assert len(found) == len(wanted)
        assert mean[0].asscalar() == pytest.approx(expected)


@pytest.mark.parametrize(
    ("requested", "expected"), [(["x"], 0), (["o"], 0), (["x", "o"], 0), (["bn_gamma"], 0.4), (["bn_beta"], 0.4)]
)
def test_statistics_behind_a_blocked_gradient(requested: list[str], expected: float) -> None:
    """Numbers recorded from MXNet 1.9.1."""
    x, other = mx.sym.var("x"), mx.sym.var("o")
    statistics: Any = mx.sym.BatchNorm(mx.sym.BlockGrad(x), name="bn")
    symbol = statistics + other
    requests = {name: "write" if name in requested else "null" for name in symbol.list_arguments()}
    executor = symbol.simple_bind(mx.cpu(), grad_req=requests, x=(3, 4), o=(3, 4))
    executor.arg_dict["x"][:] = nd.array(np.arange(12).reshape(3, 4))
    executor.forward(is_train=True)
    executor.backward(nd.ones((3, 4)))
    assert executor.aux_dict["bn_moving_mean"][0].asscalar() == pytest.approx(expected)
