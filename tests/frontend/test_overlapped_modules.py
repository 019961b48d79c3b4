"""Sums of a module's gradients that begin in the backward pass of its executor."""

from __future__ import annotations

from typing import Any

import mxforge as mx
import numpy as np
import pytest
from mxforge.frontend.kvstore import buckets
from mxforge.frontend.kvstore.distributed import DistributedKVStore
from worker_threads import workers

nd = mx.nd
ROWS, STEPS = 6, 4


@pytest.fixture(autouse=True)
def small_buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buckets, "_BUCKET", 64)


def network(rows: int = 0) -> tuple[Any, ...]:
    x = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=7, name="first")
    x = mx.sym.FullyConnected(mx.sym.Activation(x, act_type="relu"), num_hidden=3, name="second")
    return mx.sym.SoftmaxOutput(x, name="softmax"), ["data"], ["softmax_label"]


def batch(step: int, store: DistributedKVStore, rows: int = ROWS) -> mx.io.DataBatch:
    data = np.random.RandomState(step).rand(ROWS * 2, 5)[store.rank :: 2][:rows]
    shapes = [mx.io.DataDesc("data", data.shape)], [mx.io.DataDesc("softmax_label", (rows,))]
    label = nd.array(data.sum(1) // 1 % 3)
    return mx.io.DataBatch([nd.array(data)], [label], bucket_key=rows, provide_data=shapes[0], provide_label=shapes[1])


def begin(module: Any, store: DistributedKVStore) -> None:
    module.bind([("data", (ROWS, 5))], [("softmax_label", (ROWS,))])
    initial = {"first_weight": (7, 5), "first_bias": (7,), "second_weight": (3, 7), "second_bias": (3,)}
    generator = np.random.RandomState(1)
    module.set_params({name: nd.array(generator.rand(*shape)) for name, shape in initial.items()}, {})
    module.init_optimizer(store, "sgd", {"learning_rate": 0.1, "momentum": 0.9})


def train(module: Any, store: DistributedKVStore, overlaps: bool, sizes: Any = (ROWS,) * STEPS) -> Any:
    """The parameters, and how many sums each pass began."""
    begun: list[int] = []
    for step, rows in enumerate(sizes):
        module.forward(batch(step, store, rows), is_train=True)
        module.backward()
        begun.append(0 if store._overlapped is None else store._overlapped._exchange.begun)
        module.update()
        assert store._overlapped is not None
        store._overlapped.overlaps = overlaps
    return {name: value.asnumpy().tobytes() for name, value in module.get_params()[0].items()}, begun


@pytest.mark.parametrize("update", ["1", "0"], ids=["store", "module"])
def test_the_bits_are_those_without_overlap(update: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MXNET_UPDATE_ON_KVSTORE", update)

    def work(store: DistributedKVStore) -> Any:
        found: list[Any] = []
        for overlaps in (True, False):
            own = store if overlaps else DistributedKVStore("dist_sync", store._workers)
            module = mx.mod.Module(network()[0])
            begin(module, own)
            found.append(train(module, own, overlaps))
        return found

    (ahead, after), (other, _) = workers(work, 2)
    assert ahead[0] == after[0] == other[0]
    assert ahead[1][0] == 0 and ahead[1][-1] > 2 and after[1][-1] == 0


def test_changed_gradients_are_those_that_count() -> None:
    def work(store: DistributedKVStore, overlaps: bool) -> Any:
        module = mx.mod.Module(network()[0])
        begin(module, store)
        for step in range(3):
            module.forward_backward(batch(step, store))
            if step == 2:
                group: Any = module._exec_group
                group.execs[0].grad_dict["first_weight"][:] = 1
            module.update()
            assert store._overlapped is not None
            store._overlapped.overlaps = overlaps
        return {name: value.asnumpy().tobytes() for name, value in module.get_params()[0].items()}

    ahead, other = workers(lambda store: work(store, True), 2)
    assert ahead == other == workers(lambda store: work(store, False), 2)[0]


def test_workers_with_other_buckets() -> None:
    """Modules of a BucketingModule share parameters; workers take other lengths in the same step."""

    def work(store: DistributedKVStore, overlaps: bool) -> Any:
        module = mx.mod.BucketingModule(network, default_bucket_key=ROWS)
        begin(module, store)
        sizes = [ROWS, ROWS - store.rank, ROWS, ROWS, ROWS - 1, ROWS]
        return train(module, store, overlaps, sizes)[0]

    ahead, other = workers(lambda store: work(store, True), 2)
    assert isinstance(ahead, dict), ahead
    assert ahead == other == workers(lambda store: work(store, False), 2)[0]
