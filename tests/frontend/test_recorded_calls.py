"""Recorded calls whose signature is known: what is on the tape can differ from call to call."""

from __future__ import annotations

import threading
from collections.abc import Generator
from typing import Any

import mxforge as mx
import numpy as np
import pytest
from mxforge.frontend.ndarray import recorded_calls
from mxforge.frontend.ndarray.eager import bind, operator_named
from mxforge.ir.caches import clear_caches
from mxforge.runtime.modes import hooks

nd, autograd = mx.nd, mx.autograd


def variable(*values: float) -> Any:
    x = nd.array(values)
    x.attach_grad()
    return x


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> Generator[list[Any]]:
    """The fast paths of recorded calls that are taken."""
    clear_caches()  # drops those that are not noted
    found: list[Any] = []
    make = recorded_calls.fast_path

    def noted(*args: Any, **constants: Any) -> Any:
        path = make(*args, **constants)

        def call(*args: Any) -> Any:
            found.append(path)
            return path(*args)

        return call

    monkeypatch.setattr(recorded_calls, "fast_path", noted)
    yield found
    clear_caches()


OPERATORS = {
    "arithmetic": lambda x: 2 - x * 3,
    "method": lambda x: abs(-x),
    "function": lambda x: nd.maximum(x, 1.5),
    "operator": nd.tanh,
    "mode": lambda x: nd.LeakyReLU(nd.Dropout(x, p=0.0), act_type="elu"),
    "several results": lambda x: nd.split(nd.softmax(x, axis=-1), num_outputs=2, axis=0)[1],
}


@pytest.mark.parametrize("name", OPERATORS)
def test_later_calls_take_the_fast_path(plans: list[Any], name: str) -> None:
    function = OPERATORS[name]
    found = []
    for _ in range(3):
        x = variable(1, 2)
        before = len(plans)
        with autograd.record():
            y = function(x)
        y.backward()
        found.append((y.asnumpy().tolist(), x.grad.asnumpy().tolist(), len(plans) - before))
    assert found[0][:2] == found[1][:2]
    assert found[1] == found[2] and found[1][2] > 0


def test_operands_are_on_the_tape_or_not() -> None:
    for _ in range(2):
        x, w, constant = variable(1, 2), variable(3, 4), nd.array([5.0, 6.0])
        with autograd.record():
            y = x * constant + constant * w
            unrecorded = constant * constant
            with autograd.pause():
                paused = x * w
            z = y * unrecorded * paused
        z.backward()
        assert x.grad.asnumpy().tolist() == (constant * unrecorded * paused).asnumpy().tolist()
        assert w.grad.asnumpy().tolist() == x.grad.asnumpy().tolist()
        with pytest.raises(mx.MXNetError, match="not in a computational graph"):
            unrecorded.backward()


def test_an_array_whose_graph_was_freed_is_a_constant() -> None:
    for _ in range(3):
        x = variable(1, 2)
        with autograd.record():
            y = x * x
            y.backward()
            z = x * y
        z.backward()
        assert x.grad.asnumpy().tolist() == y.asnumpy().tolist()


def test_no_fast_path_for_a_thread_that_does_not_record() -> None:
    x = variable(1, 2)
    with autograd.record():
        _ = x * x
        y = x * x
        with autograd.pause():
            assert hooks.watched is False
            paused = x * x
    with pytest.raises(mx.MXNetError, match="not in a computational graph"):
        paused.backward()
    y.backward()
    assert x.grad.asnumpy().tolist() == [2, 4]


def dense() -> Any:
    net = mx.gluon.nn.Dense(2, in_units=2)
    net.initialize(mx.init.One())
    net.hybridize()
    return net


def gradients(net: Any, x: Any) -> Any:
    with autograd.record():
        y = net(x)
    y.backward()
    return net.weight.grad().asnumpy().tolist()


