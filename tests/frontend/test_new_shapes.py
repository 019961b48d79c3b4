"""A call with a new shape reuses the machine code of the operator: compilations are counted."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import mxforge as mx
import numpy as np
import pytest
from mxforge import nd
from mxforge.codegen.statistics import statistics
from mxforge.ir.caches import clear_caches

pytest.importorskip("llvmlite.binding")
Array = np.ndarray
SHAPES = ((3, 5), (7, 40), (20, 3), (33, 300), (64, 17), (900, 3), (5, 901), (2, 2), (30, 70))


def np_softmax(x: Array, axis: int) -> Array:
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def np_layer_norm(x: Array) -> Array:
    return (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)


CALLS: dict[str, tuple[Callable[[nd.NDArray], nd.NDArray], Callable[[Array], Array]]] = {
    "exp": (nd.exp, np.exp),
    "add": (lambda a: a + a, lambda x: x + x),
    "scalars": (lambda a: a * a.shape[0] / 3, lambda x: x * x.shape[0] / 3),
    "add row": (lambda a: nd.broadcast_add(a, nd.ones((1, a.shape[1]))), lambda x: x + 1),
    "sum": (nd.sum, lambda x: x.sum().reshape(1)),
    "sum 0": (lambda a: nd.sum(a, axis=0), lambda x: x.sum(0)),
    "sum 1": (lambda a: nd.sum(a, axis=1), lambda x: x.sum(1)),
    "mean 0": (lambda a: nd.mean(a, axis=0), lambda x: x.mean(0)),
    "mean 1": (lambda a: nd.mean(a, axis=1), lambda x: x.mean(1)),
    "max 0": (lambda a: nd.max(a, axis=0), lambda x: x.max(0)),
    "min 1": (lambda a: nd.min(a, axis=1, keepdims=True), lambda x: x.min(1, keepdims=True)),
    "prod 1": (lambda a: nd.prod(a / 2, axis=1), lambda x: (x / 2).prod(1)),
    "norm": (lambda a: nd.norm(a, axis=1), lambda x: np.sqrt((x * x).sum(1))),
    "argmax 1": (lambda a: nd.argmax(a, axis=1), lambda x: x.argmax(1)),
    "argmin 0": (lambda a: nd.argmin(a, axis=0), lambda x: x.argmin(0)),
    "softmax 1": (nd.softmax, lambda x: np_softmax(x, 1)),
    "softmax 0": (lambda a: nd.softmax(a, axis=0), lambda x: np_softmax(x, 0)),
    "log_softmax": (nd.log_softmax, lambda x: np.log(np_softmax(x, 1))),
    "LayerNorm": (lambda a: nd.LayerNorm(a, nd.ones(a.shape[1]), nd.zeros(a.shape[1])), np_layer_norm),
    "transpose": (nd.transpose, np.transpose),
    "slice": (lambda a: nd.slice_axis(a, axis=1, begin=1, end=None), lambda x: x[:, 1:]),
    "flip": (lambda a: nd.flip(a, axis=1), lambda x: x[:, ::-1]),
    "concat": (lambda a: nd.concat(a, a, dim=1), lambda x: np.concatenate([x, x], 1)),
    "take": (lambda a: nd.take(a, nd.array([1, 0, 1])), lambda x: x[[1, 0, 1]]),
    "pick": (lambda a: nd.pick(a, nd.ones(a.shape[0])), lambda x: x[:, 1]),
    "dot": (lambda a: nd.dot(a, nd.ones((a.shape[1], 9))), lambda x: x.sum(1, keepdims=True).repeat(9, 1)),
    "dot of columns": (lambda a: nd.dot(a, a, transpose_a=True), lambda x: x.T @ x),
    "batch_dot": (
        lambda a: nd.batch_dot(nd.stack(a, a), nd.ones((2, a.shape[1], 3))),
        lambda x: np.stack([x, x]).sum(2, keepdims=True).repeat(3, 2),
    ),
    "FullyConnected": (
        lambda a: nd.FullyConnected(a, nd.ones((7, a.shape[1])), nd.ones(7), num_hidden=7),
        lambda x: x.sum(1, keepdims=True).repeat(7, 1) + 1,
    ),
    "where": (lambda a: nd.where(a > 0, a, -a), np.abs),
}
MORE = {
    "scalars": 2,
    "dot": 2,
    "batch_dot": 4,
    "FullyConnected": 3,
    "slice": 2,
    "softmax 0": 2,
    "where": 3,
    "prod 1": 2,
    "LayerNorm": 3,
    "pick": 2,
    "take": 2,
    "add row": 2,
}
"""The number of compiled modules of calls that consist of several kernels or have several forms (long rows, products of
few rows); other calls compile one."""


@pytest.fixture(scope="module", autouse=True)
def threads() -> None:
    """Compiles what the first call of a process requires: the thread pool."""
    (nd.ones((1, 1)) + 1).asnumpy()


@pytest.mark.parametrize("name", CALLS)
def test_new_shapes_compile_nothing(name: str) -> None:
    call, expected = CALLS[name]
    before = statistics.modules
    for shape in SHAPES:
        x = np.random.default_rng(sum(shape)).standard_normal(shape, np.float32)
        y = call(mx.nd.array(x)).asnumpy()
        np.testing.assert_allclose(y, expected(x), 1e-4, 1e-4)
    assert statistics.modules - before <= MORE.get(name, 1)


IMAGES = ((2, 24, 9, 9), (3, 24, 18, 21), (4, 24, 17, 19), (2, 24, 22, 26))  # fewer positions choose other tiles
WEIGHTS = np.random.default_rng(0).standard_normal((40, 24, 3, 3), np.float32) / 16
OF_IMAGES: dict[str, Callable[[nd.NDArray], nd.NDArray]] = {
    "Convolution": lambda a: nd.Convolution(a, nd.array(WEIGHTS), no_bias=True, kernel=(3, 3), num_filter=40),
    "padded Convolution": lambda a: nd.Convolution(
        a, nd.array(WEIGHTS), no_bias=True, kernel=(3, 3), num_filter=40, pad=(1, 1), stride=(2, 2)
    ),
    "Deconvolution": lambda a: nd.Deconvolution(
        nd.tile(a, (1, 2, 1, 1))[:, :40], nd.array(WEIGHTS), no_bias=True, kernel=(3, 3), num_filter=24
    ),
    "padded Pooling": lambda a: nd.Pooling(a, kernel=(3, 3), stride=(2, 2), pad=(1, 1), pool_type="avg"),
    "sort": nd.sort,
    "argsort": lambda a: nd.argsort(a, axis=2),
    "topk": lambda a: nd.topk(a, k=2, ret_typ="value"),
    "cumsum": lambda a: nd.cumsum(a, axis=3),
    "BilinearResize2D": lambda a: nd.contrib.BilinearResize2D(a, a, mode="like"),
    "BilinearSampler": lambda a: nd.BilinearSampler(a, nd.tanh(a[:, :2])),
}


@pytest.mark.parametrize("name", OF_IMAGES)
def test_the_third_shape_compiles_nothing(name: str) -> None:
    """Operators whose code depends on shapes: the second one compiles for any, with equal results."""
    call = OF_IMAGES[name]
    images = [np.random.default_rng(sum(s)).standard_normal(s, np.float32) for s in IMAGES]
    found = [call(nd.array(x)).asnumpy() for x in images[:2]]
    before = statistics.modules
    found += [call(nd.array(x)).asnumpy() for x in images[2:]]
    assert statistics.modules == before
    clear_caches()  # then each of them is the first one
    for x, result in zip(images, found, strict=True):
        np.testing.assert_allclose(call(nd.array(x)).asnumpy(), result, 1e-5, 1e-5)
        clear_caches()


class ByWeights(mx.gluon.HybridBlock):
    """A convolution whose weights are an input, not a parameter."""

    def hybrid_forward(self, F: Any, x: Any, w: Any) -> Any:
        return F.Convolution(x, w, no_bias=True, kernel=(3, 3), num_filter=40)


def test_a_network_convolves_images_of_any_size_with_weights_that_are_an_input() -> None:
    network = ByWeights()
    network.hybridize()
    for shape in IMAGES:
        x, gradients = nd.array(np.random.default_rng(sum(shape)).standard_normal(shape, np.float32)), []
        for call in (network, lambda x, w: nd.Convolution(x, w, no_bias=True, kernel=(3, 3), num_filter=40)):
            w = nd.array(WEIGHTS)
            w.attach_grad()
            call(x, w).wait_to_read()  # the program without residuals
            with mx.autograd.record():
                y = nd.sum(nd.square(call(x, w)))
            y.backward()
            assert w.grad is not None
            gradients.append(w.grad.asnumpy())
        np.testing.assert_allclose(*gradients, rtol=1e-3, atol=1e-3 * np.abs(gradients[0]).max())


def test_an_operand_that_does_not_fit_is_refused_at_any_call() -> None:
    weights = nd.ones((2, 3, 3, 3))
    for size in (5, 6, 7):
        nd.Convolution(nd.ones((1, 3, size, size)), weights, no_bias=True, kernel=(3, 3), num_filter=2)
    for shape, text in (((1, 4, 8, 8), "weight"), ((1, 3, 2, 8), "kernel size")):
        with pytest.raises(mx.MXNetError, match=text):
            nd.Convolution(nd.ones(shape), weights, no_bias=True, kernel=(3, 3), num_filter=2)


def test_scalar_parameters_are_not_compiled_into_code() -> None:
    x = nd.ones((4, 4))
    (x + 2.5).wait_to_read()
    before = statistics.modules
    assert (x + 3.5).asnumpy()[0, 0] == 4.5
    assert (x - 7.25).asnumpy()[0, 0] == -6.25
    assert statistics.modules - before <= 1


def test_a_program_from_the_disk_cache_contains_its_code() -> None:
    """In a new process, a new shape of an operator whose code is in the cache does not import LLVM."""
    text = (
        "import sys, mxforge as mx; x = mx.nd.ones(({rows}, 5)); "
        "print(mx.nd.sum(x, axis=1).asnumpy().sum(), mx.nd.dot(x, x, transpose_a=True).asnumpy()[0, 0]); "
        "mx.nd.sum(mx.nd.ones(({rows} + 1, 5)), axis=1); print('llvmlite' in sys.modules)"
    )
    first = subprocess.run([sys.executable, "-c", text.format(rows=20)], capture_output=True, text=True, check=True)
    assert first.stdout.splitlines()[0] == "100.0 20.0"
    # The first shape of the second process is in the cache, the second one is not.
    second = text.format(rows=20).replace("20 + 1", "33")
    again = subprocess.run([sys.executable, "-c", second], capture_output=True, text=True, check=True)
    assert again.stdout.splitlines() == ["100.0 20.0", "False"]


def _correlation(n: int) -> nd.NDArray:
    x = nd.ones((1, 4, n, n + 1))
    return nd.Correlation(x, x, kernel_size=1, max_displacement=2, stride1=1, stride2=1, pad_size=2)


def _proposal(n: int) -> nd.NDArray:
    scores, moves = nd.ones((1, 24, n, n + 1)), nd.zeros((1, 48, n, n + 1))
    return nd.contrib.Proposal(scores, moves, nd.array([[16 * n, 16 * n, 1]]), rpn_post_nms_top_n=9)


@pytest.mark.parametrize("call", [_correlation, _proposal])
def test_positions_of_cells_are_computed_by_the_program(call: Callable[[int], nd.NDArray]) -> None:
    for n in (4, 6):
        call(n).wait_to_read()
    modules = statistics.modules
    call(9).wait_to_read()
    assert statistics.modules == modules
