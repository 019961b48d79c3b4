"""Stores of several workers, which are threads here; `tests/tools/test_launch.py` starts processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mxforge as mx
import numpy as np
import pytest
from mxforge.frontend.kvstore.distributed import DistributedKVStore
from mxforge.runtime.communicator import CommunicationError
from numpy.testing import assert_array_equal
from worker_threads import workers

nd = mx.nd
WORKERS = 3


def pulled(store: DistributedKVStore, key: Any, shape: tuple[int, ...], dtype: str = "float32") -> np.ndarray[Any, Any]:
    out = nd.empty(shape, dtype=dtype)
    store.pull(key, out=out)
    return out.asnumpy()


def test_all_begin_with_the_values_of_the_first_worker() -> None:
    def work(store: DistributedKVStore) -> list[float]:
        store.init(["a", "b"], [nd.full((2,), store.rank + 5), nd.full((3, 1), store.rank - 1, dtype="float64")])
        return [pulled(store, "a", (2,))[0], pulled(store, "b", (3, 1), "float64")[2, 0]]

    assert workers(work) == [[5, -1]] * WORKERS


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32"])
def test_pushes_are_summed(dtype: str) -> None:
    """Over devices and workers; without an updater the sum replaces the value, as in MXNet."""

    def work(store: DistributedKVStore) -> np.ndarray[Any, Any]:
        store.init(3, nd.ones((2, 2), dtype=dtype))
        store.push(3, [nd.full((2, 2), store.rank, dtype=dtype), nd.full((2, 2), 10, dtype=dtype)])
        return pulled(store, 3, (2, 2), dtype)

    for found in workers(work):
        assert_array_equal(found, np.full((2, 2), 3 + 10 * WORKERS, dtype))


def test_many_keys_of_all_sizes_in_one_push() -> None:
    shapes = [(n,) for n in (1, 7, 3_000_000, 2, 40)]

    def work(store: DistributedKVStore) -> list[np.ndarray[Any, Any]]:
        keys = [str(k) for k in range(len(shapes))]
        values = [nd.full(shape, k + store.rank) for k, shape in enumerate(shapes)]
        store.init(keys, values)
        store.pushpull(keys, values, out=values)
        return [value.asnumpy() for value in values]

    for found in workers(work, 2):
        for k, (array, shape) in enumerate(zip(found, shapes, strict=True)):
            assert_array_equal(array, np.full(shape, 2 * k + 1, np.float32))


def test_rows_of_sparse_gradients_are_joined() -> None:
    def work(store: DistributedKVStore) -> np.ndarray[Any, Any]:
        store.init("w", nd.zeros((6, 2)).tostype("row_sparse"))
        rows = [store.rank, 5]
        store.push("w", nd.sparse.row_sparse_array((np.full((2, 2), store.rank + 1.0), rows), shape=(6, 2)))
        out = nd.sparse.zeros("row_sparse", (6, 2))
        store.row_sparse_pull("w", out=out, row_ids=nd.array([0, 1, 2, 5]))
        return out.asnumpy()

    expected = np.zeros((6, 2), np.float32)
    expected[[0, 1, 2, 5]] = [[1], [2], [3], [6]]
    for found in workers(work):
        assert_array_equal(found, expected)


def test_the_store_updates_alike_on_all_workers(tmp_path: Path) -> None:
    def work(store: DistributedKVStore) -> np.ndarray[Any, Any]:
        store.set_optimizer(mx.optimizer.SGD(learning_rate=0.5, momentum=0.9))
        store.init("w", nd.ones((3,)))
        for step in range(2):
            store.push("w", nd.full((3,), 0.1 * (store.rank + step)))
        store.save_optimizer_states(str(tmp_path / "states"))
        store.load_optimizer_states(str(tmp_path / "states"))
        store.push("w", nd.ones((3,)))
        return pulled(store, "w", (3,))

    found = workers(work)
    alone = mx.kv.create("local")
    alone.set_optimizer(mx.optimizer.SGD(learning_rate=0.5, momentum=0.9))
    alone.init("w", nd.ones((3,)))
    for gradient in (0.3, 0.6, 3.0):
        alone.push("w", nd.full((3,), gradient))
    out = nd.empty((3,))
    alone.pull("w", out=out)
    for values in found:
        assert_array_equal(values, found[0])
        np.testing.assert_allclose(values, out.asnumpy(), rtol=1e-6)


def test_compressed_gradients() -> None:
    def work(store: DistributedKVStore) -> np.ndarray[Any, Any]:
        store.set_gradient_compression({"type": "2bit", "threshold": 0.5})
        store.init("w", nd.zeros((2,)))
        store.push("w", nd.array([0.7, 0.2 * store.rank]))
        return pulled(store, "w", (2,))

    for found in workers(work, 2):
        assert_array_equal(found, [1.0, 0.0])


def test_differences_between_workers_are_named_on_all() -> None:
    def work(store: DistributedKVStore) -> None:
        store.init(["a", "b"], [nd.zeros((2,)), nd.zeros((2,))])
        store.push("a" if store.rank == 0 else "b", nd.ones((2,)))

    for found in workers(work):
        assert isinstance(found, mx.MXNetError)
        assert "worker 0 has key 'a': default (2,) float32, worker 1 has key 'b'" in str(found)


def test_other_models_on_two_workers() -> None:
    def work(store: DistributedKVStore) -> None:
        keys = list(range(2 + store.rank))
        store.init(keys, [nd.zeros((2,)) for _ in keys])

    for found in workers(work, 2):
        assert "worker 0 has 2 keys, worker 1 has 3 keys" in str(found)


def test_a_missing_worker_is_an_error() -> None:
    def work(store: DistributedKVStore) -> None:
        if store.rank:
            store._barrier()

    found = workers(work, 2, timeout=0.2)
    assert found[0] is None
    assert isinstance(found[1], CommunicationError)


def test_one_process_without_a_launcher_is_a_world_of_one() -> None:
    store = mx.kv.create("dist_sync")
    assert (store.type, store.rank, store.num_workers) == ("dist_sync", 0, 1)
    store.init("w", nd.ones((2,)))
    store.push("w", nd.ones((2,)) * 3)
    assert_array_equal(pulled(store, "w", (2,)), [3, 3])
