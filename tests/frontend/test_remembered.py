"""Functions of `mx.np` that choose an operator take its fast path from the second or third call on."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import mxforge as mx
import numpy as onp
import pytest
from mxforge import MXNetError, autograd, np, npx


@pytest.fixture(autouse=True)
def numpy_mode() -> Iterator[None]:
    npx.set_np()
    yield
    npx.reset_np()


def steps(call: Callable[[], Any]) -> list[str]:
    """The Python functions that a call calls."""
    seen: list[str] = []

    def note(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            seen.append(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return seen


X, Y = np.arange(6).reshape(2, 3), np.ones((2, 3))
MASK = X > 2
CALLS: dict[str, Callable[[], Any]] = {
    "concatenate": lambda: np.concatenate([X, Y]),
    "concatenate, axis 1": lambda: np.concatenate((X, Y), axis=1),
    "stack": lambda: np.stack([X, Y], axis=1),
    "where": lambda: np.where(MASK, X, Y),
    "clip": lambda: np.clip(X, 1, 3),
    "split": lambda: np.split(X, 2),
    "einsum": lambda: np.einsum("ij,ij->i", X, Y),
    "tile": lambda: np.tile(X, (2, 1)),
    "sort": lambda: np.sort(X, axis=0),
    "norm": lambda: np.linalg.norm(X),
    "transpose": lambda: X.T,
}


@pytest.mark.parametrize("name", CALLS)
def test_later_calls_skip_the_choice_of_an_operator(name: str) -> None:
    call = CALLS[name]
    first = call()
    for _ in range(3):
        call()
    assert "public" not in (seen := steps(call)), seen
    for one, other in zip(*[r if isinstance(r, list) else [r] for r in (first, call())], strict=True):
        assert type(other) is np.ndarray
        onp.testing.assert_array_equal(one.asnumpy(), other.asnumpy())


def test_calls_that_differ_have_results_of_their_own() -> None:
    halves = X.astype("float16")
    for _ in range(4):
        assert np.concatenate([X, Y]).shape == (4, 3) and np.concatenate([X, Y], axis=1).shape == (2, 6)
        assert np.concatenate([X, Y, X]).shape == (6, 3) and np.concatenate([halves, halves]).dtype == "float16"
        assert np.clip(X, 1, 3).max() == 3 and np.clip(X, 1, 2).max() == 2 and np.clip(X, None, 2).min() == 0
        assert np.where(MASK, 1, 0).sum() == 3 and np.where(MASK, X, 0).sum() == 12
        into = np.zeros((4, 3))
        assert np.concatenate([X, Y], out=into) is into and into.sum() == 21
        with pytest.raises((TypeError, AssertionError)):
            np.concatenate([X, mx.nd.ones((2, 3))])
        with pytest.raises(MXNetError):
            np.concatenate([X, np.ones((2, 2))])


def test_recorded_calls_have_gradients() -> None:
    x, y = X.copy(), Y.copy()
    for _ in range(3):
        np.concatenate([x, y])
    x.attach_grad()
    with autograd.record():
        z = (np.concatenate([x, y]) * 2).sum()
    z.backward()
    assert x.grad.asnumpy().tolist() == [[2] * 3] * 2
