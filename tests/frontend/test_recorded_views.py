"""Views of arrays without elements on the tape, and gradient arrays that a caller gave. Recorded from MXNet 1.9.1."""

from __future__ import annotations

from typing import Any

import mxforge as mx
import numpy as np
import pytest


@pytest.mark.parametrize(
    ("view", "shape"),
    [
        (lambda x: x[0], (0, 3)),
        (lambda x: x[0:1], (1, 0, 3)),
        (lambda x: x[:, :, 1:2], (2, 0, 1)),  # MXNet raises
        (lambda x: x.reshape((3, 0)), (3, 0)),
        (lambda x: x.reshape((3, 0, 2)), (3, 0, 2)),
    ],
)
def test_a_view_without_elements_is_recorded(view: Any, shape: tuple[int, ...]) -> None:
    with mx.util.np_shape():
        x: Any = mx.nd.ones((2, 0, 3))
        x.attach_grad()
        with mx.autograd.record():
            y = view(x)
        y.backward()
        assert (y.shape, x.grad.shape) == (shape, (2, 0, 3))


class _Same(mx.autograd.Function):
    """A call in Python, with which a tape runs call by call."""

    def forward(self, *inputs: Any) -> Any:
        return inputs[0] + 0

    def backward(self, *cotangents: Any) -> Any:
        return cotangents[0]


def _same(x: Any) -> Any:
    return _Same()(x)


@pytest.mark.parametrize("request_", ["write", "add"])
@pytest.mark.parametrize("function", [lambda x: x * 2, _same])
def test_a_zero_gradient_is_written_to_a_given_array(function: Any, request_: str) -> None:
    x, gradient = mx.nd.array([1, 2]), mx.nd.array([7, 7])
    mx.autograd.mark_variables([x], [gradient], request_)
    with mx.autograd.record():
        y = mx.nd.BlockGrad(function(mx.nd.BlockGrad(x)))
    y.backward()
    np.testing.assert_array_equal(gradient.asnumpy(), 7 if request_ == "add" else 0)
