"""`mxforge bench --suite numpy`: the calls that it measures."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import mxforge as mx
import numpy as onp
import pytest
from mxforge.tools.bench import numpy_calls


@pytest.fixture(autouse=True)
def numpy_mode() -> Iterator[None]:
    mx.npx.set_np()
    yield
    mx.npx.reset_np()


def plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    return value.asnumpy() if hasattr(value, "asnumpy") else onp.asarray(value)


@pytest.mark.parametrize("name", numpy_calls.large_calls(onp, onp.random.default_rng(0), 4, 40))
def test_functions_of_large_arrays_compute_the_same(name: str) -> None:
    theirs, ours = (numpy_calls.large_calls(m, onp.random.default_rng(0), 4, 40) for m in (onp, mx.np))
    results = [plain(calls[name]()) for calls in (theirs, ours)]
    if "svd" in name:  # the vectors have either sign
        results = [result[1] for result in results]
    for one, other in zip(*[r if isinstance(r, list) else [r] for r in results], strict=True):
        onp.testing.assert_allclose(one, other, 2e-3, 2e-3)


def test_calls_on_small_arrays() -> None:
    calls = numpy_calls.small_calls(mx)
    for legacy, own in calls.values():
        onp.testing.assert_allclose(legacy().asnumpy(), own().asnumpy(), 1e-5)
