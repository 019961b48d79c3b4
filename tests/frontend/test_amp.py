"""Mixed precision computes what float32 computes, up to rounding; programs/amp.py has what MXNet's CPU can show."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import mxforge as mx
import numpy as np
import pytest
from mxforge import gluon, nd
from mxforge.contrib import amp  # pyright: ignore[reportMissingImports]
from mxforge.ir.dialects.mx.monitored_names import NAMED_OUTPUTS
from mxforge.ir.dialects.mx.operator import lookup
from mxforge.nd import exp, relu  # pyright: ignore[reportMissingImports]

ROUNDING = {"float16": 4e-3, "bfloat16": 3e-2}


@contextmanager
def mixed(dtype: str, **options: Any) -> Iterator[None]:
    try:
        amp.init(dtype, **options)
        yield
    finally:
        amp.amp._switch(None, None)


def close(found: Any, expected: Any, dtype: str, factor: float = 1) -> bool:
    scale = np.abs(expected).max()
    return bool(np.abs(found - expected).max() <= factor * ROUNDING[dtype] * scale)


def network(hybridize: bool = False) -> gluon.nn.HybridSequential:
    net = gluon.nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(gluon.nn.Conv2D(4, 3, in_channels=2), gluon.nn.BatchNorm(in_channels=4), gluon.nn.ELU())
        net.add(
            gluon.nn.Flatten(), gluon.nn.Dense(5, activation="tanh", in_units=64), gluon.nn.LayerNorm(in_channels=5)
        )
        net.add(gluon.nn.Dense(3, in_units=5))
    net.initialize()
    for i, param in enumerate(net.collect_params().values()):
        if param.grad_req != "null" and param.shape is not None:
            values = np.sin(np.arange(np.prod(param.shape)) * 1.3 + i).reshape(param.shape) * 0.3
            param.set_data(nd.array(values + param.name.endswith("gamma")))
    if hybridize:
        net.hybridize()
    return net


def data() -> tuple[nd.NDArray, nd.NDArray]:
    random = np.random.RandomState(3)
    return nd.array(random.randn(6, 2, 6, 6)), nd.array(random.randint(0, 3, 6))


def train(net: Any, trainer: gluon.Trainer, scaled: bool = False, dtype: str = "float32") -> np.ndarray:
    """The losses of some steps."""
    loss, (x, y), losses = gluon.loss.SoftmaxCrossEntropyLoss(), data(), []
    for _ in range(6):
        with mx.autograd.record():
            found = loss(net(x.astype(dtype)), y)
            with amp.scale_loss(found, trainer) if scaled else nullcontext(found) as head:
                head.backward()
        trainer.step(6)
        losses.append(found.astype("float32").mean().asscalar())
    return np.array(losses)


def trainer_of(net: Any, **options: Any) -> gluon.Trainer:
    return gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.9, **options})


@pytest.fixture(scope="module")
def expected() -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Losses and final parameters in float32."""
    net = network(hybridize=True)
    losses = train(net, trainer_of(net))
    return losses, {name: param.data().asnumpy() for name, param in net.collect_params().items()}


@pytest.mark.parametrize("dtype", ROUNDING)
@pytest.mark.parametrize("hybridize", [False, True])
def test_a_network_trains(dtype: str, hybridize: bool, expected: Any) -> None:
    with mixed(dtype):
        net = network(hybridize)
        trainer = trainer_of(net)
        amp.init_trainer(trainer)
        trainer._amp_loss_scaler._loss_scale = trainer._amp_loss_scaler._next_loss_scale = 2.0**8
        losses = train(net, trainer, scaled=True)
    assert close(losses, expected[0], dtype)
    for name, param in net.collect_params().items():
        assert param.data().dtype == np.float32 and close(param.data().asnumpy(), expected[1][name], dtype, 4), name


