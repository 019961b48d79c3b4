"""SyncBatchNorm over workers computes what one worker computes for all batches together."""

from __future__ import annotations

from typing import Any

import mxforge as mx
import numpy as np
import pytest
from mxforge.frontend.kvstore.distributed import DistributedKVStore
from numpy.testing import assert_allclose
from worker_threads import workers

nd = mx.nd
CHANNELS = 3
Arrays = list[np.ndarray[Any, Any]]


def data(dtype: str) -> Arrays:
    generator = np.random.RandomState(0)
    x = generator.standard_normal((5, CHANNELS, 4)) * 2 + 30  # a mean that is large beside the spread
    return [x.astype(dtype), generator.standard_normal(x.shape).astype(dtype)]


def trained(x: Any, weights: Any, workers: int, hybridized: bool, dtype: str) -> Arrays:
    """The result, the gradients by x, gamma and beta, the stored statistics, and the result in inference."""
    net: Any = mx.gluon.contrib.nn.SyncBatchNorm(in_channels=CHANNELS, num_devices=workers, prefix="norm_")
    net.initialize()
    net.cast(dtype)
    if hybridized:
        net.hybridize()
    net.gamma.set_data(nd.array([1.0, 2.0, 0.5]))
    x = nd.array(x, dtype=dtype)
    x.attach_grad()
    with mx.autograd.record():
        y = net(x)
        loss = (y * nd.array(weights, dtype=dtype)).sum()
    loss.backward()
    state = [p.data() for p in (net.running_mean, net.running_var)]
    arrays = [y, x.grad, net.gamma.grad(), net.beta.grad(), *state, net(x)]
    return [array.asnumpy() for array in arrays]


@pytest.mark.parametrize("hybridized", [False, True], ids=["eager", "hybridized"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_the_statistics_are_those_of_all_batches(hybridized: bool, dtype: str) -> None:
    x, weights = data(dtype)
    parts = [slice(0, 2), slice(2, 5)]  # workers with batches of two sizes

    def work(store: DistributedKVStore) -> Arrays:
        own = parts[store.rank]
        return trained(x[own], weights[own], 2, hybridized, dtype)

    results = workers(work, 2)
    expected = trained(x, weights, 1, hybridized, dtype)
    close: dict[str, Any] = {"rtol": 2e-2, "atol": 2e-2} if dtype == "float16" else {"rtol": 1e-4, "atol": 1e-5}
    for i in (0, 1, 6):
        assert_allclose(np.concatenate([result[i] for result in results]), expected[i], **close)
    for i in (2, 3):
        assert_allclose(results[0][i] + results[1][i], expected[i], **close)
    for i in (4, 5):
        assert results[0][i].tobytes() == results[1][i].tobytes()
        assert_allclose(results[0][i], expected[i], **close)


def test_another_number_of_workers_is_an_error() -> None:
    net = mx.gluon.contrib.nn.SyncBatchNorm(in_channels=2, num_devices=2)
    net.initialize()
    assert net(nd.ones((4, 2))).shape == (4, 2)
    with mx.autograd.record(), pytest.raises(RuntimeError, match=r"statistics over 2 workers.* in a job of 1"):
        net(nd.ones((4, 2)))
