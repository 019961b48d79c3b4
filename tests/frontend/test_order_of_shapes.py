"""Results do not depend on which shape came first, bit for bit: the specialised and the dynamic programs of these
operators add in the same order. `docs/design/dynamic-shapes.md` lists those that do not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import mxforge as mx
import numpy as np
import pytest
from mxforge import autograd, gluon, nd
from mxforge.frontend.gluon import nn
from mxforge.ir.caches import clear_caches
from mxforge.runtime import compile
from mxforge.runtime.cache import DiskCache

pytest.importorskip("llvmlite.binding")
Shape = tuple[int, ...]
Results = dict[Shape, list[np.ndarray[Any, Any]]]

MATRICES = (5, 12), (40, 12), (33, 60)
IMAGES = (1, 8, 14, 15), (2, 8, 20, 24), (3, 8, 33, 40)
SEQUENCES = (5, 10, 16), (12, 16, 16), (30, 9, 16)


def numbers(*shape: int) -> Any:
    return nd.array(np.random.default_rng(sum(shape)).standard_normal(shape, np.float32) / 2)


CALLS: dict[str, tuple[Callable[[Any], Any], tuple[Shape, ...]]] = {
    "pointwise": (lambda x: nd.exp(x) * nd.tanh(x) / nd.sigmoid(x), MATRICES),
    "sums": (lambda x: nd.broadcast_add(nd.sum(x, axis=0, keepdims=True), nd.mean(x, axis=1, keepdims=True)), MATRICES),
    "sum": (nd.sum, MATRICES),
    "rows": (lambda x: nd.softmax(x) + nd.L2Normalization(x), MATRICES),
    "moments": (lambda x: nd.LayerNorm(x, nd.ones(x.shape[1]), nd.zeros(x.shape[1])), MATRICES),
    "running": (lambda x: nd.sort(nd.cumsum(x, axis=1)), MATRICES),
    "product": (lambda x: nd.dot(x, x, transpose_b=True), MATRICES),
    "products": (lambda x: nd.batch_dot(x, x, transpose_b=True), SEQUENCES),
    "dense": (lambda x: nd.FullyConnected(x, numbers(9, 12), num_hidden=9, no_bias=True), MATRICES[:2]),
    "batch norm": (lambda x: nd.BatchNorm(x, nd.ones(8), nd.zeros(8), nd.zeros(8), nd.ones(8)), IMAGES),
    "convolution": (
        lambda x: nd.Convolution(x, numbers(16, 8, 3, 3), kernel=(3, 3), pad=(1, 1), num_filter=16, no_bias=True),
        IMAGES,
    ),
    "pools": (
        lambda x: nd.Pooling(nd.Pooling(x, kernel=(2, 2)), kernel=(3, 3), stride=(2, 2), pool_type="avg"),
        IMAGES,
    ),
}
BLOCKS: dict[str, tuple[Callable[[], Any], tuple[Shape, ...]]] = {
    "dense block": (lambda: nn.Dense(24, activation="relu", in_units=12), ((40, 12), (33, 12), (70, 12))),
    "LSTM": (lambda: gluon.rnn.LSTM(24, input_size=16), SEQUENCES),
}


@pytest.fixture
def empty_caches(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[[], None]]:
    """Empties all caches, that on disk too."""
    folders = (DiskCache(tmp_path / str(number)) for number in count())

    def empty() -> None:
        clear_caches()
        disk = next(folders)
        monkeypatch.setattr(compile, "default_cache", lambda: disk)

    yield empty
    clear_caches()


def in_order(make: Callable[[], Callable[[Any], Any]], shapes: tuple[Shape, ...]) -> Results:
    call, found = make(), Results()
    for shape in shapes:
        x = numbers(*shape)
        x.attach_grad()
        with autograd.record():
            y = call(x)
        y.backward()
        found[shape] = [y.asnumpy(), x.grad.asnumpy(), call(x).asnumpy()]
    return found


def block(make: Callable[[], Any]) -> Callable[[], Any]:
    def initialized() -> Any:
        mx.random.seed(5)
        np.random.seed(5)
        net = make()
        net.initialize(mx.init.Uniform(0.3))
        net.hybridize()
        return net

    return initialized


@pytest.mark.parametrize("name", [*CALLS, *BLOCKS])
def test_any_order_of_shapes_gives_the_same_bits(name: str, empty_caches: Callable[[], None]) -> None:
    if name in CALLS:
        call, shapes = CALLS[name]
        make: Callable[[], Any] = lambda: call  # noqa: E731
    else:
        build, shapes = BLOCKS[name]
        make = block(build)
    empty_caches()
    forward = in_order(make, shapes)
    empty_caches()
    backward = in_order(make, shapes[::-1])
    for shape, results in forward.items():
        for a, b in zip(results, backward[shape], strict=True):
            np.testing.assert_array_equal(a, b)