@pytest.mark.parametrize("dtype", ROUNDING)
def test_weights_of_16_bits_train_with_copies_in_float32(dtype: str, expected: Any) -> None:
    net = network(hybridize=True)
    net.cast(dtype)
    trainer = trainer_of(net, multi_precision=True)
    losses = train(net, trainer, dtype=dtype)
    assert close(losses, expected[0], dtype, 2)
    copies = {trainer._params[i].name: state for i, state in trainer._updaters[0].states.items()}
    for name in ("net_conv0_weight", "net_dense0_weight", "net_dense1_bias"):
        assert copies[name][1].dtype == np.float32 and close(copies[name][1].asnumpy(), expected[1][name], dtype, 8)


@pytest.mark.parametrize("dtype", ROUNDING)
@pytest.mark.parametrize("optional", [False, True])
def test_converted_blocks_compute_the_same(dtype: str, optional: bool) -> None:
    x, _ = data()
    net = network(hybridize=True)
    out = net(x).asnumpy()
    made = amp.convert_hybrid_block(net, dtype, ctx=mx.cpu(), cast_optional_params=optional)
    found = made(x)
    assert found.dtype == np.float32 and close(found.asnumpy(), out, dtype) and not (found.asnumpy() == out).all()
    stored = made.collect_params()["net_dense0_weight"].data()
    assert (np.dtype(stored.dtype).itemsize == 2) is optional
    assert net.collect_params()["net_dense0_weight"].data().dtype == np.float32


@pytest.mark.parametrize("dtype", ROUNDING)
def test_converted_models_run_in_modules(dtype: str) -> None:
    x, _ = data()
    net = mx.sym.Convolution(mx.sym.var("data"), kernel=(3, 3), num_filter=2, name="conv")
    net = mx.sym.FullyConnected(mx.sym.BatchNorm(net, name="bn"), num_hidden=3, name="fc")
    module = mx.mod.Module(net, label_names=None)
    module.bind([("data", x.shape)], for_training=False)
    module.init_params(mx.init.Uniform(0.5))
    batch = mx.io.DataBatch([x])
    module.forward(batch)
    out = module.get_outputs()[0].asnumpy()
    converted, args, aux = amp.convert_model(net, *module.get_params(), dtype, cast_optional_params=True)
    other = mx.mod.Module(converted, label_names=None)
    other.bind([("data", x.shape)], for_training=False)
    other.set_params(args, aux)
    other.forward(batch)
    assert close(other.get_outputs()[0].asnumpy(), out, dtype)


@pytest.mark.parametrize("update", [None, False])
def test_a_step_with_an_overflow_is_skipped_on_all_devices(update: bool | None) -> None:
    contexts = [mx.cpu(0), mx.cpu(1)]
    with mixed("float16"):
        net = gluon.nn.Dense(1, in_units=2, use_bias=False)
        net.initialize(mx.init.One(), ctx=contexts)
        trainer = gluon.Trainer(net.collect_params(), "sgd", update_on_kvstore=update)
        amp.init_trainer(trainer)
        changed = []
        for factor in (0.01, 1e30, 0.01):
            before = net.weight.data(contexts[0]).asnumpy()
            with mx.autograd.record():
                losses = [net(nd.ones((2, 2), ctx=c)).astype("float32") * factor for c in contexts[:1]]
                losses += [net(nd.ones((2, 2), ctx=c)).astype("float32") * 0.01 for c in contexts[1:]]
                with amp.scale_loss(losses, trainer) as more:
                    mx.autograd.backward(more)
            trainer.step(4)
            changed.append(not (net.weight.data(contexts[0]).asnumpy() == before).all())
    assert changed == [True, False, True] and trainer._amp_loss_scaler.loss_scale == 2**15


