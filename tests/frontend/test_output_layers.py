"""Output layers define their own gradient: it does not depend on what reads them, nor on how the program runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mxforge as mx
import numpy as np
import pytest
from mxforge import autograd, gluon, nd, sym

DATA = np.array([[1, 2, 3], [4, 5, 7]], np.float32)
CLASSES = np.array([0, 2], np.float32)
TARGETS = np.array([[0, 2, 1], [1, 1, 2]], np.float32)
Layer = Callable[[Any, Any, Any, Any], Any]


@mx.operator.register("test_output_layers_penalty")
class Penalty(mx.operator.CustomOpProp):
    def __init__(self) -> None:
        super().__init__(need_top_grad=False)

    def create_operator(self, ctx: Any, in_shapes: Any, in_dtypes: Any) -> mx.operator.CustomOp:
        return _Penalty()


class _Penalty(mx.operator.CustomOp):
    def forward(self, is_train: Any, req: Any, in_data: Any, out_data: Any, aux: Any) -> None:
        self.assign(out_data[0], req[0], in_data[0] * 2)

    def backward(self, req: Any, out_grad: Any, in_data: Any, out_data: Any, in_grad: Any, aux: Any) -> None:
        self.assign(in_grad[0], req[0], in_data[0] * 5)


LAYERS: dict[str, Layer] = {
    "SoftmaxOutput": lambda F, a, classes, targets: F.SoftmaxOutput(a, classes),
    "LinearRegressionOutput": lambda F, a, classes, targets: F.LinearRegressionOutput(a, targets),
    "MAERegressionOutput": lambda F, a, classes, targets: F.MAERegressionOutput(a, targets),
    "LogisticRegressionOutput": lambda F, a, classes, targets: F.LogisticRegressionOutput(a, targets),
    "MakeLoss": lambda F, a, classes, targets: F.MakeLoss(a * a),
    "make_loss": lambda F, a, classes, targets: F.make_loss(a * a),
    "SVMOutput": lambda F, a, classes, targets: F.SVMOutput(a, classes),
    "Custom": lambda F, a, classes, targets: F.Custom(a, op_type="test_output_layers_penalty"),
}

READERS: dict[str, Callable[[Any, Any], Any]] = {
    "argmax": lambda F, y: F.argmax(y, axis=1),
    "BlockGrad": lambda F, y: F.BlockGrad(y) * 3,
    "comparison": lambda F, y: y == y,
    "zeros_like": lambda F, y: F.zeros_like(y),
    "loop": lambda F, y: F.contrib.foreach(lambda row, s: (F.argmax(row, axis=0), s), y, F.zeros((1,)))[0],
}


def inputs() -> list[Any]:
    return [nd.array(x) for x in (DATA, CLASSES, TARGETS)]


def gradient(layer: Layer, reader: Callable[[Any, Any], Any], hybridize: bool) -> np.ndarray:
    class Net(gluon.HybridBlock):
        def hybrid_forward(self, F: Any, a: Any, classes: Any, targets: Any) -> Any:
            return reader(F, layer(F, a, classes, targets))

    net, (a, classes, targets) = Net(), inputs()
    if hybridize:
        net.hybridize()
    a.attach_grad()
    with autograd.record():
        y = net(a, classes, targets)
    y.backward()
    return gradient_of(a)


def gradient_of(variable: Any) -> np.ndarray:
    return variable.grad.asnumpy()


def gradient_of_executor(layer: Layer, reader: Callable[[Any, Any], Any]) -> np.ndarray:
    y = reader(sym, layer(sym, *(sym.var(name) for name in ("a", "classes", "targets"))))
    arrays = dict(zip(("a", "classes", "targets"), inputs(), strict=True))
    given = {name: arrays[name] for name in y.list_arguments()}
    found = nd.zeros(DATA.shape)
    executor = y.bind(mx.cpu(), given, args_grad={"a": found})
    executor.forward(is_train=True)
    executor.backward([nd.ones(output.shape) for output in executor.outputs])
    return found.asnumpy()


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.filterwarnings("ignore:The .* input to HybridBlock is not used")
def test_a_layer_that_only_operators_without_gradient_read_has_its_gradient(layer: str) -> None:
    """As in MXNet 1.9.1 in all three ways to run. Graphs had gradient 0: no cotangent reached the layer."""
    expected = gradient(LAYERS[layer], lambda F, y: y, hybridize=False)
    assert np.abs(expected).max() > 0.1
    for name, reader in READERS.items():
        for hybridize in (False, True):
            np.testing.assert_allclose(gradient(LAYERS[layer], reader, hybridize), expected, rtol=1e-5, err_msg=name)
        np.testing.assert_allclose(gradient_of_executor(LAYERS[layer], reader), expected, rtol=1e-5, err_msg=name)


@pytest.mark.filterwarnings("ignore:The .* input to HybridBlock is not used")
@pytest.mark.parametrize("hybridize", [False, True])
def test_other_operators_have_no_gradient_without_a_cotangent(hybridize: bool) -> None:
    for layer in (lambda F, a, *_: F.relu(a), lambda F, a, *_: F.softmax(a), lambda F, a, *_: F.BlockGrad(a)):
        assert not gradient(layer, READERS["argmax"], hybridize).any()


@pytest.mark.parametrize(
    ("shape", "rows", "above"),
    [((3,), 1, 1), ((3, 4), 3, 8), ((2, 3, 4), 6, 20), ((2, 3, 4, 5), 24, 116), ((5, 1), 5, 1), ((1, 5), 1, 1)],
)
def test_normalization_of_make_loss(shape: tuple[int, ...], rows: int, above: int) -> None:
    """The divisors are recorded from MXNet 1.9.1: "batch" is the product of all extents but the last."""
    x = nd.array(np.arange(np.prod(shape)).reshape(shape) - 1.5)
    x.attach_grad()
    for normalization, divisor in (("null", 1), ("batch", rows), ("valid", above)):
        with autograd.record():
            y = nd.MakeLoss(x, grad_scale=6, normalization=normalization, valid_thresh=2)
        y.backward()
        np.testing.assert_allclose(gradient_of(x), np.full(shape, 6 / divisor), rtol=1e-6)


def second_gradient(function: Callable[[Any, Any], Any], hybridize: bool) -> tuple[float, float]:
    """The sums of the gradient and of the gradient's own gradient."""

    class Net(gluon.HybridBlock):
        def hybrid_forward(self, F: Any, a: Any) -> Any:
            return function(F, a)

    net, a = Net(), nd.array(DATA / 4)
    if hybridize:
        net.hybridize()
    a.attach_grad()
    with autograd.record():
        [slope] = autograd.grad([net(a)], [a], create_graph=True, retain_graph=True)
    slope.backward()
    return float(slope.sum().asscalar()), float(gradient_of(a).sum())


