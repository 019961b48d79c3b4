"""Stores whose workers do not wait for each other."""

from __future__ import annotations

import threading
from typing import Any

import mxforge as mx
import numpy as np
import pytest
from mxforge.frontend.kvstore.asynchronous import AsynchronousKVStore
from mxforge.runtime.communicator import ThreadGroup
from numpy.testing import assert_array_equal

nd = mx.nd


def workers(work: Any, count: int = 3) -> list[Any]:
    """What each worker returns or raises."""
    group = ThreadGroup(count, 10.0)
    results: list[Any] = [None] * count

    def run(rank: int) -> None:
        store = AsynchronousKVStore("dist_async", group.member(rank))
        try:
            results[rank] = work(store)
        except Exception as error:
            results[rank] = error
        store.close()

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def pulled(store: AsynchronousKVStore, key: Any) -> np.ndarray[Any, Any]:
    out = nd.empty((2,))
    store.pull(key, out=out)
    return out.asnumpy()


def test_a_worker_sees_its_own_pushes_at_once() -> None:
    """Worker 1 pushes alone, while the others wait for it to end."""
    done = threading.Event()

    def work(store: AsynchronousKVStore) -> list[np.ndarray[Any, Any]]:
        store.init(["a", "b", "c"], [nd.full((2,), k + 10 * store.rank) for k in range(3)])
        store.set_optimizer(mx.optimizer.SGD(learning_rate=1.0))
        for number in range(4) if store.rank == 1 else ():
            store.push(["a", "b", "c"], [nd.ones((2,))] * 3)
            assert pulled(store, "b").tolist() == [-number] * 2
        if store.rank == 1:
            done.set()
        assert done.wait(10)
        return [pulled(store, key) for key in "abc"]

    for values in workers(work):
        for k, array in enumerate(values):
            assert_array_equal(array, [k - 4.0] * 2)


def test_all_pushes_arrive() -> None:
    def work(store: AsynchronousKVStore) -> np.ndarray[Any, Any]:
        store.init([3, 4], [nd.zeros((2,)), nd.zeros((2,))])
        store.set_optimizer(mx.optimizer.SGD(learning_rate=1.0))
        for _ in range(20):
            store.push([3, 4], [[nd.ones((2,)), nd.ones((2,))], nd.full((2,), -1)])
        store.pull(3, out=nd.empty((2,)))  # the owner has this worker's pushes
        store.pull(4, out=nd.empty((2,)))
        store._barrier()
        return np.stack([pulled(store, 3), pulled(store, 4)])

    for values in workers(work):
        assert_array_equal(values, [[-120, -120], [60, 60]])


def test_a_trainer_updates_on_the_store() -> None:
    def work(store: AsynchronousKVStore) -> np.ndarray[Any, Any]:
        weight = mx.gluon.Parameter("weight", shape=(2,))
        weight.initialize(mx.init.Constant(store.rank + 1))
        trainer = mx.gluon.Trainer([weight], "sgd", {"learning_rate": 1.0}, store)
        for _ in range(3):
            with mx.autograd.record():
                loss = weight.data().sum()
            loss.backward()
            trainer.step(1)
        store._barrier()
        return pulled(store, 0)

    for values in workers(work, 2):
        assert_array_equal(values, [1 - 6, 1 - 6])


def _failing(key: Any, gradient: Any, value: Any) -> None:
    raise ZeroDivisionError("division by zero")


def test_mistakes_are_named() -> None:
    def work(store: AsynchronousKVStore) -> list[str]:
        texts: list[str] = []
        store.init("a", nd.zeros((2,)))
        with pytest.raises(mx.MXNetError, match="a push requires set_optimizer") as error:
            store.push("a", nd.ones((2,)))
        store.set_optimizer(mx.optimizer.SGD())
        with pytest.raises(mx.MXNetError, match="key 'a' has shape"):
            store.push("a", nd.ones((3,)))
        with pytest.raises(mx.MXNetError, match="key 'b' has not been inited"):
            store.pull("b", out=nd.ones((3,)))
        with pytest.raises(AssertionError, match="Cannot save states for distributed training"):
            store.save_optimizer_states("states")
        store._set_updater(_failing)
        store.push("a", nd.ones((2,)))
        store._barrier()
        try:
            pulled(store, "a")
            pulled(store, "a")
        except mx.MXNetError as error:
            texts.append(str(error))
        return texts

    results = workers(work, 2)
    assert results[0] == ["worker 0 could not serve its values: division by zero"]
    assert results[1] in ([], results[0])


def test_a_process_alone_owns_all_keys() -> None:
    store = mx.kv.create("dist_async")
    store.set_optimizer(mx.optimizer.SGD(learning_rate=1.0))
    store.init("w", nd.ones((2,)))
    store.push("w", nd.ones((2,)) * 3)
    assert_array_equal(pulled(store, "w"), [-2, -2])
    store.close()


def test_trainers_do_not_sum_asynchronously() -> None:
    weight = mx.gluon.Parameter("weight", shape=(2,))
    weight.initialize()
    trainer = mx.gluon.Trainer([weight], "sgd", kvstore="dist_async", update_on_kvstore=False)
    with pytest.raises(ValueError, match="Please set update_on_kvstore to true when training in async mode"):
        trainer._prepare()


def test_an_error_while_a_value_is_read_is_that_of_its_owner() -> None:
    def work(store: AsynchronousKVStore) -> str:
        store.init("a", nd.ones((2,)))
        if store.rank == 0:  # the owner
            store._owners.keys[0] = "lost"
            with pytest.raises(mx.MXNetError, match="worker 0 could not serve its values: 'lost'"):
                pulled(store, "a")
        return "ended"

    assert workers(work, 2) == ["ended", "ended"]


def test_repeated_pushes_update_at_once_too() -> None:
    def work(store: AsynchronousKVStore) -> list[float]:
        keys, pushed, out = ["a", "b"], [nd.ones((2,)), nd.ones((3,))], [nd.zeros((2,)), nd.zeros((3,))]
        store.init(keys, pushed)
        store.set_optimizer(mx.optimizer.SGD(learning_rate=1.0))
        for _ in range(3 if store.rank == 0 else 0):
            store.pushpull(keys, pushed, out=out)
        return [array.asnumpy()[0] for array in out]

    assert workers(work, 2)[0] == [-2, -2]
