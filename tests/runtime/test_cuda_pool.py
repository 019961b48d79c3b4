"""MXNet's variables for the memory of GPUs, on the fake driver; and batches on pinned memory."""

from __future__ import annotations

from typing import Any

import mxforge as mx
import numpy as np
import pytest
from mxforge.runtime.cuda.pool_settings import PoolSettings, read_pool_settings
from mxforge.runtime.devices import open_device

pytestmark = pytest.mark.any_processor
KIB, MIB = 1 << 10, 1 << 20


@pytest.mark.parametrize(
    ("settings", "sizes"),
    [
        (PoolSettings(), {1: 64, 5000: 5120, 3 * MIB + 1: 3 * MIB + 512 * KIB}),
        (PoolSettings("Naive"), {1: 4096, 5000: 8192, 2 * MIB: 2 * MIB, 2 * MIB + 1: 4 * MIB}),
        (PoolSettings("Naive", page=512, large=MIB), {1: 512, 513: 1024, MIB + 1: 2 * MIB}),
        (PoolSettings("Round"), {1: 4096, 5000: 8192, 9 * MIB: 16 * MIB, 17 * MIB: 32 * MIB, 33 * MIB: 48 * MIB}),
        (PoolSettings("Round", cutoff=20), {MIB - 1: MIB, MIB + 1: 2 * MIB, 2 * MIB + 1: 3 * MIB}),
    ],
)
def test_sizes_of_blocks(settings: PoolSettings, sizes: dict[int, int]) -> None:
    assert {nbytes: settings.size(nbytes) for nbytes in sizes} == sizes


def test_variables_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_pool_settings() == PoolSettings()
    values = {"POOL_TYPE": "Round", "POOL_RESERVE": "5", "POOL_PAGE_SIZE": "8192", "POOL_ROUND_LINEAR_CUTOFF": "20"}
    for name, value in {**values, "LARGE_ALLOC_ROUND_SIZE": "1048576"}.items():
        monkeypatch.setenv(f"MXNET_GPU_MEM_{name}", value)
    assert read_pool_settings() == PoolSettings("Round", 0.05, 8192, MIB, 20)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("POOL_TYPE", "Rounded", "'Rounded' is not one of Naive, Round, Unpooled. Did you mean 'Round'?"),
        ("POOL_RESERVE", "101", "'101' is not a whole number from 0 to 100"),
        ("POOL_PAGE_SIZE", "4k", "'4k' is not a whole number from 512 to"),
        ("POOL_ROUND_LINEAR_CUTOFF", "40", "'40' is not a whole number from 9 to 34"),
    ],
)
def test_wrong_values(fake_cuda: Any, monkeypatch: pytest.MonkeyPatch, name: str, value: str, message: str) -> None:
    monkeypatch.setenv(f"MXNET_GPU_MEM_{name}", value)
    with pytest.raises(mx.MXNetError) as caught:
        mx.nd.ones((2,), ctx=mx.gpu(0))
    assert f"MXNET_GPU_MEM_{name}={message}" in str(caught.value)


def test_blocks_return_to_the_driver_without_a_pool(fake_cuda: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MXNET_GPU_MEM_POOL_TYPE", "Unpooled")
    device = open_device("gpu", 0)
    first = device.allocate(MIB)
    used = fake_cuda.live()["block"]
    del first
    second = device.allocate(2 * MIB)
    device.synchronise()
    assert fake_cuda.live()["block"] == used and second.nbytes == 2 * MIB
    assert (mx.nd.ones((3,), ctx=mx.gpu(0)) + 1).asnumpy().tolist() == [2, 2, 2]


@pytest.mark.parametrize(("reserve", "kept"), [("0", 2), ("50", 1), ("90", 1)])
def test_a_reserve_is_kept_free(fake_cuda: Any, monkeypatch: pytest.MonkeyPatch, reserve: str, kept: int) -> None:
    """Of 1 GiB, a free block of 300 MiB and a new one of 400 MiB leave less than a half, but more than nothing."""
    monkeypatch.setenv("MXNET_GPU_MEM_POOL_RESERVE", reserve)
    device = open_device("gpu", 0)
    before = fake_cuda.live()["block"]
    first = device.allocate(300 * MIB)
    del first
    second = device.allocate(400 * MIB)
    assert fake_cuda.live()["block"] - before == kept and second.nbytes == 400 * MIB


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_on_pinned_memory(fake_cuda: Any, workers: int) -> None:
    data = np.arange(12, dtype=np.float32).reshape(6, 2)
    dataset = mx.gluon.data.ArrayDataset(data, np.arange(6))
    loader = mx.gluon.data.DataLoader(dataset, 3, num_workers=workers, pin_memory=True, pin_device_id=1)
    for number, (batch, labels) in enumerate(loader):
        assert batch.context == labels.context == mx.cpu_pinned(1)
        expected = data[3 * number : 3 * number + 3]
        copy = batch.as_in_context(mx.gpu(1))
        batch[:] = 0  # the copy does not see it
        np.testing.assert_array_equal(copy.asnumpy(), expected)
        assert (batch + 1).context == mx.cpu_pinned(1)
