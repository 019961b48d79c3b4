"""Training on a simulated GPU computes the weights that training on the CPU computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mxforge as mx
import numpy as np
import pytest

pytestmark = pytest.mark.usefixtures("simulated_gpus")
nd, nn, rnn, autograd, gluon = mx.nd, mx.gluon.nn, mx.gluon.rnn, mx.autograd, mx.gluon
CONTEXTS = (mx.cpu(), mx.gpu(0))


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def sequential(*layers: Any) -> Any:
    net = nn.HybridSequential()
    net.add(*layers)
    return net


def lenet() -> Any:
    return sequential(
        nn.Conv2D(4, 3, activation="tanh"), nn.MaxPool2D(), nn.Conv2D(6, 3), nn.MaxPool2D(), nn.Flatten(), nn.Dense(3)
    )


def batch_norm() -> Any:
    return sequential(nn.Conv2D(4, 3), nn.BatchNorm(), nn.Activation("relu"), nn.GlobalAvgPool2D(), nn.Dense(3))


class LastOfLstm(gluon.HybridBlock):
    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.lstm, self.out = rnn.LSTM(8, layout="NTC"), nn.Dense(3)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return self.out(F.slice_axis(self.lstm(x), axis=1, begin=-1, end=None))


class Attention(gluon.HybridBlock):
    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.query, self.key, self.value = (nn.Dense(8, flatten=False) for _ in range(3))
            self.out = nn.Dense(3)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        scores = F.batch_dot(self.query(x), self.key(x), transpose_b=True) / 8**0.5
        return self.out(F.batch_dot(F.softmax(scores), self.value(x)))


class Looped(gluon.HybridBlock):
    """A state that is replaced in a loop."""

    def __init__(self, loop: Callable[[Any, Any, Any], Any]) -> None:
        super().__init__()
        self.loop = loop
        with self.name_scope():
            self.weight, self.out = self.params.get("weight", shape=(4, 4)), nn.Dense(3)

    def hybrid_forward(self, F: Any, x: Any, weight: Any) -> Any:
        return self.out(self.loop(F, x, weight))


def for_each(F: Any, x: Any, weight: Any) -> Any:
    def step(row: Any, states: Any) -> Any:
        new = F.tanh(row + F.dot(states[0], weight))
        return new, [new]

    _, (state,) = F.contrib.foreach(step, F.transpose(x, axes=(1, 0, 2)), [F.sum(x, axis=1)])
    return state


def while_loop(F: Any, x: Any, weight: Any) -> Any:
    def step(i: Any, state: Any) -> Any:
        return [], [i + 1, F.tanh(F.dot(state, weight) + state)]

    start = [F.zeros((1,)), F.mean(x, axis=1)]
    return F.contrib.while_loop(lambda i, state: i < 3, step, start, max_iterations=5)[1][1]


CLASSES = np.random.default_rng(0).integers(0, 10, (4, 5)).astype(np.float32)
NETWORKS: dict[str, tuple[Callable[[], Any], np.ndarray]] = {
    "dense": (lambda: sequential(nn.Dense(16, activation="relu"), nn.Dense(3)), normal(4, 12)),
    "lenet": (lenet, normal(2, 1, 14, 14)),
    "batch-norm": (batch_norm, normal(3, 2, 8, 8)),
    "embedding": (lambda: sequential(nn.Embedding(10, 6), nn.Dense(3)), CLASSES),
    "lstm": (LastOfLstm, normal(2, 60, 5)),
    "attention": (Attention, normal(2, 5, 8)),
    "dropout": (lambda: sequential(nn.Dense(16), nn.Dropout(0.5), nn.Dense(3)), normal(4, 12)),
    "foreach": (lambda: Looped(for_each), normal(2, 5, 4)),
    "while_loop": (lambda: Looped(while_loop), normal(2, 5, 4)),
}


def trained(net: Any, weights: list[np.ndarray], data: np.ndarray, context: mx.Context) -> list[np.ndarray]:
    """The losses, and the weights, after some steps from given weights."""
    parameters = list(net.collect_params().values())
    net.collect_params().reset_ctx(context)
    for parameter, value in zip(parameters, weights, strict=True):
        parameter.set_data(nd.array(value, ctx=context))
    mx.random.seed(5)
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.9})
    loss, losses = gluon.loss.SoftmaxCrossEntropyLoss(), []
    x, label = nd.array(data, ctx=context), nd.array(np.arange(len(data)) % 3, ctx=context)
    for _ in range(2):
        with autograd.record():
            value = loss(net(x), label)
        value.backward()
        trainer.step(len(data))
        losses.append(value.asnumpy())
    assert all(p.data().context == context for p in parameters)
    return [*losses, *(p.data().asnumpy() for p in parameters)]


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("form", ["hybridized", "eager"])
def test_training(name: str, form: str) -> None:
    make, data = NETWORKS[name]
    net = make()
    net.initialize(mx.init.Xavier())
    net(nd.array(data))
    if form == "hybridized":
        net.hybridize()
    weights = [p.data().asnumpy() for p in net.collect_params().values()]
    expected, found = (trained(net, weights, data, context) for context in CONTEXTS)
    for x, y in zip(expected, found, strict=True):
        np.testing.assert_allclose(y, x, rtol=1e-4, atol=2e-6)
    assert any((x != y).any() for x, y in zip(expected[2:], weights, strict=True))


def test_module() -> None:
    """A Module with several batches, an evaluation metric, and validation."""
    data, label = normal(12, 6), np.arange(12, dtype=np.float32) % 3
    network = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=8, name="hidden")
    network = mx.sym.FullyConnected(mx.sym.Activation(network, act_type="tanh"), num_hidden=3, name="out")
    results = []
    for context in CONTEXTS:
        mx.random.seed(1)
        module = mx.mod.Module(mx.sym.SoftmaxOutput(network, name="softmax"), context=context)
        batches = mx.io.NDArrayIter(data, label, 4)
        module.fit(batches, batches, num_epoch=2, initializer=mx.init.Xavier(), optimizer="adam")
        arguments, _ = module.get_params()
        results.append([*(arguments[n].asnumpy() for n in sorted(arguments)), module.predict(batches).asnumpy()])
    for x, y in zip(*results, strict=True):
        np.testing.assert_allclose(y, x, rtol=1e-4, atol=2e-6)


@pytest.mark.parametrize("request_", ["write", "add"])
def test_executor(request_: str) -> None:
    x, w = mx.sym.var("x"), mx.sym.var("w")
    symbol = mx.sym.sum(mx.sym.square(mx.sym.tanh(mx.sym.dot(x, w))), axis=1)
    results = []
    for context in CONTEXTS:
        arguments = {"x": nd.array(normal(3, 4), ctx=context), "w": nd.array(normal(4, 2), ctx=context)}
        gradients = {k: nd.ones(v.shape, ctx=context) for k, v in arguments.items()}
        executor = symbol.bind(context, arguments, gradients, request_)
        for _ in range(2):
            executor.forward(is_train=True)
            executor.backward(nd.array([1, 2, 3], ctx=context))
        results.append([executor.outputs[0].asnumpy(), *(g.asnumpy() for g in gradients.values())])
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-5, atol=1e-6)


def test_parts_of_a_cotangent_that_are_not_aligned() -> None:
    """The gradient of a concatenation is copied from parts of its cotangent, which later kernels cannot read there."""
    results = []
    for context in CONTEXTS:
        x = nd.array(normal(3, 33), ctx=context)
        x.attach_grad()
        with autograd.record():
            y = nd.concat(x, x, x, dim=0)
        y.backward(nd.array(normal(9, 33), ctx=context))
        results.append(x.grad.asnumpy())
    np.testing.assert_allclose(*results, rtol=1e-6, atol=1e-6)