def test_a_block_follows_changes_of_its_parameters(plans: list[Any]) -> None:
    net, x = dense(), nd.array([[1.0, 2.0]])
    for _ in range(3):
        assert gradients(net, x) == [[1, 2], [1, 2]]
    assert len(plans) == 2
    net.bias.grad_req = "null"
    net.weight.set_data(nd.array([[1.0, 0.0], [0.0, 1.0]]))
    assert gradients(net, x) == [[1, 2], [1, 2]]
    assert net(x).asnumpy().tolist() == [[1, 2]]
    net.weight.grad_req = "add"
    for step in (1, 2):
        assert gradients(net, x) == [[step, 2 * step], [step, 2 * step]]
    net.cast("float64")
    x = x.astype("float64")
    assert gradients(net, x) == [[1, 2], [1, 2]]
    assert net.weight.grad().dtype == np.float64


def test_a_block_by_its_data_too(plans: list[Any]) -> None:
    net, data = dense(), nd.array([[1.0, 2.0]])
    x = data.copy()
    x.attach_grad()
    for one in (data, x, data, x):
        gradients(net, one)
    assert x.grad.asnumpy().tolist() == [[2, 2]]
    assert len(plans) == 3 and plans[0] is not plans[1]


@pytest.mark.parametrize("hybridize", [True, False])
def test_each_call_draws_other_random_numbers(plans: list[Any], hybridize: bool) -> None:
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Dropout(0.5), mx.gluon.nn.BatchNorm(in_channels=8))
    net.initialize()
    if hybridize:
        net.hybridize()

    def train(steps: int) -> list[bytes]:
        mx.random.seed(3)
        seen = []
        for _ in range(steps):
            x = nd.ones((4, 8))
            x.attach_grad()
            with autograd.record():
                y = net(x)
                z = y * y
            z.backward()
            seen += [y.asnumpy().tobytes(), x.grad.asnumpy().tobytes()]
        with autograd.record(train_mode=False):
            assert net(nd.ones((4, 8))).asnumpy().std(axis=0).max() == 0
        return seen

    first = train(3)
    assert len(set(first)) == 6 and train(3) == first
    assert plans


def test_the_mode_of_a_fast_path_is_that_of_the_call() -> None:
    x = variable(*[1.0] * 100)
    for _ in range(2):
        with autograd.record():
            assert (nd.Dropout(x).asnumpy() == 0).any()
        with autograd.record(train_mode=False):
            assert (nd.Dropout(x).asnumpy() == 1).all()


def test_fast_paths_in_training_mode_without_a_tape() -> None:
    """Another mode has fast paths of its own, and the mode of one thread does not change calls of others."""
    net, x = mx.gluon.nn.Dropout(0.5), nd.ones((100,))
    seen: list[Any] = []
    net.hybridize()
    for _ in range(3):
        assert (net(x).asnumpy() == 1).all() and (nd.Dropout(x).asnumpy() == 1).all()
        with autograd.train_mode():
            assert hooks.watched
            assert (net(x).asnumpy() == 0).any() and (nd.Dropout(x).asnumpy() == 0).any()
            assert (x + x).asnumpy().sum() == 200
            other = threading.Thread(target=lambda: seen.append(net(x).asnumpy()))
            other.start()
            other.join()
            assert (seen.pop() == 1).all()
    assert not hooks.watched


def test_observers_see_recorded_calls(plans: list[Any]) -> None:
    class Observer:
        def __init__(self) -> None:
            self.names: list[str] = []

        def before_call(self, call: Any) -> None:
            self.names.append(call.specialization.name)

        def after_call(self, call: Any, results: Any) -> None:
            pass

    net, x = dense(), nd.array([[1.0, 2.0]])
    gradients(net, x)
    observer = Observer()
    hooks.add(observer)
    try:
        gradients(net, x)
        with autograd.record():
            _ = nd.relu(variable(1, 2)) * 2
    finally:
        hooks.remove(observer)
    assert len(observer.names) == 3 and not plans


def test_recorded_and_other_calls_share_a_program() -> None:
    x = variable(1, 2, 3)
    function = bind(operator_named("relu"), {}).function
    with autograd.record():
        nd.relu(x)
        recorded = function.specialization((x,))
    nd.relu(x)
    other = function.specialization((x,))
    derivative = recorded.differentiable.derivative((0,))
    assert recorded is not other
    assert derivative.forward.specialization.executable is other.executable
