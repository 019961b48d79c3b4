"""The memory of programs for many shapes is bounded in bytes, and programs that are dropped come back with the same
bits."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from mxforge import autograd, gluon, nd
from mxforge.frontend.gluon import nn
from mxforge.ir.caches import Cache, age_caches, clear_caches
from mxforge.runtime import dynamic, program_bytes
from mxforge.runtime.dynamic_derivatives import _families

pytest.importorskip("llvmlite.binding")
Array = np.ndarray[Any, Any]


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    clear_caches()
    gc.collect()
    monkeypatch.setattr(program_bytes, "account", program_bytes._Account())
    yield
    clear_caches()


def held() -> int:
    """The bytes of the programs in memory."""
    account = program_bytes.account
    if account.held - sum(account.freed) > program_bytes.LIMIT:
        gc.collect()
    return account.held - sum(account.freed)


def test_a_cache_drops_entries_that_were_not_used_between_two_generations() -> None:
    cache: Cache[int, str] = Cache("a cache", ages=True)
    for key in range(3):
        cache.add(key, str(key))
    age_caches()
    assert cache.find(1) == "1"
    age_caches()
    assert cache.find(1) == "1" and cache.find(0) is None


def step(rows: int) -> list[Array]:
    x = nd.array(np.random.default_rng(rows).standard_normal((rows, 5), np.float32))
    x.attach_grad()
    with autograd.record():
        y = nd.tanh(x * 2 + 1) * x
    y.backward()
    assert x.grad is not None
    return [y.asnumpy(), x.grad.asnumpy()]


def test_programs_of_eager_calls_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program_bytes, "LIMIT", 2 << 20)
    first = {rows: step(rows) for rows in range(4, 40)}
    for _ in range(2):
        for rows, expected in first.items():
            for a, b in zip(expected, step(rows), strict=True):
                np.testing.assert_array_equal(a, b)
            assert held() < 2 * program_bytes.LIMIT


def test_threads_whose_programs_are_dropped_get_right_results(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program_bytes, "LIMIT", 1 << 18)
    expected = {rows: step(rows) for rows in range(4, 30)}

    def work(first: int) -> bool:
        order = [4 + (first + 7 * n) % 26 for n in range(60)]
        return all(np.array_equal(a, b) for rows in order for a, b in zip(expected[rows], step(rows), strict=True))

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(work, range(4)))


def test_programs_of_a_block_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program_bytes, "LIMIT", 1 << 20)
    net = nn.HybridSequential()
    net.add(nn.Dense(8, activation="relu", in_units=5), nn.Dense(3, in_units=8))
    net.initialize()
    net.hybridize()
    loss = gluon.loss.L2Loss()

    def value(rows: int) -> Array:
        x = nd.array(np.random.default_rng(rows).standard_normal((rows, 5), np.float32))
        with autograd.record():
            y = loss(net(x), nd.ones((rows, 3)))
        y.backward()
        return y.asnumpy()

    first = {rows: value(rows) for rows in range(3, 43)}
    for rows, expected in first.items():
        np.testing.assert_array_equal(value(rows), expected)
        assert held() < 2 * program_bytes.LIMIT


def test_dynamic_programs_of_a_family_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dynamic, "_REMEMBERED_BYTES", 1)
    net = nn.Dense(8, in_units=5)
    net.initialize()
    net.hybridize()

    def gradient(shape: tuple[int, ...]) -> Array:
        x = nd.array(np.random.default_rng(sum(shape)).standard_normal(shape, np.float32))
        with autograd.record():
            y = net(x)
        y.backward()
        return net.weight.grad().asnumpy()

    shapes = (3, 5), (6, 5), (1, 5), (7, 5), (1, 5)
    found = [gradient(shape) for shape in shapes]
    assert all(len(d._known) == 1 for d in _families.values())
    np.testing.assert_array_equal(found[2], found[4])
    for shape, result in zip(shapes, found, strict=True):
        x = np.random.default_rng(sum(shape)).standard_normal(shape, np.float32)
        np.testing.assert_allclose(result, np.tile(x.sum(0), (8, 1)), 1e-5, 1e-5)
