"""Memory of residuals with halos, and the programs of a training step that exchange them."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import mxforge as mx
import numpy as np
import pytest
from mxforge.ir.caches import clear_caches
from mxforge.ir.types import DType, Layout, TensorType
from mxforge.runtime import compile as compiling
from mxforge.runtime import derivative as derivatives
from mxforge.runtime.cache import DiskCache
from mxforge.runtime.derivative import Derivative
from mxforge.runtime.devices import HOST
from mxforge.runtime.residuals import ResidualPool
from mxforge.runtime.storage import as_numpy

nd, autograd = mx.nd, mx.autograd
TYPE = TensorType((1, 16, 3, 3), DType.F32, Layout(8, ((1, 1), (1, 1))))
OTHER = TensorType((1, 16, 3, 3), DType.F32, Layout(8, ((0, 2), (1, 1))))


def test_a_block_is_zeroed_once_and_serves_one_type() -> None:
    pool = ResidualPool(HOST.allocate_zeroed)
    block = pool.take(TYPE)
    content = as_numpy(block, np.float32, (TYPE.physical_size,))
    assert not content.any()
    content[:] = 1
    address = block.address
    del block, content
    assert pool.idle_bytes() == TYPE.nbytes
    assert pool.take(OTHER).address != address
    again = pool.take(TYPE)
    assert again.address == address and as_numpy(again, np.float32, (TYPE.physical_size,)).all()
    assert pool.take(TYPE).address != address


def test_a_pool_releases_idle_blocks() -> None:
    pool = ResidualPool(HOST.allocate_zeroed)
    held, idle = pool.take(TYPE), pool.take(TYPE)
    del idle
    pool.release()
    assert pool.idle_bytes() == 0
    del held  # returns to a pool that is still usable
    assert pool.idle_bytes() == TYPE.nbytes


def test_a_block_can_outlive_its_pool() -> None:
    block = ResidualPool(HOST.allocate_zeroed).take(TYPE)
    gc.collect()
    assert not as_numpy(block, np.float32, (TYPE.physical_size,)).any()


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Derivative]:
    """The derivatives that are made during a test."""
    found: list[Derivative] = []
    make = Derivative.__init__

    def init(self: Derivative, *arguments: Any) -> None:
        make(self, *arguments)
        found.append(self)

    monkeypatch.setattr(Derivative, "__init__", init)
    return found


def network() -> Any:
    net = mx.gluon.nn.HybridSequential()
    for _ in range(2):
        net.add(
            mx.gluon.nn.Conv2D(16, 3, padding=1, in_channels=16, use_bias=False),
            mx.gluon.nn.BatchNorm(in_channels=16),
            mx.gluon.nn.Activation("relu"),
        )
    net.add(mx.gluon.nn.GlobalAvgPool2D())
    mx.random.seed(5)
    net.initialize(mx.init.Xavier())
    return net


def gradients(net: Any, x: Any) -> list[Any]:
    with autograd.record():
        y = net(x)
    y.backward()
    return [p.grad().asnumpy() for p in net.collect_params().values() if p.grad_req != "null"]


def test_residuals_stay_in_blocks_between_forward_and_backward(made: list[Derivative]) -> None:
    """Two results of convolutions, and that of the first ReLU; only the input of the network changes its layout."""
    x = nd.array(np.random.default_rng(0).standard_normal((2, 16, 6, 5)))
    net = network()
    expected = gradients(net, x)
    made.clear()
    net.hybridize()
    for _ in range(3):  # blocks of the pool are used again
        for found, wanted in zip(gradients(net, x), expected, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
    (derivative,) = made
    forward = derivative.forward.specialization
    saved = [t for t in forward.types[1:] if t.rank == 4]
    assert len(saved) == 3 and all(t.layout is not None for t in saved)
    read = [t for t in derivative.backward.specialization.executable.inputs if t.layout is not None]
    assert read == saved
    kinds = [launch.kind for launch in forward.executable.program.launches]  # type: ignore[attr-defined]
    assert kinds.count("layout") == 1 and kinds.count("row") == 3  # two norms, and the pooling
    assert derivative.memory.idle_bytes() > 0


def test_two_runs_in_flight_have_separate_residuals() -> None:
    random = np.random.default_rng(1)
    first, second = (nd.array(random.standard_normal((2, 16, 6, 5))) for _ in range(2))
    net = network()
    net.hybridize()
    expected = gradients(net, first)
    with autograd.record():
        y = net(first)
        z = net(second)
    y.backward(retain_graph=True)
    found = [p.grad().asnumpy() for p in net.collect_params().values() if p.grad_req != "null"]
    for f, w in zip(found, expected, strict=True):
        np.testing.assert_array_equal(f, w)
    z.backward()


def test_a_derivative_is_read_from_disk(
    made: list[Derivative], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A warm start neither differentiates nor compiles, and computes the same bits."""
    monkeypatch.setattr(compiling, "default_cache", lambda: disk)
    disk = DiskCache(tmp_path)
    net, x = network(), nd.array(np.random.default_rng(0).standard_normal((3, 16, 6, 5)))

    def run() -> list[Any]:
        clear_caches()
        net.hybridize()
        return gradients(net, x)

    expected = run()
    monkeypatch.setattr(derivatives, "training_graphs", None)
    monkeypatch.setattr(compiling, "compile_program", None)
    for found, wanted in zip(run(), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)
    assert all(d.residuals for d in made)


def test_a_derivative_whose_program_was_evicted_is_compiled_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(compiling, "default_cache", lambda: disk)
    disk = DiskCache(tmp_path)
    net = mx.gluon.nn.Dense(5, in_units=6)
    net.initialize(mx.init.One())
    net.hybridize()
    x = nd.ones((2, 6))
    expected = gradients(net, x)
    sizes = {path: path.stat().st_size for path in tmp_path.iterdir()}
    for path, size in sizes.items():
        if size > 2048:  # programs; what is known about derivatives is smaller
            path.unlink()
    clear_caches()
    net.hybridize()
    for found, wanted in zip(gradients(net, x), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)