def test_calls_of_arrays_in_float16() -> None:
    half, full, whole = nd.ones((2, 2), dtype="float16") * 0.1, nd.ones((2, 2)), nd.ones((2, 2), dtype="int32")
    assert exp(half).dtype == np.float16
    with mixed("float16"):
        assert exp(half).dtype == half.exp().dtype == np.float32  # also in a function that was imported before
        assert relu(half).dtype == np.float16 and exp(whole).dtype == np.int32
        assert (half + full).dtype == nd.maximum(full, half).dtype == np.float32 and (half + half).dtype == np.float16
        dense = nd.FullyConnected(full, full, no_bias=True, num_hidden=2)
        assert dense.dtype == np.float16 and dense.asnumpy().tolist() == [[2, 2], [2, 2]]
        assert (half**0.3).asnumpy()[0, 0] == pytest.approx(float(np.float16(0.1)) ** 0.3, rel=1e-6)
        assert (0.3 / half).dtype == nd.power(2, half).dtype == np.float32 and (half * 2).dtype == np.float16
        full += half
        assert full.dtype == np.float32 and full.asnumpy()[0, 0] == pytest.approx(1.1, rel=1e-3)
    assert exp(half).dtype == np.float16


def test_states_stay_what_they_are() -> None:
    with mixed("float16", target_precision_ops=["BatchNorm"]):
        mean = nd.zeros(2)
        with mx.autograd.record():
            x = nd.ones((3, 2))
            x.attach_grad()
            out = nd.BatchNorm(x, nd.ones(2), nd.zeros(2), mean, nd.ones(2), momentum=0.5)
        out.backward()
    assert out.dtype == np.float16 and mean.asnumpy().tolist() == [0.5, 0.5]


def test_init_takes_effect_once_and_knows_its_operators() -> None:
    with pytest.raises(AttributeError, match="'nonsense' is not the name of an operator"):
        amp.init(fp32_ops=["nonsense"])
    assert amp.amp._amp_initialized is False
    with mixed("float16"):
        amp.init("bfloat16")
        assert amp.amp._amp_initialized
        assert nd.FullyConnected(nd.ones((1, 1)), nd.ones((1, 1)), no_bias=True, num_hidden=1).dtype == np.float16


def test_a_trainer_without_a_scaler_says_so() -> None:
    trainer = trainer_of(network())
    with pytest.raises(AssertionError, match="Loss scaler is not initialized"), amp.scale_loss(nd.ones(1), trainer):
        pass


def test_an_operand_whose_cast_others_read_keeps_its_own_dtype() -> None:
    """MXNet believes that `pool` is float16, because a cast of its float32 operand was made before, and refuses it."""
    x = mx.sym.exp(mx.sym.var("data"), name="exp")
    low = mx.sym.FullyConnected(x, num_hidden=2, name="low")
    pool = mx.sym.FullyConnected(mx.sym.Flatten(x, name="flat"), num_hidden=2, name="pool")
    made = amp.convert_symbol(mx.sym.Group([low, pool]))
    out = made.eval(data=nd.ones((1, 2)), low_weight=nd.ones((2, 2)), low_bias=nd.ones(2),
                    pool_weight=nd.ones((2, 2)), pool_bias=nd.ones(2))  # fmt: skip
    assert [o.dtype for o in out] == [np.float32] * 2 and close(out[1].asnumpy(), 2 * np.e + 1, "float16")


def test_casts_have_mxnets_names() -> None:
    recorded = json.loads((Path(__file__).parents[1] / "data" / "output_names.json").read_text())
    assert [op for op in recorded["names"] if lookup(op).mx_name() not in NAMED_OUTPUTS] == []
    assert [op for op in recorded["numbers"] if lookup(op).mx_name() in NAMED_OUTPUTS] == []


def test_a_zero_in_the_result_of_all_finite_is_kept() -> None:
    finite, infinite, out = nd.ones(3), nd.array([1, np.inf]), nd.ones(1)
    for arrays, expected in (([finite], 1), ([finite, infinite], 0), ([finite], 0)):
        assert nd.multi_all_finite(*arrays, num_arrays=len(arrays), init_output=False, out=out) is out
        assert out.asscalar() == expected
    assert nd.all_finite(finite, init_output=False, out=out).asscalar() == 0
    assert nd.all_finite(finite, out=out).asscalar() == 1
