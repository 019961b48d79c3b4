"""Training with Gluon beyond what recorded programs compare: random cells, refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mxforge as mx
import numpy as np
import pytest

nd, autograd, gluon = mx.nd, mx.autograd, mx.gluon
rnn, contrib = gluon.rnn, gluon.contrib.rnn


def stack() -> Any:
    cell = rnn.HybridSequentialRNNCell()
    with cell.name_scope():
        cell.add(rnn.LSTMCell(3, input_size=3))
        cell.add(rnn.DropoutCell(0.4))
        cell.add(rnn.ResidualCell(rnn.GRUCell(3, input_size=3)))
    return cell


RANDOM: dict[str, Callable[[], Any]] = {
    "zoneout": lambda: rnn.ZoneoutCell(rnn.LSTMCell(3, input_size=3), 0.4, 0.3),
    "variational": lambda: contrib.VariationalDropoutCell(rnn.GRUCell(3, input_size=3), 0.3, 0.2, 0.4),
    "stack": stack,
    "layer": lambda: rnn.LSTM(3, 2, layout="NTC", dropout=0.4, input_size=3),
}


class Unrolled(gluon.HybridBlock):
    """A cell over five steps, or a layer."""

    def __init__(self, cell: Any) -> None:
        super().__init__()
        with self.name_scope():
            self.cell = cell

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        if isinstance(self.cell, rnn.LSTM):
            return self.cell(x)
        self.cell.reset()
        return self.cell.unroll(5, x, layout="NTC", merge_outputs=True)[0]


def started(make: Callable[[], Any]) -> Any:
    net = Unrolled(make())
    mx.random.seed(1)
    net.initialize(mx.init.Uniform(0.6))
    return net


def loss_of(net: Any, x: Any) -> Any:
    """The loss with the same masks at each call."""
    mx.random.seed(3)
    output = net(x)
    return (output * nd.cos(nd.arange(output.size)).reshape(output.shape)).sum()


def gradients(net: Any, x: Any) -> list[np.ndarray]:
    x.attach_grad()
    with autograd.record():
        loss = loss_of(net, x)
    loss.backward()
    return [loss.asnumpy(), x.grad.asnumpy(), *[p.grad().asnumpy() for p in net.collect_params().values()]]


@pytest.mark.parametrize("name", RANDOM)
def test_gradients_of_random_cells_use_the_masks_of_their_forward_pass(name: str) -> None:
    """Against finite differences along a direction."""
    net, x = started(RANDOM[name]), nd.array(np.sin(np.arange(30)).reshape(2, 5, 3))
    direction = np.cos(np.arange(30) * 1.7).reshape(2, 5, 3)
    for _ in range(2):
        gradient = gradients(net, x)[1]
        with autograd.record():  # in training mode
            ends = [loss_of(net, nd.array(x.asnumpy() + step * direction)).asscalar() for step in (-1e-2, 1e-2)]
        assert (ends[1] - ends[0]) / 2e-2 == pytest.approx(float((gradient * direction).sum()), rel=1e-2, abs=1e-3)
        net.hybridize()


def test_zoneout_keeps_states_with_its_probability() -> None:
    """With probability 1, outputs and states are those of the step before: zeros."""
    cell = rnn.ZoneoutCell(rnn.RNNCell(4, input_size=3), 1.0, 1.0)
    cell.initialize(mx.init.One())
    with autograd.record():
        output, states = cell(nd.ones((2, 3)), cell.begin_state(func=nd.zeros, batch_size=2))
    assert not output.asnumpy().any() and not states[0].asnumpy().any()
    cell.reset()
    output, _ = cell(nd.ones((2, 3)), cell.begin_state(func=nd.zeros, batch_size=2))
    assert output.asnumpy().all()


def test_losses_that_mxnet_cannot_train() -> None:
    loss = gluon.loss.PoissonNLLLoss(from_logits=False, compute_full=True)
    x = nd.array([0.5, 2.0])
    x.attach_grad()
    with autograd.record():
        found = loss(x, nd.array([1.0, 3.0])).sum()
    found.backward()
    assert np.allclose(x.grad.asnumpy(), (1 - np.array([1, 3]) / np.array([0.5, 2.0])) / 2, rtol=1e-4)


def test_norms_that_are_not_finite_warn() -> None:
    arrays = [nd.array([1.0, np.inf]), nd.array([3.0])]
    with pytest.warns(UserWarning, match="nan or inf is detected"):
        assert gluon.utils.clip_global_norm(arrays, 1.0) == np.inf