@pytest.mark.parametrize("hybridize", [False, True])
@pytest.mark.parametrize(
    ("function", "first", "second"),
    [
        (lambda F, a: F.MakeLoss(F.sin(a)), 3.2556, -4.1829),
        (lambda F, a: F.sin(F.MakeLoss(F.sin(a))), 3.2556, -4.1829),
        (lambda F, a: F.sin(F.make_loss(F.sin(a))), 3.2556, -4.1829),
        (lambda F, a: F.exp(F.MakeLoss(F.exp(a))), 17.0130, 17.0130),
        (lambda F, a: F.MakeLoss(F.sin(a)) * 2, 3.2556, -4.1829),
        (lambda F, a: F.elemwise_add(F.MakeLoss(F.sin(a)), F.sin(a)), 6.5111, -8.3658),
    ],
)
def test_second_gradients_do_not_contain_the_gradient_of_a_loss_again(
    function: Callable[[Any, Any], Any], first: float, second: float, hybridize: bool
) -> None:
    """The numbers are recorded from MXNet 1.9.1."""
    assert second_gradient(function, hybridize) == pytest.approx((first, second), abs=1e-3)


def test_the_second_gradient_of_a_softmax_output_is_that_of_the_cross_entropy() -> None:
    """MXNet has none. The gradient p - onehot depends on the data through p alone."""
    a, classes = nd.array(DATA), nd.array(CLASSES)
    a.attach_grad()
    weights = nd.array([[1, 2, 4], [3, 1, 2]])
    with autograd.record():
        [slope] = autograd.grad([nd.SoftmaxOutput(a, classes)], [a], create_graph=True, retain_graph=True)
    slope.backward(weights)
    p = np.exp(DATA) / np.exp(DATA).sum(1, keepdims=True)
    w = weights.asnumpy()
    np.testing.assert_allclose(gradient_of(a), p * (w - (p * w).sum(1, keepdims=True)), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", ["LinearRegressionOutput", "LogisticRegressionOutput", "MAERegressionOutput"])
@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (2, 3, 0)])
def test_a_regression_without_elements_has_a_gradient(name: str, shape: tuple[int, ...]) -> None:
    with mx.util.np_shape():
        x: Any = mx.nd.zeros(shape)
        x.attach_grad()
        with mx.autograd.record():
            y = getattr(mx.nd, name)(x, mx.nd.zeros(shape))
        y.backward()
        assert x.grad.shape == shape


@pytest.mark.parametrize("normalization", ["null", "batch", "valid"])
def test_a_loss_without_elements_has_a_gradient(normalization: str) -> None:
    with mx.util.np_shape():
        x: Any = mx.nd.zeros((0, 3))
        labels = mx.nd.zeros((0,))
        x.attach_grad()
        for layer in (mx.nd.MakeLoss, lambda x, **parameters: mx.nd.SoftmaxOutput(x, labels, **parameters)):
            with mx.autograd.record():
                y = layer(x, normalization=normalization)
            y.backward()
            assert x.grad.shape == (0, 3)
