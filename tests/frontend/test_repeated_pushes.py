"""Pushes of the same arrays again and again, for which stores of several workers keep memory."""

from __future__ import annotations

from typing import Any

import mxforge as mx
import numpy as np
import pytest
from mxforge.frontend.kvstore import distributed
from mxforge.frontend.kvstore.distributed import DistributedKVStore
from worker_threads import workers

nd = mx.nd
KEYS = ["a", "b", "c", "d"]
SHAPES = [(3,), (2, 5), (1,), (7, 2)]
DTYPES = ["float32", "float16", "float32", "bfloat16"]


def arrays(value: float, ctx: Any = None) -> list[Any]:
    return [nd.full(s, value, dtype=t, ctx=ctx) for s, t in zip(SHAPES, DTYPES, strict=True)]


def values(found: list[Any]) -> list[float]:
    """The value of each array, all of whose elements are equal."""
    for array in found:
        assert (array.asnumpy() == array.asnumpy().flat[0]).all()
    return [float(array.asnumpy().flat[0]) for array in found]


def pulled(store: DistributedKVStore) -> list[float]:
    found = arrays(-1)
    store.pull(KEYS, out=found)
    return values(found)


@pytest.mark.parametrize("in_place", [True, False])
@pytest.mark.parametrize("gpu", [False, True])
def test_each_time_has_sums_of_its_own(in_place: bool, gpu: bool, simulated_gpus: Any) -> None:
    ctx = mx.gpu(0) if gpu else mx.cpu()

    def work(store: DistributedKVStore) -> list[Any]:
        store.init(KEYS, arrays(0))
        pushed, out = arrays(0, ctx), arrays(0, ctx)
        found: list[Any] = []
        for step in range(4):
            for array in pushed:
                array[:] = step + store.rank
            store.pushpull(KEYS, [[array] for array in pushed], out=None if in_place else out)
            found.append(values(pushed if in_place else out))
            for array in pushed:
                array[:] = 100  # the store has its own values
            assert pulled(store) == found[-1]
        return found

    for found in workers(work, 2):
        assert found == [[2 * step + 1] * 4 for step in range(4)]


def test_values_stay_until_their_keys_are_pushed() -> None:
    def work(store: DistributedKVStore) -> list[list[float]]:
        store.init(KEYS, arrays(0))
        pushed = arrays(1)
        found: list[list[float]] = []
        for _ in range(3):
            store.pushpull(KEYS, pushed, out=arrays(0))
            found.append(pulled(store))
            store.push("b", nd.full((2, 5), 5, dtype="float16"))
            store.push(KEYS[2:], [array * 3 for array in pushed[2:]])
            found.append(pulled(store))
        return found

    for found in workers(work, 2):
        assert found == [[2, 2, 2, 2], [2, 10, 6, 6]] * 3


def test_an_optimizer_that_is_set_later_updates_the_values() -> None:
    def work(store: DistributedKVStore) -> list[list[float]]:
        keys, found = KEYS[::2], []
        pushed, out = arrays(1)[::2], arrays(0)[::2]
        store.init(keys, pushed)
        for step in range(6):
            if step == 3:
                store.set_optimizer(mx.optimizer.SGD(learning_rate=0.5))
            store.pushpull(keys, pushed, out=out)
            found.append(values(out))
        return found

    for found in workers(work, 2):
        assert found == [[2, 2]] * 3 + [[1, 1], [0, 0], [-1, -1]]


def test_other_arrays_keys_and_orders() -> None:
    def work(store: DistributedKVStore) -> None:
        store.init(KEYS, arrays(0))
        first, second = arrays(1), arrays(2)
        for pushed, expected in ((first, 2), (first, 4), (second, 4), (first, 8), (first, 16)):
            store.pushpull(KEYS, pushed, out=pushed)
            assert values(pushed) == [expected] * 4
        store.pushpull(KEYS[::-1], first[::-1], out=first[::-1])
        assert values(first) == [32] * 4
        with pytest.raises(mx.MXNetError, match="key 'a' has shape"):
            store.pushpull(KEYS, first[::-1], out=first[::-1])
        with pytest.raises(AssertionError, match="4 keys for 3 values"):
            store.pushpull(KEYS, first[:3])

    for found in workers(work, 2):
        assert found is None, found


def test_a_difference_in_a_repeated_push_is_an_error_on_all() -> None:
    def work(store: DistributedKVStore) -> None:
        store.init(KEYS, arrays(0))
        pushed = arrays(1)
        for _ in range(2):
            store.pushpull(KEYS, pushed)
        chosen = slice(0, 4 - store.rank)
        store.pushpull(KEYS[chosen], pushed[chosen])

    for found in workers(work, 2):
        assert isinstance(found, mx.MXNetError) and "worker 0 has 4 keys, worker 1 has 3 keys" in str(found)


def test_compressed_pushes() -> None:
    def work(store: DistributedKVStore) -> list[list[float]]:
        keys = KEYS[::2]
        store.init(keys, arrays(0)[::2])
        pushed, out = arrays(0.75)[::2], arrays(0)[::2]
        found: list[list[float]] = []
        for step in range(4):
            if step == 2:
                store.set_gradient_compression({"type": "2bit", "threshold": 0.5})
            store.pushpull(keys, pushed, out=out)
            found.append(values(out))
        return found

    for found in workers(work, 2):
        assert found == [[1.5, 1.5]] * 2 + [[1, 1]] * 2


def test_sums_do_not_change_later() -> None:
    def work(store: DistributedKVStore) -> None:
        first = store.sums(arrays(1))
        store.sums(arrays(2))
        assert values(first) == [2] * 4
        np.testing.assert_array_equal(store.sums([nd.ones((2,))])[0].asnumpy(), [2, 2])

    assert workers(work, 2) == [None, None]


def test_memory_for_many_sets_of_keys_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distributed, "_MOST_KEPT", 1000)

    def work(store: DistributedKVStore) -> int:
        keys = list(range(12))
        store.init(keys, [nd.ones((10,)) for _ in keys])
        for first in range(10):
            store.push(keys[first : first + 3], [nd.ones((10,))] * 3)
        return sum(bool(plan._buckets) for plan in (*store._plans.recent.values(), *store._plans._older.values()))

    for count in workers(work, 2):
        assert 1 <= count <= 6
