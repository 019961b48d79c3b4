"""Fast paths: how many steps calls take in Python, on the host and on other devices."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import mxforge as mx
import numpy as np
import pytest
from mxforge.frontend.ndarray import arithmetic
from mxforge.runtime.devices import open_device

nd, autograd = mx.nd, mx.autograd
GPU = mx.gpu(0)
DEVICE = ("simulated_gpu.py", "simulated_stream.py", "ttir.py")
"""The files of the simulated GPUs, whose own steps do not count."""


def steps(function: Callable[[], Any]) -> list[str]:
    """The Python functions that a call of `function` calls, and itself, without those that a device calls,
    and without finalizers: how much memory comes free depends on what ran before."""
    seen: list[str] = []
    inside = 0

    def note(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal inside
        if event == "call":
            if inside or frame.f_code.co_filename.endswith(DEVICE):
                inside += 1
            elif frame.f_code.co_name != "__del__":
                seen.append(frame.f_code.co_qualname)
        elif event == "return" and inside:
            inside -= 1

    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(None)
    return seen


def lists_of(function: Callable[[], Any]) -> int:
    """How many lists of launches the GPU is given during a call."""
    device: Any = open_device("gpu", 0)
    before = device.lists
    function()
    return device.lists - before


class Training:
    """A network of three layers, its loss and its trainer on a context."""

    def __init__(self, context: mx.Context) -> None:
        self.net = mx.gluon.nn.HybridSequential()
        for units, inputs, activation in ((16, 20, "relu"), (16, 16, "relu"), (10, 16, None)):
            self.net.add(mx.gluon.nn.Dense(units, activation=activation, in_units=inputs))
        self.net.initialize(ctx=context)
        self.loss = mx.gluon.loss.SoftmaxCrossEntropyLoss()
        for block in (self.net, self.loss):
            block.hybridize()
        self.trainer = mx.gluon.Trainer(self.net.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.9})
        self.data = nd.array(np.linspace(-1, 1, 160).reshape(8, 20), ctx=context)
        self.label = nd.array(range(8), ctx=context)

    def predict(self) -> Any:
        return self.net(self.data)

    def step(self) -> Any:
        with autograd.record():
            loss = self.loss(self.net(self.data), self.label)
        loss.backward()
        self.trainer.step(8)
        return loss


@pytest.mark.usefixtures("simulated_gpus")
def test_steps_on_a_gpu() -> None:
    training = Training(GPU)
    for _ in range(3):
        training.step()
    step_lists = lists_of(training.step)
    assert step_lists == 4  # of the network, the loss, the gradients and the update
    assert len(steps(training.step)) <= 55
    for _ in range(3):
        training.predict()
    assert lists_of(training.predict) == 1
    assert len(steps(training.predict)) <= 8


def test_steps_on_the_host() -> None:
    training = Training(mx.cpu())
    for _ in range(3):
        training.step()
    assert len(steps(training.step)) <= 75
    for _ in range(3):
        training.predict()
    assert len(steps(training.predict)) <= 6


@pytest.mark.usefixtures("simulated_gpus")
def test_a_step_on_a_gpu_computes_what_one_on_the_host_does() -> None:
    here, there = Training(mx.cpu()), Training(GPU)
    there.net[0](there.data)
    for mine, other in zip(here.net.collect_params().values(), there.net.collect_params().values(), strict=True):
        other.set_data(mine.data())
    for _ in range(5):
        losses = [training.step().asnumpy() for training in (here, there)]
        np.testing.assert_allclose(*losses, rtol=1e-5)
    np.testing.assert_allclose(here.predict().asnumpy(), there.predict().asnumpy(), rtol=1e-4, atol=1e-5)


CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "x + y": lambda x, y: x + y,
    "x * 2": lambda x, y: x * 2,
    "2 - x": lambda x, y: 2 - x,
    "-x": lambda x, y: -x,
    "exp": lambda x, y: nd.exp(x),
    "several results": lambda x, y: nd.split(x, 2, axis=0)[1],
    "numbers": lambda x, y: nd.clip(x, 0.25, 0.75),
    "a random key": lambda x, y: nd.random.uniform(0, 1, shape=(3,), ctx=x.context),
}


@pytest.mark.usefixtures("simulated_gpus")
@pytest.mark.parametrize("name", CALLS)
def test_eager_calls_on_a_gpu(name: str) -> None:
    """They take fast paths, after calls on the host with equal dtypes and shapes too."""
    call = CALLS[name]
    arrays = [[nd.array([[0.5, 1], [2, 0]], ctx=context) for _ in range(2)] for context in (mx.cpu(), GPU)]
    (x, y), there = arrays
    for _ in range(2):
        mx.random.seed(1)
        expected = call(x, y).asnumpy()
        mx.random.seed(1)
        np.testing.assert_allclose(call(*there).asnumpy(), expected, rtol=1e-6)
        assert call(*there).context == GPU
    if name != "a random key":  # with a context it takes the slow path
        assert len(steps(lambda: call(*there))) <= 13
        assert lists_of(lambda: call(*there)) == 1


@pytest.mark.usefixtures("simulated_gpus")
def test_writes_in_place_on_a_gpu() -> None:
    x, y = nd.ones((4,), ctx=GPU), nd.ones((4,), ctx=GPU)
    for _ in range(3):
        x += y
        x *= 2

    def both() -> None:
        nonlocal x
        x += y
        x *= 2

    assert len(steps(both)) <= 16
    assert x.asnumpy().tolist() == [46] * 4


@pytest.mark.usefixtures("simulated_gpus")
def test_a_block_on_a_gpu_follows_writes_to_its_parameters() -> None:
    net = mx.gluon.nn.Dense(3, use_bias=False, in_units=2)
    net.initialize(mx.init.One(), ctx=GPU)
    net.hybridize()
    x = nd.ones((1, 2), ctx=GPU)
    for i in range(1, 5):
        assert net(x).asnumpy().tolist() == [[2 * i] * 3]
        weight = net.weight.data(GPU)
        weight += 1
    net.weight.set_data(nd.zeros((3, 2)))
    assert net(x).asnumpy().tolist() == [[0] * 3]
    assert len(steps(lambda: net(x))) <= 8


@pytest.mark.usefixtures("simulated_gpus")
def test_a_number_beside_an_array_of_the_host_stays_there(monkeypatch: pytest.MonkeyPatch) -> None:
    shape, number = (5, 7), 3.625
    assert (nd.ones(shape, ctx=GPU) * number).context == GPU  # the fast path of this shape is one of the GPU
    monkeypatch.setattr(arithmetic, "number_on", lambda *_: pytest.fail("a copy on the GPU"))
    for result in (nd.ones(shape) * number, number * nd.ones(shape), nd.ones(shape) * 7.375):
        assert result.context == mx.cpu() and result.asnumpy()[0, 0] in (number, 7.375)
