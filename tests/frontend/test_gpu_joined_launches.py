"""Launches that do not depend on each other are one launch on GPUs, with the same bits in all results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mxforge as mx
import numpy as np
import pytest
from mxforge.codegen.triton.program_emitter import TritonEmitter
from mxforge.codegen.triton.target import GpuTarget
from mxforge.ir.caches import clear_caches
from mxforge.runtime import compile
from mxforge.runtime.devices import open_device

pytestmark = pytest.mark.usefixtures("simulated_gpus")
nn, autograd, gluon = mx.gluon.nn, mx.autograd, mx.gluon


def mlp() -> Any:
    net = nn.HybridSequential()
    net.add(nn.Dense(24, activation="relu"), nn.Dense(10))
    return net


def normalized() -> Any:
    net = nn.HybridSequential()
    for channels in (8, 16):
        net.add(nn.Conv2D(channels, 3, padding=1, use_bias=False), nn.BatchNorm(), nn.Activation("relu"))
    net.add(nn.GlobalAvgPool2D(), nn.Dense(10))
    return net


def lenet() -> Any:
    net = nn.HybridSequential()
    net.add(nn.Conv2D(4, 3, activation="tanh"), nn.MaxPool2D(), nn.Conv2D(6, 3, strides=2), nn.Flatten())
    net.add(nn.Dense(300, activation="tanh"), nn.Dense(10))
    return net


def launches() -> int:
    device: Any = open_device("gpu", 0)
    return sum(device.launched.values())


def trained(make: Callable[[], Any], shape: tuple[int, ...], optimizer: str, **options: Any) -> tuple[int, list[Any]]:
    """The launches of the last of three steps, and the values of all parameters after it."""
    clear_caches()
    net, context = make(), mx.gpu(0)
    mx.random.seed(3)
    net.initialize(mx.init.Xavier(), ctx=context)
    net.hybridize(static_alloc=True, static_shape=True)
    loss = gluon.loss.SoftmaxCrossEntropyLoss()
    loss.hybridize(static_alloc=True, static_shape=True)
    trainer = gluon.Trainer(net.collect_params(), optimizer, {"learning_rate": 0.1, **options})
    x = mx.nd.array(np.random.default_rng(0).standard_normal(shape), ctx=context)
    y = mx.nd.array(np.arange(shape[0]) % 10, ctx=context)
    before = 0
    for _ in range(3):
        mx.nd.waitall()
        before = launches()
        with autograd.record():
            error = loss(net(x), y)
        error.backward()
        trainer.step(shape[0])
    mx.nd.waitall()
    return launches() - before, [p.data().asnumpy() for p in net.collect_params().values()]


@pytest.fixture
def separate(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """A function after which each launch is of one kernel."""

    def separate() -> None:
        monkeypatch.setattr(TritonEmitter, "joins", False)
        monkeypatch.setattr(GpuTarget, "join", lambda self, program, kernels: program)
        monkeypatch.setattr(compile, "_read", lambda key: None)  # programs with joined launches are on disk
        monkeypatch.setattr(compile, "_write", lambda key, data: None)

    return separate


@pytest.mark.parametrize(
    ("make", "shape", "optimizer", "options", "most"),
    [
        (mlp, (16, 20), "adam", {}, 10),
        (mlp, (16, 20), "sgd", {"momentum": 0.9, "wd": 0.01}, 10),
        (mlp, (16, 20), "lamb", {}, 11),
        (lenet, (40, 1, 14, 14), "sgd", {"momentum": 0.9}, 21),
        (normalized, (4, 3, 8, 8), "sgd", {"momentum": 0.9}, 18),
    ],
    ids=["adam", "sgd", "lamb", "lenet", "batch_norm"],
)
def test_bits_of_a_step(
    make: Callable[[], Any],
    shape: tuple[int, ...],
    optimizer: str,
    options: dict[str, Any],
    most: int,
    separate: Callable[[], None],
) -> None:
    count, found = trained(make, shape, optimizer, **options)
    separate()
    more, expected = trained(make, shape, optimizer, **options)
    assert count <= most < more
    for x, y in zip(expected, found, strict=True):
        np.testing.assert_array_equal(x, y)
