"""Sums of gradients that begin in the backward pass."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import mxforge as mx
import numpy as np
import pytest
from mxforge.frontend.kvstore import buckets
from mxforge.frontend.kvstore.distributed import DistributedKVStore
from worker_threads import workers

nd, nn = mx.nd, mx.gluon.nn
BATCH, STEPS = 6, 4


@pytest.fixture(autouse=True)
def small_buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buckets, "_BUCKET", 64)


class Training:
    """A worker that trains a network of three layers, with a part of the batch."""

    def __init__(self, store: DistributedKVStore, overlaps: bool = True, update: bool = True, net: Any = None) -> None:
        self.store, self.overlaps = store, overlaps
        self.net = net or network(store.rank)
        self.trainer = mx.gluon.Trainer(
            self.net.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.9}, store, update_on_kvstore=update
        )
        self.begun: list[int] = []
        self.loss = mx.gluon.loss.L2Loss()

    def backward(self, step: int, rows: slice | None = None) -> None:
        data = np.random.RandomState(step).rand(BATCH, 5)
        if rows is None:
            rows = slice(self.store.rank, BATCH, self.store.num_workers)
        x = nd.array(data[rows])
        with mx.autograd.record():
            loss = self.loss(self.net(x), x.sum(axis=1, keepdims=True))
        loss.backward()
        self.begun.append(self.sums._exchange.begun if self.store._overlapped else 0)

    @property
    def sums(self) -> Any:
        return self.store._overlapped

    def step(self) -> None:
        self.trainer.step(BATCH)
        self.sums.overlaps = self.overlaps

    def run(self, steps: int = STEPS) -> bytes:
        for step in range(steps):
            self.backward(step)
            self.step()
        return self.values()

    def values(self) -> bytes:
        return b"".join(p.data().asnumpy().tobytes() for p in self.net.collect_params().values())


def network(seed: int = 0, hybridized: bool = True) -> Any:
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(nn.Dense(7, activation="relu", in_units=5), nn.Dense(9, in_units=7), nn.Dense(1, in_units=9))
    net.initialize(mx.init.Uniform(0.1 + seed))
    if hybridized:
        net.hybridize()
    return net


@pytest.mark.parametrize("update", [True, False], ids=["store", "trainer"])
@pytest.mark.parametrize("count", [2, 3])
def test_the_bits_are_those_without_overlap(update: bool, count: int) -> None:
    mx.random.seed(3)

    def work(store: DistributedKVStore) -> tuple[bytes, bytes, list[int], int]:
        nets = [network(), network()]
        for a, b in zip(nets[0].collect_params().values(), nets[1].collect_params().values(), strict=True):
            b.set_data(a.data())
        ahead = Training(store, True, update, nets[0])
        values = ahead.run()
        other = DistributedKVStore("dist_sync", store._workers)
        return values, Training(other, False, update, nets[1]).run(), ahead.begun, len(ahead.sums.buckets)

    results = workers(work, count)
    for values, without, begun, total in results:
        assert total > 2
        assert begun == [0, total, total, total]
        assert values == without == results[0][0]


def test_all_gradients_of_an_eager_network_begin_too() -> None:
    def work(store: DistributedKVStore) -> list[int]:
        training = Training(store, net=network(hybridized=False))
        training.run()
        return training.begun

    for begun in workers(work, 2):
        assert begun[0] == 0 and begun[-1] > 2


def test_buckets_have_the_order_in_which_gradients_are_final() -> None:
    def work(store: DistributedKVStore) -> list[str]:
        training = Training(store)
        training.run(1)
        names = {p.data()._entry.node: n for n, p in training.net.collect_params().items()}
        return [names[v] for bucket in training.sums.buckets for v in bucket]

    order, other = workers(work, 2)
    assert order == other
    assert [name.removeprefix("net_dense")[0] for name in order] == list("221100")


def test_buckets_of_several_dtypes(monkeypatch: pytest.MonkeyPatch) -> None:
    """They have the order in which their last arrays are final, and the last one of a dtype is small."""
    monkeypatch.setattr(buckets, "_BUCKET", 40)
    monkeypatch.setattr(buckets, "_LAST", 16)
    arrays: dict[int | str, Any] = {k: nd.zeros((4,), dtype="float16") for k in range(4)}
    arrays |= {k: nd.zeros((4,)) for k in range(4, 10)} | {10: nd.zeros((2,), dtype="float16")}
    assert buckets.buckets_by_order(arrays) == [[0, 1, 2], [4], [5, 6], [7, 8], [9], [3, 10]]


def test_changed_gradients_are_summed_again() -> None:
    """One worker changes a gradient before the step: all sum again, and after two such steps no sum begins early."""

    def work(store: DistributedKVStore) -> tuple[bytes, list[int]]:
        training = Training(store)
        for step in range(STEPS + 1):
            training.backward(step)
            if store.rank == 1:
                for parameter in training.net.collect_params().values():
                    parameter.grad()[:] = 0
            training.step()
        return training.values(), training.begun

    (values, begun), (other, begun_too) = workers(work, 2)
    assert values == other
    assert begun == begun_too and [n > 0 for n in begun] == [False, True, True, False, False]


def test_a_worker_whose_pass_has_other_shapes_takes_part() -> None:
    """Its program is not known, so its sums begin in the step."""

    def work(store: DistributedKVStore) -> tuple[bytes, list[int]]:
        training = Training(store)
        training.run(2)
        training.backward(2, slice(0, 1) if store.rank else slice(0, 5))
        training.step()
        training.backward(3)
        training.step()
        return training.values(), training.begun

    (values, _), (other, _) = workers(work, 2)
    assert values == other


def test_two_passes_before_a_step() -> None:
    """The gradients of the last one count."""

    def work(store: DistributedKVStore, twice: bool) -> bytes:
        mx.random.seed(5)
        training = Training(store)
        for step in range(STEPS):
            if twice:
                training.backward(step + 10)
            training.backward(step)
            training.step()
        return training.values()

    once = workers(lambda store: work(store, False), 2)
    assert once[0] == once[1]
    found = workers(lambda store: work(store, True), 2)
    assert found[0] == found[1]


def test_an_overflow_on_one_worker_skips_the_step_on_all() -> None:
    def work(store: DistributedKVStore) -> tuple[list[bool], list[float], list[int]]:
        training = Training(store)
        training.trainer._amp_loss_scaler = scaler = mx.contrib.amp.loss_scaler.LossScaler()
        skipped: list[bool] = []
        for step in range(STEPS + 2):
            training.backward(step)
            if step == 2 and store.rank == 1:
                training.net[0].bias.grad()[0] = np.inf
            before = training.values()
            training.step()
            skipped.append(training.values() == before)
        return skipped, [scaler.loss_scale], training.begun

    for skipped, scale, begun in workers(work, 2):
        assert skipped == [False, False, True, False, False, False]
        assert scale == [2.0**15]
        assert begun[1:] == [begun[1]] * 5 and begun[1] > 0


def test_parameters_are_copied_without_their_connections() -> None:
    def work(store: DistributedKVStore) -> Any:
        training = Training(store)
        training.run(1)
        weight = training.net[0].weight
        assert weight._trainer is training.trainer
        for other in (pickle.loads(pickle.dumps(weight)), copy.deepcopy(weight)):
            assert other._trainer is None
            np.testing.assert_array_equal(other.data().asnumpy(), weight.data().asnumpy())
        with pytest.raises(mx.MXNetError, match="connects this process with others"):
            pickle.dumps(training.trainer)
        return True

    assert workers(work, 2) == [True, True]


def test_batches_of_many_sizes() -> None:
    """Their passes run programs for any shapes."""

    def work(store: DistributedKVStore, overlaps: bool) -> tuple[bytes, list[int]]:
        mx.random.seed(4)
        training = Training(store, overlaps)
        for step, rows in enumerate((6, 5, 4, 3, 2, 5, 4, 3)):
            training.backward(step, slice(0, rows - store.rank))
            training.step()
        return training.values(), training.begun

    ahead = workers(lambda store: work(store, True), 2)
    assert ahead[0][0] == ahead[1][0]
    assert any(n > 0 for _, begun in ahead for n in begun)
    after = workers(lambda store: work(store, False), 2)
    assert after[0][0] == after[1][0]


def test_gradients_of_a_gpu(simulated_gpus: Any) -> None:
    """Their sums pass through the memory of the host."""

    def work(store: DistributedKVStore, overlaps: bool) -> tuple[list[np.ndarray[Any, Any]], list[int]]:
        with mx.gpu(0):
            net = network()
            for k, parameter in enumerate(net.collect_params().values()):
                parameter.set_data(nd.full(parameter.shape, 0.1 * k, ctx=mx.gpu(0)))
            training = Training(store, overlaps, False, net)
            training.run()
        return [p.data().asnumpy() for p in net.collect_params().values()], training.begun

    (ahead, begun), (other, _) = workers(lambda store: work(store, True), 2)
    after = workers(lambda store: work(store, False), 2)[0][0]
    assert begun[-1] > 2
    for one, two, three in zip(ahead, other, after, strict=True):
        assert one.tobytes() == two.tobytes() == three.tobytes()


@pytest.mark.parametrize("kind", ["clip", "in place", "out", "zeros", "multiplied"])
def test_gradients_that_programs_change_are_those_that_count(kind: str) -> None:
    """Each way to write to a gradient between the backward pass and the step is noticed."""

    def change(parameters: list[Any]) -> None:
        grads = [p.grad() for p in parameters]
        if kind == "clip":
            mx.gluon.utils.clip_global_norm(grads, 1e-3)
        elif kind == "in place":
            grads[1] += 1
        elif kind == "out":
            nd.clip(grads[0], -1e-4, 1e-4, out=grads[0])
        elif kind == "zeros":
            parameters[2].zero_grad()
        else:
            grads[2][1:2] *= 3

    def work(store: DistributedKVStore, overlaps: bool) -> tuple[bytes, int]:
        net = network()
        for k, parameter in enumerate(net.collect_params().values()):
            parameter.set_data(nd.full(parameter.shape, 0.1 * k + 0.1))
        training = Training(store, overlaps, net=net)
        for step in range(2):
            training.backward(step)
            change(list(net.collect_params().values()))
            training.step()
        return training.values(), training.begun[-1]

    (ahead, begun), _ = workers(lambda store: work(store, True), 2)
    (after, _), _ = workers(lambda store: work(store, False), 2)
    assert begun > 2 and ahead == after
