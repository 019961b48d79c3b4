"""Undocumented behaviour on which packages for MXNet depend."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import mxforge as mx
import numpy as np
import pytest


class Halved(mx.gluon.Parameter):
    """A parameter that uses private members of another one, like gluonnlp's WeightDropParameter."""

    def __init__(self, other: Any) -> None:
        self._deferred_init = other._deferred_init
        super().__init__(
            name=other.name,
            grad_req=other.grad_req,
            shape=other._shape,
            dtype=other.dtype,
            init=other.init,
            allow_deferred_init=other._allow_deferred_init,
            differentiable=other._differentiable,
        )
        for part in ("_var", "_data", "_grad", "_ctx_list", "_ctx_map", "_trainer"):
            setattr(self, part, getattr(other, part))

    def data(self, ctx: Any = None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return super().data(ctx) / 2


def test_a_parameter_can_replace_another() -> None:
    net = mx.gluon.nn.Dense(1, in_units=2, use_bias=False, weight_initializer="ones")
    net.initialize()
    halved = Halved(net.weight)
    object.__setattr__(net, "weight", halved)
    net.params._params[halved.name] = net._reg_params["weight"] = halved
    assert net(mx.nd.array([[2, 4]])).asscalar() == 3
    net.hybridize()
    assert net(mx.nd.array([[2, 4]])).asscalar() == 3


def test_the_map_of_a_parameters_contexts() -> None:
    parameter = mx.gluon.Parameter("w", shape=(2,))
    assert parameter._ctx_map is None
    parameter.initialize(ctx=[mx.cpu(2), mx.cpu(0)])
    assert parameter._ctx_map == [[], [1, None, 0]]


def test_numpy_numbers_as_parameters_of_symbols() -> None:
    shape: Any = (np.int64(2), np.int32(6))
    x = mx.sym.var("x", shape=shape, lr_mult=float(np.float32(2)))
    y = mx.sym.reshape(x, shape=cast(Any, (np.int64(3), 4)), name="reshaped")
    y = mx.sym.sum(mx.sym.clip(y, np.float64(0.5), 3), axis=cast(Any, (np.int64(1),)), name="total")
    again = mx.sym.load_json(y.tojson())
    attributes = again.attr_dict()
    assert attributes["x"] == {"__shape__": "(2, 6)", "__lr_mult__": "2.0", "lr_mult": "2.0"}
    assert attributes["reshaped"]["shape"] == "(3, 4)"
    assert attributes["total"]["axis"] == "(1,)"
    assert again.infer_shape()[1] == [(3,)]


def test_operators_without_parameters_ignore_parameters() -> None:
    more: Any = {"dtype": "int32"}
    assert mx.nd.zeros_like(mx.nd.ones((2,)), **more).dtype == np.float32
    symbol = mx.sym.zeros_like(mx.sym.var("x"), name="zeros", **more)
    assert symbol.attr_dict()["zeros"] == {"dtype": "int32"}
    assert symbol.infer_type(x="float32")[1] == [np.float32]


def test_a_function_with_its_own_gradient_runs_forward() -> None:
    class Sigmoid(mx.autograd.Function):
        def forward(self, *inputs: Any) -> Any:
            assert not mx.autograd.is_recording()
            y = 1 / (1 + mx.nd.exp(-inputs[0]))
            self.save_for_backward(y)
            return y

    function = Sigmoid()
    with mx.autograd.record():
        y = function(mx.nd.zeros((2,)))
    assert y.asnumpy().tolist() == [0.5, 0.5]
    assert function.saved_tensors[0] is y
    with pytest.raises(AssertionError, match="only be called once"):
        function(y)


@pytest.fixture
def module() -> Any:
    with mx.name.NameManager():
        net = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=3, name="fc")
    made = mx.mod.Module(net, label_names=None)
    made.bind([("data", (4, 2))], for_training=True)
    made.init_params(mx.init.One())
    return made


def test_a_module_with_an_optimizer_predicts(module: Any, tmp_path: Path) -> None:
    module.init_optimizer(optimizer="adam", optimizer_params={"learning_rate": 0.5})
    assert module.optimizer_initialized
    optimizer = module._optimizer
    assert (optimizer.lr, optimizer.rescale_grad) == (0.5, 0.25)
    assert optimizer.idx2name == {0: "fc_weight", 1: "fc_bias"}
    module.forward(mx.io.DataBatch([mx.nd.ones((4, 2))]), is_train=False)
    assert module.get_outputs()[0].asnumpy().tolist() == [[2, 2, 2]] * 4
    before = module.get_params()[0]["fc_weight"].asnumpy()
    module.forward(mx.io.DataBatch([mx.nd.ones((4, 2))]))
    module.backward(mx.nd.ones((4, 3)))
    module.update()
    assert np.all(module.get_params()[0]["fc_weight"].asnumpy() < before)
    module._updater(0, mx.nd.ones((3, 2)), mx.nd.ones((3, 2)))
    module.save_optimizer_states(str(tmp_path / "net.states"))
    states = module._updater.states
    module.init_optimizer(optimizer="adam", force_init=True)
    assert module._updater.states == {}
    module.load_optimizer_states(str(tmp_path / "net.states"))
    assert module._updater.states.keys() == states.keys()
    assert np.array_equal(module._updater.states[0][0].asnumpy(), states[0][0].asnumpy())


def test_an_existing_optimizer_is_used(module: Any) -> None:
    optimizer = mx.optimizer.SGD(learning_rate=0.1)
    with pytest.warns(UserWarning, match="rescale_grad"):
        module.init_optimizer(optimizer=optimizer)
    assert module._optimizer is optimizer
    with pytest.raises(AssertionError, match="neither an optimizer"):
        module.init_optimizer(optimizer=3, force_init=True)


def test_a_modules_optimizer_is_shared(module: Any, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="no optimizer"):
        module.borrow_optimizer(module)
    with pytest.raises(AssertionError, match="no optimizer"):
        module.save_optimizer_states(str(tmp_path / "x"))
    other = mx.mod.Module(module.symbol, label_names=None)
    module.init_optimizer()
    other.borrow_optimizer(module)
    assert other._updater is module._updater


def test_buckets_share_an_optimizer() -> None:
    def generate(key: int) -> Any:
        return mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=3, flatten=False, name="fc"), ("data",), None

    module = mx.mod.BucketingModule(generate, default_bucket_key=4)
    module.bind([("data", (2, 4, 2))], for_training=True)
    module.init_params(mx.init.One())
    module.switch_bucket(3, [("data", (2, 3, 2))])
    module.init_optimizer(optimizer="sgd")
    batch = mx.io.DataBatch([mx.nd.ones((2, 5, 2))], bucket_key=5, provide_data=[("data", (2, 5, 2))])
    module.forward(batch, is_train=False)
    assert module.get_outputs()[0].shape == (2, 5, 3)
    assert len({id(bucket._optimizer) for bucket in module._buckets.values()}) == 1
    assert len(module._buckets) == 3


def test_each_module_of_a_sequence_has_an_optimizer() -> None:
    sequence = mx.mod.SequentialModule()
    for name, meta in (("a", {}), ("b", {"auto_wiring": True})):
        net = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=3, name=name)
        sequence.add(mx.mod.Module(net, label_names=None), **meta)
    sequence.bind([("data", (4, 3))], for_training=True)
    sequence.init_params(mx.init.One())
    sequence.init_optimizer()
    assert sequence.optimizer_initialized
    assert all(module.optimizer_initialized for module in sequence._modules)
