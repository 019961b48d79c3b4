"""`hybridize(weights="bfloat16")`: predictions with rounded weights; everything else stays float32."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mxforge as mx
import numpy as np
import pytest
from bfloats import rounded
from mxforge.ir.caches import clear_caches
from mxforge.runtime import compile
from mxforge.runtime.cache import DiskCache

nn: Any = mx.gluon.nn
X = mx.nd.array(np.random.default_rng(0).standard_normal((2, 3, 8, 8)), dtype="float32")


@pytest.fixture(autouse=True)
def _disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Caches are empty, that on disk too."""
    disk = DiskCache(tmp_path / "cache")
    monkeypatch.setattr(compile, "default_cache", lambda: disk)
    clear_caches()
    yield
    clear_caches()


def network(*layers: Any, **options: Any) -> Any:
    """A hybridized network whose parameters are random, biases too."""
    net = nn.HybridSequential()
    net.add(nn.Conv2D(24, 3, padding=1, in_channels=3), *layers, nn.Dense(20, activation="relu"), nn.Dense(5))
    net.initialize(mx.init.Uniform(0.5))
    net(X)
    random = np.random.default_rng(1)
    for p in net.collect_params().values():
        p.set_data(mx.nd.array(0.5 + 0.1 * random.standard_normal(p.shape), dtype="float32"))
    net.hybridize(**options)
    return net


def round_weights(net: Any) -> None:
    for name, p in net.collect_params().items():
        if name.endswith("weight"):
            p.set_data(mx.nd.array(rounded(p.data().asnumpy())))


@pytest.mark.parametrize("batch", [1, 2, 9])
def test_predictions_are_those_of_rounded_weights(batch: int) -> None:
    x = mx.nd.array(np.random.default_rng(batch).uniform(size=(batch, 3, 8, 8)), dtype="float32")
    net, exact = network(weights="bfloat16"), network()
    found = net(x).asnumpy()
    assert (found != exact(x).asnumpy()).any()
    round_weights(exact)
    np.testing.assert_array_equal(found, exact(x).asnumpy())


def test_batch_norm() -> None:
    """Its scale multiplies the sums, so that weights are those of the user, rounded."""
    net, exact = network(nn.BatchNorm(), weights="bfloat16"), network(nn.BatchNorm())
    round_weights(exact)
    np.testing.assert_allclose(net(X).asnumpy(), exact(X).asnumpy(), rtol=1e-5)


def test_new_shapes() -> None:
    """The programs for dynamic shapes have rounded weights too."""
    net, exact = network(weights="bfloat16"), network()
    round_weights(exact)
    for batch in (2, 3, 7, 1):
        x = mx.nd.array(np.random.default_rng(batch).uniform(size=(batch, 3, 8, 8)), dtype="float32")
        np.testing.assert_allclose(net(x).asnumpy(), exact(x).asnumpy(), rtol=1e-5)


@pytest.mark.parametrize("steps", [3, 200])
def test_recurrent_layers(steps: int) -> None:
    """Weights that all steps read are rounded once, whether the loop is unrolled or not."""
    x = mx.nd.random.normal(shape=(steps, 1, 9))
    exact, net = (mx.gluon.rnn.LSTM(12, input_size=9, num_layers=2) for _ in range(2))
    for layer in (exact, net):
        layer.initialize()
    for ours, theirs in zip(net.collect_params().values(), exact.collect_params().values(), strict=True):
        ours.set_data(theirs.data())
    exact.hybridize()
    net.hybridize(weights="bfloat16")
    found = net(x).asnumpy()
    assert np.abs(found - exact(x).asnumpy()).max() > 1e-6
    round_weights(exact)
    np.testing.assert_array_equal(found, exact(x).asnumpy())


def test_parameters_stay_float32_and_can_change() -> None:
    net = network(weights="bfloat16")
    before = [p.data().asnumpy() for p in net.collect_params().values()]
    first = net(X).asnumpy()
    for p, values in zip(net.collect_params().values(), before, strict=True):
        np.testing.assert_array_equal(p.data().asnumpy(), values)
        p.set_data(p.data() * 2)
    assert (net(X).asnumpy() != first).all()


@pytest.mark.parametrize("train_mode", [False, True])
def test_recorded_calls_are_exact(train_mode: bool) -> None:
    found: list[list[np.ndarray]] = []
    for options in ({}, {"weights": "bfloat16"}):
        net = network(**options)
        net(X)
        with mx.autograd.record(train_mode=train_mode):
            y = net(X)
        y.backward()
        found.append([y.asnumpy(), *(p.grad().asnumpy() for p in net.collect_params().values())])
    for ours, exact in zip(*found, strict=True):
        np.testing.assert_array_equal(ours, exact)


def test_calls_in_training_mode_are_exact() -> None:
    net, exact = network(weights="bfloat16"), network()
    with mx.autograd.train_mode():
        np.testing.assert_array_equal(net(X).asnumpy(), exact(X).asnumpy())


def test_a_model_from_files(tmp_path: Path) -> None:
    net = network(weights="bfloat16")
    expected = net(X).asnumpy()
    net.export(str(tmp_path / "net"))
    read = mx.gluon.SymbolBlock.imports(str(tmp_path / "net-symbol.json"), ["data"], str(tmp_path / "net-0000.params"))
    exact = read(X).asnumpy()
    read.hybridize(weights="bfloat16")
    np.testing.assert_array_equal(read(X).asnumpy(), expected)
    read.hybridize(weights="float32")  # the program on disk is another one
    np.testing.assert_allclose(read(X).asnumpy(), exact, rtol=1e-5)
    assert (exact != expected).any()


def test_the_cache_on_disk_tells_them_apart() -> None:
    found: list[np.ndarray] = []
    for options in ({}, {"weights": "bfloat16"}, {}, {"weights": "bfloat16"}):
        clear_caches()
        found.append(network(**options)(X).asnumpy())
    np.testing.assert_array_equal(found[0], found[2])
    np.testing.assert_array_equal(found[1], found[3])
    assert (found[0] != found[1]).any()


def test_functions_without_parameters_refuse_it() -> None:
    with pytest.raises(mx.MXNetError, match="weights is for blocks"):
        mx.nd.CachedOp(mx.sym.relu(mx.sym.var("x")), [("weights", "bfloat16")])


@pytest.mark.parametrize("value", ["bf16", "float16", 8])
def test_other_dtypes_are_refused(value: Any) -> None:
    message = f"Invalid Parameter format for weights expect 'float32' or 'bfloat16' but value='{value}'"
    with pytest.raises(mx.MXNetError, match=message):
        network(weights=value)(X)
