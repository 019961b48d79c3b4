"""Training steps as StableHLO: run step by step, they train as Gluon's Trainer and Module do."""

from __future__ import annotations

from typing import Any

import mxforge as mx
import numpy as np
import pytest
from mxforge.codegen.dynamic_batch import dynamic_batch_text
from mxforge.codegen.stablehlo.export import stablehlo_text
from mxforge.frontend.optimizer.base import state_arrays
from mxforge.frontend.training_step import COUNT, LOSSES, TrainingStep, with_loss
from mxforge.ir.dialects.core import evaluate_graph

pytest.importorskip("torch_mlir.ir", reason="the torch-mlir wheel, which holds upstream MLIR, is not installed")
from stablehlo_judge import evaluated, refined

nn = mx.gluon.nn
Arrays = list[np.ndarray[Any, Any]]


def network(*layers: Any) -> Any:
    """A network whose parameters are equal in each call."""
    mx.random.seed(3)
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(nn.Conv2D(4, 3, in_channels=3, use_bias=False), nn.BatchNorm(in_channels=4), nn.Activation("relu"))
        net.add(*layers, nn.Dense(5, in_units=144))
    net.initialize(mx.init.Xavier())
    net[-1].bias.set_data(mx.nd.ones(5))  # whether it decays matters
    return net


def batch(size: int = 6) -> tuple[Any, Any]:
    rng = np.random.default_rng(size)
    data = mx.nd.array(rng.standard_normal((size, 3, 8, 8)).astype("float32"))
    return data, mx.nd.array(rng.integers(0, 5, size))


def step_of(net: Any, optimizer: Any, loss: str = "softmax_cross_entropy", size: int = 6) -> TrainingStep:
    symbol = with_loss(net(mx.sym.var("data")), loss, "label")
    data, label = batch(size)
    parameters = net.collect_params()
    types = {name: p.data()._type() for name, p in parameters.items()}
    trained = [name for name in symbol.list_arguments() if name in parameters]
    types = {**types, "data": data._type(), "label": label._type()}
    return TrainingStep(symbol, types, trained, optimizer, of_gluon=parameters)


def first_states(step: TrainingStep, net: Any) -> Arrays:
    parameters = {name: p.data() for name, p in net.collect_params().items()}
    states = [parameters[name].asnumpy() for name in (*step.parameters, *step.auxiliary)]
    for update in step.updates:
        made = step_optimizer(step).create_state(update.index, parameters[update.name])
        states += [a.asnumpy() for a in state_arrays(made)]
    return [*states, *([np.array(0, np.int32)] if step.counts else [])]


def step_optimizer(step: TrainingStep) -> Any:
    return step.updates[0].optimizer


OPTIMIZERS: list[tuple[str, dict[str, Any]]] = [
    ("sgd", {}),
    ("sgd", {"momentum": 0.9, "wd": 0.5}),
    ("nag", {"momentum": 0.5}),
    ("adam", {}),
    ("adamax", {}),
    ("ftml", {}),
    ("lamb", {}),
    ("adagrad", {}),
    ("rmsprop", {"centered": True}),
    ("signum", {}),
    ("dcasgd", {"momentum": 0.9}),
    ("ftrl", {}),
]


@pytest.mark.parametrize(("name", "numbers"), OPTIMIZERS, ids=str)
def test_a_step_trains_as_gluon(name: str, numbers: dict[str, Any]) -> None:
    net, numbers = network(), {"learning_rate": 0.05, **numbers}
    step = step_of(net, mx.optimizer.create(name, **numbers))
    assert step.counts == (name in ("adam", "adamax", "ftml", "lamb"))
    text = stablehlo_text(step.lower(step.graph), None, step.results)
    data, label = batch()
    states = first_states(step, net)
    trainer = mx.gluon.Trainer(net.collect_params(), name, numbers)
    losses: list[float] = []
    for _ in range(4):
        with mx.autograd.record():
            loss = LOSSES["softmax_cross_entropy"]()(net(data), label).mean()
        loss.backward()
        trainer.step(1)
        (found,), *states = evaluated(text, *states, data.asnumpy(), label.asnumpy())
        np.testing.assert_allclose(found, loss.asscalar(), 2e-4)
        losses.append(float(found))
    assert losses[-1] < 0.9 * losses[0]
    for state_name, value in zip(step.states, states, strict=True):
        if state_name in (*step.parameters, *step.auxiliary):
            expected = net.collect_params()[state_name].data().asnumpy()
            np.testing.assert_allclose(value, expected, 1e-3, 1e-3, err_msg=state_name)
    if step.counts:
        assert step.states[-1] == COUNT and states[-1] == 4


