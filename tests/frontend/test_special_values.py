"""NaN, infinite elements and integers have MXNet's results and gradients in every form of a call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mxforge as mx
import numpy as np
import pytest

nd, autograd = mx.nd, mx.autograd
nan, inf = float("nan"), float("inf")

ELEMENTS = [nan, -1, 2, 0, -0.0, inf, -inf, *[nan] * 13]
"""Longer than a vector."""

# result and gradient (of 3 for each element) at the first seven elements, recorded from MXNet 1.9.1
IN_LAYERS = ([0, 0, 2, 0, 0, inf, 0], [0, 0, 3, 0, 0, 3, 0])
PROPAGATED = ([nan, 0, 2, 0, 0, inf, 0], [nan, 0, 3, 0, 0, 3, 0])
LIMITED = ([nan, -1, 1, 0, 0, 1, -1], [3, 3, 0, 3, 3, 0, 0])
SOFTSIGN = ([nan, -0.5, 2 / 3, 0, 0, nan, nan], [nan, 0.75, 1 / 3, 3, 3, 0, 0])


def activation(F: Any, x: Any) -> Any:
    return F.Activation(x, act_type="relu")


def rectifier(F: Any, x: Any) -> Any:
    return F.relu(x)


def limits(F: Any, x: Any) -> Any:
    return F.clip(x, -1, 1)


def softsign(F: Any, x: Any) -> Any:
    return F.Activation(x, act_type="softsign")


class Applied(mx.gluon.HybridBlock):
    def __init__(self, function: Callable[[Any, Any], Any]) -> None:
        super().__init__()
        self.function = function

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return self.function(F, x)


def recorded(function: Callable[[Any], Any], x: Any, head: float) -> tuple[np.ndarray, np.ndarray]:
    x.attach_grad()
    with autograd.record():
        y = function(x)
    y.backward(nd.full(y.shape, head, dtype=y.dtype))
    return y.asnumpy(), x.grad.asnumpy()


def eager(function: Callable[[Any, Any], Any], x: Any, head: float) -> tuple[np.ndarray, np.ndarray]:
    return recorded(lambda x: function(nd, x), x, head)


def hybridized(function: Callable[[Any, Any], Any], x: Any, head: float) -> tuple[np.ndarray, np.ndarray]:
    block = Applied(function)
    block.hybridize()
    return recorded(block, x, head)


def bound(function: Callable[[Any, Any], Any], x: Any, head: float) -> tuple[np.ndarray, np.ndarray]:
    executor = function(mx.sym, mx.sym.var("x")).bind(mx.cpu(), {"x": x}, args_grad={"x": nd.zeros_like(x)})
    y = executor.forward(is_train=True)[0]
    executor.backward(nd.full(y.shape, head, dtype=y.dtype))
    return y.asnumpy(), executor.grad_dict["x"].asnumpy()


FORMS = [eager, hybridized, bound]


@pytest.mark.parametrize("form", FORMS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize(
    ("function", "expected"),
    [(activation, None), (rectifier, PROPAGATED), (limits, LIMITED), (softsign, SOFTSIGN)],
    ids=["activation", "relu", "clip", "softsign"],
)
def test_special_floats(form: Any, dtype: str, function: Any, expected: Any) -> None:
    results, gradients = expected or (IN_LAYERS if dtype == "float32" else PROPAGATED)
    y, gradient = form(function, nd.array(ELEMENTS, dtype=dtype), 3)
    np.testing.assert_allclose(y[:7], results, rtol=2e-3)
    np.testing.assert_allclose(gradient[:7], gradients, rtol=2e-3)
    assert np.array_equal(y[7:], [y[0]] * 13, equal_nan=True)
    assert np.array_equal(gradient[7:], [gradient[0]] * 13, equal_nan=True)


def test_nan_in_layers_that_end_in_a_rectifier() -> None:
    """As in MXNet, where layers are not fused: NaN in a whole image becomes 0 after the rectifier."""
    x = np.ones((2, 3, 4, 4), "float32")
    x[0, 0] = nan
    for layer in (
        mx.gluon.nn.Conv2D(3, 1, activation="relu"),
        mx.gluon.nn.Dense(3, activation="relu", flatten=False),
        mx.gluon.rnn.RNN(3, activation="relu", layout="NTC"),
    ):
        layer.initialize()
        given = nd.array(x.reshape(2, 3, 16)) if isinstance(layer, mx.gluon.rnn.RNN) else nd.array(x)
        before = layer(given).asnumpy()
        layer.hybridize()
        for y in (before, layer(given).asnumpy()):
            assert not np.isnan(y).any()


X, Y = [[3, 1, 2], [4, 1, 1]], [[1, 4, 3], [4, 2, 2]]
ZERO = [[0, 0, 0], [0, 0, 0]]


# gradients of cotangents of 2, recorded from MXNet 1.9.1
@pytest.mark.parametrize(
    ("name", "by_x", "by_y"),
    [
        ("broadcast_mod", ZERO, ZERO),
        ("broadcast_div", [[2, 0, 0], [0, 0, 0]], [[-6, 0, 0], [0, 0, 0]]),
        ("elemwise_div", [[2, 0, 0], [0, 0, 0]], [[-6, 0, 0], [0, 0, 0]]),
        ("broadcast_power", [[2, 8, 24], [512, 4, 4]], [[6, 0, 10], [708, 0, 0]]),
        ("broadcast_hypot", ZERO, ZERO),
        ("broadcast_mul", [[2, 8, 6], [8, 4, 4]], [[6, 2, 4], [8, 2, 2]]),
    ],
)
def test_gradients_of_two_integers(name: str, by_x: Any, by_y: Any) -> None:
    x, y = nd.array(X, dtype="int32"), nd.array(Y, dtype="int32")
    x.attach_grad()
    y.attach_grad()
    with autograd.record():
        z = getattr(nd, name)(x, y)
    z.backward(nd.full(z.shape, 2, dtype="int32"))
    assert x.grad.asnumpy().tolist() == by_x
    assert y.grad.asnumpy().tolist() == by_y


# recorded from MXNet 1.9.1
@pytest.mark.parametrize("form", FORMS, ids=lambda f: f.__name__)
@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda F, x: x % 3, ZERO),
        (lambda F, x: 7 % x, ZERO),
        (lambda F, x: x / 2, [[1, 1, 1], [1, 1, 1]]),
        (lambda F, x: 7 / x, [[0, -14, -2], [0, -14, -14]]),
        (lambda F, x: x**2, [[12, 4, 8], [16, 4, 4]]),
        (lambda F, x: 2**x, [[10, 2, 4], [22, 2, 2]]),
        (lambda F, x: F.round(x), ZERO),
        (lambda F, x: F.rint(x), ZERO),
        (lambda F, x: F.floor(x), ZERO),
        (lambda F, x: F.exp(x), [[40, 4, 14], [108, 4, 4]]),
        (lambda F, x: F.sqrt(x), ZERO),
        (lambda F, x: F.square(x), [[12, 4, 8], [16, 4, 4]]),
        (lambda F, x: F.reciprocal(x), [[0, -2, 0], [0, -2, -2]]),
        (lambda F, x: F.clip(x, 2, 4), [[2, 0, 2], [2, 0, 0]]),
    ],
    ids="x%3 7%x x/2 7/x x**2 2**x round rint floor exp sqrt square reciprocal clip".split(),
)
def test_gradients_of_integers(form: Any, function: Any, expected: Any) -> None:
    assert form(function, nd.array(X, dtype="int32"), 2)[1].tolist() == expected


def test_the_gradient_of_a_quotient_of_unsigned_integers() -> None:
    gradient = eager(lambda F, x: 7 / x, nd.array(X, dtype="uint8"), 2)[1]
    assert gradient.tolist() == [[0, 242, 254], [0, 242, 242]]  # recorded from MXNet 1.9.1


@pytest.mark.parametrize("form", FORMS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("shape", [(70000,), (300, 300), (3, 30000)], ids=str)
def test_means_of_many_halves(form: Any, shape: tuple[int, ...]) -> None:
    """Neither the sum nor the number of elements is a float16."""
    x = nd.array(np.random.RandomState(0).rand(*shape) + 10, dtype="float16")
    mean = form(lambda F, x: F.mean(x), x, 8192)
    assert mean[0].item() == pytest.approx(10.5, abs=0.01)
    np.testing.assert_allclose(mean[1], np.full(shape, 8192 / x.size), rtol=1e-3)


def test_global_average_pooling_of_many_halves() -> None:
    x = nd.array(np.random.RandomState(0).rand(1, 2, 300, 300) + 10, dtype="float16")
    pooled = nd.Pooling(x, global_pool=True, pool_type="avg", kernel=(1, 1))
    np.testing.assert_allclose(pooled.asnumpy(), np.full((1, 2, 1, 1), 10.5), atol=0.01)
