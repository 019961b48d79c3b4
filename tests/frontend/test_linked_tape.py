"""Backward passes by one program: the same bits as call by call, and the tapes that have none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mxforge as mx
import numpy as np
import pytest
from mxforge.frontend.ndarray import linked_tape
from mxforge.frontend.ndarray.linked_tape import _LinkedTape
from mxforge.ir.caches import clear_caches
from mxforge.runtime.host import executable as executables

nd, autograd = mx.nd, mx.autograd


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[_LinkedTape]:
    """The tapes whose programs run, in order. No structure of a tape is known at the start."""
    clear_caches()
    found: list[_LinkedTape] = []
    run = _LinkedTape.run

    def noted(self: _LinkedTape, *arguments: Any) -> Any:
        gradients = run(self, *arguments)
        if gradients is not None:
            found.append(self)
        return gradients

    monkeypatch.setattr(_LinkedTape, "run", noted)
    return found


def variable(*shape: int, seed: int = 0, req: str = "write") -> Any:
    x = nd.array(np.random.default_rng(seed).standard_normal(shape, np.float32))
    x.attach_grad(req)
    return x


def bits(arrays: Any) -> list[bytes]:
    return [a.asnumpy().tobytes() for a in arrays]


def passes(forward: Callable[..., Any], variables: Any, count: int = 3) -> list[list[bytes]]:
    """The gradients of several backward passes."""
    found = []
    for _ in range(count):
        with autograd.record():
            y = forward(*variables)
        y.backward()
        found.append(bits([x.grad for x in variables]))
    return found


def test_a_tape_with_much_scratch_memory_is_linked_at_once(
    runs: list[_LinkedTape], monkeypatch: pytest.MonkeyPatch
) -> None:
    def forward(x: Any) -> Any:
        for _ in range(6):
            x = nd.relu(nd.dot(x, x))
        return x

    calm = passes(forward, [variable(30, 30)])
    assert len(runs) == 2
    monkeypatch.setattr(linked_tape, "_MUCH_SCRATCH", 1000)
    clear_caches()
    runs.clear()
    assert passes(forward, [variable(30, 30)]) == calm and len(runs) == 3


def test_gradients_are_the_same_from_the_second_pass_on(runs: list[_LinkedTape]) -> None:
    """Sums of gradients, copies of cotangents, views and products."""
    x, w, b = variable(4, 6), variable(5, 6, seed=1), variable(5, seed=2)

    def forward(x: Any, w: Any, b: Any) -> Any:
        hidden = nd.relu(nd.FullyConnected(x, w, b, num_hidden=5))
        return ((hidden + hidden.reshape((-1,)).reshape((4, 5))) * nd.softmax(hidden) + b).sum(axis=0)

    first, *later = passes(forward, (x, w, b))
    assert later == [first, first]
    assert len(runs) == 2 and runs[0] is runs[1]


def test_a_few_calls_are_linked_at_once(runs: list[_LinkedTape]) -> None:
    net = mx.gluon.nn.Dense(3, in_units=4)
    net.initialize()
    net.hybridize()
    loss = mx.gluon.loss.L2Loss()
    loss.hybridize()
    x, y = variable(2, 4), nd.ones((2, 3))
    for _ in range(2):
        with autograd.record():
            error = loss(net(x), y)
        error.backward()
    assert len(runs) == 2
    expected = np.ones((2, 3)).T @ x.asnumpy()
    gradient = (net(x).asnumpy() - 1).T @ x.asnumpy() / 3
    assert gradient.shape == expected.shape
    np.testing.assert_allclose(net.weight.grad().asnumpy(), gradient, rtol=1e-5, atol=1e-6)


def test_another_structure_is_another_program(runs: list[_LinkedTape]) -> None:
    """Which arrays the variables are does not matter, but that two operands are the same."""
    x, w = variable(3), variable(3, seed=1)
    passes(lambda x, w: x * w, (x, w))
    passes(lambda x, w: w * x, (x, w))
    assert bits([x.grad, w.grad]) == bits([w, x])
    passes(lambda x: x * x, (x,))
    assert bits([x.grad]) == bits([2 * x])
    assert len(runs) == 9 and len({id(r) for r in runs}) == 2


def test_gradients_that_are_added(runs: list[_LinkedTape]) -> None:
    x, w = variable(3, req="add"), variable(3, seed=1)
    for number in range(1, 4):
        with autograd.record():
            y = x * w
        y.backward()
        np.testing.assert_allclose(x.grad.asnumpy(), number * w.asnumpy(), rtol=1e-6)
        assert bits([w.grad]) == bits([x])
    assert len(runs) == 3


def test_weighted_heads_and_a_graph_that_is_kept(runs: list[_LinkedTape]) -> None:
    x = variable(3)
    for _ in range(2):
        with autograd.record():
            y = nd.exp(x)
            z = y * y
        for factor in (1, 2):
            autograd.backward([y, z], [factor * nd.ones(3), nd.zeros(3)], retain_graph=True)
            np.testing.assert_array_equal(x.grad.asnumpy(), factor * y.asnumpy())
    assert len(runs) == 4


def test_grad_returns_arrays_of_its_own(runs: list[_LinkedTape]) -> None:
    x, w = variable(3), variable(3, seed=1)
    before = bits([x.grad, w.grad])
    seed = nd.array([1.0, 2.0, 3.0])
    with autograd.record():
        y = x + w
    by_x, by_w = autograd.grad(y, [x, w], seed)
    by_x[:] = 7
    assert by_w.asnumpy().tolist() == seed.asnumpy().tolist() == [1, 2, 3]
    assert bits([x.grad, w.grad]) == before and len(runs) == 1


def test_a_gradient_that_the_graph_reads_is_not_overwritten_early(runs: list[_LinkedTape]) -> None:
    """x.grad is an operand of y: the gradient of w reads it after that of x is computed."""
    x, w = variable(3), variable(3, seed=1)
    for step in range(3):
        x.grad[:] = step + 2
        with autograd.record():
            y = (x * 3 * w) + (x.grad * w) * 2
        y.backward()
        np.testing.assert_allclose(w.grad.asnumpy(), 3 * x.asnumpy() + 2 * (step + 2), rtol=1e-5)
        np.testing.assert_allclose(x.grad.asnumpy(), 3 * w.asnumpy(), rtol=1e-6)
    assert len(runs) == 2


def test_arrays_that_share_a_gradient(runs: list[_LinkedTape]) -> None:
    x, w, gradient = nd.array([1.0, 2.0]), nd.array([3.0, 4.0]), nd.zeros(2)
    autograd.mark_variables([x, w], [gradient, gradient])
    for _ in range(2):
        with autograd.record():
            y = x * w
        y.backward()
        assert gradient.asnumpy().tolist() in ([3, 4], [1, 2])
    assert len(runs) == 2


@pytest.mark.parametrize("calls", [1, 2])
def test_moving_statistics_follow_each_call(runs: list[_LinkedTape], calls: int) -> None:
    """Statistics that one program replaces. A second call replaces them again, so the calls run one by one."""

    def train(steps: int) -> list[bytes]:
        net = mx.gluon.nn.HybridSequential()
        net.add(mx.gluon.nn.Dense(4, in_units=3), mx.gluon.nn.BatchNorm(in_channels=4))
        net.initialize(mx.init.One())
        net.hybridize()
        for step in range(steps):
            x = nd.array(np.random.default_rng(step).standard_normal((5, 3), np.float32))
            with autograd.record():
                y = nd.add_n(*[net(x * (i + 1)) for i in range(calls)])
            y.backward()
        return bits([net[1].running_mean.data(), net[1].running_var.data(), net[0].weight.grad()])

    linked = train(3)
    assert len(runs) == (3 if calls == 1 else 0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mxforge.frontend.ndarray.gradients.linked_gradients", lambda *args: None)
        assert train(3) == linked


def test_a_function_in_python_is_called_by_the_tape(runs: list[_LinkedTape]) -> None:
    class Double(autograd.Function):
        def forward(self, x: Any) -> Any:
            return 2 * x

        def backward(self, dy: Any) -> Any:
            return 2 * dy

    x = variable(3)
    for _ in range(3):
        with autograd.record():
            y = Double()(x) * x
        y.backward()
    np.testing.assert_allclose(x.grad.asnumpy(), 4 * x.asnumpy(), rtol=1e-6)
    assert not runs


def test_profilers_see_the_launches_of_a_linked_tape(runs: list[_LinkedTape]) -> None:
    x, w = variable(3), variable(3, seed=1)
    passes(lambda x, w: nd.exp(x) * w, (x, w), 1)
    seen: list[str] = []
    executables.listen(
        lambda program, launch, start, end: seen.append(program.label(launch) if launch else program.name)
    )
    try:
        passes(lambda x, w: nd.exp(x) * w, (x, w), 1)
    finally:
        executables.listen(None)
    assert len(runs) == 2
    assert any("exp" in name for name in seen[2:]) and any("mul" in name for name in seen[2:])