def test_a_symbol_of_losses_trains_as_a_module() -> None:
    """Without a loss the outputs of the symbol are losses; gradients are divided by the batch size."""
    data, label = batch()
    weights = mx.sym.FullyConnected(mx.sym.flatten(mx.sym.var("data")), num_hidden=5, name="dense")
    symbol = mx.sym.SoftmaxOutput(weights, mx.sym.var("softmax_label"), name="softmax")
    module = mx.mod.Module(symbol)
    module.bind([("data", data.shape)], [("softmax_label", label.shape)])
    module.init_params(mx.init.Xavier())
    first, _ = module.get_params()
    module.init_optimizer(optimizer="sgd", optimizer_params={"learning_rate": 0.5, "wd": 0.1})
    types = {**{n: a._type() for n, a in first.items()}, "data": data._type(), "softmax_label": label._type()}
    step = TrainingStep(symbol, types, list(first), mx.optimizer.SGD(learning_rate=0.5, wd=0.1), mean=True)
    text = stablehlo_text(step.lower(step.graph), None, step.results)
    states: Arrays = [first[name].asnumpy() for name in step.states]
    for _ in range(3):
        module.forward_backward(mx.io.DataBatch([data], [label]))
        module.update()
        probabilities, *states = evaluated(text, *states, data.asnumpy(), label.asnumpy())
        np.testing.assert_allclose(probabilities, module.get_outputs()[0].asnumpy(), 1e-4, 1e-6)
    for name, value in zip(step.states, states, strict=True):
        np.testing.assert_allclose(value, module.get_params()[0][name].asnumpy(), 1e-4, 1e-6)


def test_a_model_that_draws_takes_a_key() -> None:
    net = network(nn.Dropout(0.5))
    step = step_of(net, mx.optimizer.SGD(learning_rate=0.1))
    core = step.lower(step.graph)
    assert [v.name for v in core.inputs] == [*step.states, "data", "label", "random_key"]
    text = stablehlo_text(core, None, step.results)
    data, label = batch()
    operands = [*first_states(step, net), data.asnumpy(), label.asnumpy()]
    losses: list[float] = []
    for key in (np.arange(4, dtype=np.uint32), np.full(4, 77, np.uint32)):
        ours, theirs = evaluate_graph(core, [*operands, key]), evaluated(text, *operands, key)
        for one, other in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(other, one, 1e-4, 1e-5)
        losses.append(float(theirs[0][0]))
    assert losses[0] != losses[1]


def test_one_step_for_all_batch_sizes() -> None:
    net = network()
    step = step_of(net, mx.optimizer.Adam(learning_rate=0.1))
    batched = [i for i, v in enumerate(step.graph.inputs) if v.name in step.data]
    text = dynamic_batch_text(step.graph, batched, step.lower, None, step.results)
    for size in (2, 5):
        fixed = step_of(net, mx.optimizer.Adam(learning_rate=0.1), size=size)
        data, label = batch(size)
        operands = [*first_states(step, net), data.asnumpy(), label.asnumpy()]
        expected = evaluate_graph(fixed.lower(fixed.graph), operands)
        for one, other in zip(expected, evaluated(refined(text, *operands), *operands), strict=True):
            np.testing.assert_allclose(other, one, 1e-4, 1e-5)


@pytest.mark.parametrize("loss", LOSSES)
def test_losses_with_two_operands(loss: str) -> None:
    symbol = with_loss(mx.sym.var("data"), loss, "label")
    shapes = symbol.infer_shape(data=(4, 3), label=(4,) if loss == "softmax_cross_entropy" else (4, 3))
    assert shapes[1] == [(1,)]


@pytest.mark.parametrize("name", ("nadam", "lars", "lbsgd", "sgld", "test"))
def test_an_update_that_is_no_function_is_refused(name: str) -> None:
    net = network()
    with pytest.raises(mx.MXNetError, match=r"cannot be part of|draws random numbers"):
        step = step_of(net, mx.optimizer.create(name))
        step.lower(step.graph)


def test_factors_of_parameters() -> None:
    """A parameter's factor that was changed after its variable was made."""
    net, (data, label) = network(), batch()
    net(mx.sym.var("data"))
    net[-1].bias.lr_mult = 0
    step = step_of(net, mx.optimizer.SGD(learning_rate=0.1))
    text = stablehlo_text(step.lower(step.graph), None, step.results)
    found = evaluated(text, *first_states(step, net), data.asnumpy(), label.asnumpy())
    new = dict(zip(step.results, found, strict=True))
    np.testing.assert_array_equal(new[net[-1].bias.name], np.ones(5))
    assert (new[net[-1].weight.name] != net[-1].weight.data().asnumpy()).any()


def test_the_optimizer_is_not_changed() -> None:
    optimizer = mx.optimizer.SGD(learning_rate=0.1, wd=0.1)
    before = dict(optimizer.__dict__)
    step_of(network(), optimizer)
    assert optimizer.__dict__ == before
    scheduled = mx.optimizer.SGD(lr_scheduler=mx.lr_scheduler.FactorScheduler(10))
    with pytest.raises(mx.MXNetError, match="SGD has an lr_scheduler"):
        step_of(network(), scheduled)
