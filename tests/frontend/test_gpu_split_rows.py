"""Rows that several programs of a simulated GPU reduce, in parts (`codegen/triton/rows.py`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mxforge as mx
import numpy as np
import pytest
from mxforge.runtime.devices import open_device

pytestmark = pytest.mark.usefixtures("simulated_gpus")

LONG, TALL = (3, 40_001), (1_025, 70)
CASES: dict[str, tuple[Callable[[Any], Any], tuple[int, ...], str, int]] = {
    "sum of everything": (lambda x: x.sum(), (99_000,), "float32", 2),
    "maximum with NaN": (lambda x: mx.nd.max(mx.nd.log(x), axis=1), LONG, "float32", 2),
    "columns": (lambda x: x.sum(axis=0), TALL, "float32", 2),
    "columns of integers": (lambda x: x.sum(axis=0), TALL, "int32", 2),
    "columns of 64-bit floats": (lambda x: mx.nd.prod(x, axis=0), TALL, "float64", 2),
    "columns of 16-bit floats": (lambda x: x.mean(axis=0), TALL, "float16", 2),
    "any": (lambda x: mx.nd.norm(x, ord=1, axis=0), TALL, "float32", 2),
    "softmax": (mx.nd.softmax, LONG, "float32", 3),
    "several axes": (lambda x: x.sum(axis=(0, 2)), (41, 3, 1_001), "float32", 2),
}


@pytest.mark.parametrize("name", CASES)
def test_agrees_with_the_cpu(name: str) -> None:
    function, shape, dtype, phases = CASES[name]
    content = np.random.default_rng(1).normal(size=shape) * (3 if dtype == "int32" else 1)
    operand = mx.nd.array(content, dtype=dtype)
    on_gpu = operand.as_in_context(mx.gpu(0))
    device: Any = open_device("gpu", 0)
    before = set(device.launched)
    result = function(on_gpu).asnumpy()
    assert sum(name[-2:] in ("_0", "_1", "_2") for name in set(device.launched) - before) == phases
    expected = function(operand).asnumpy()
    scale = 1e-3 if dtype == "float16" else 1e-5
    np.testing.assert_allclose(result, expected, rtol=scale, atol=scale * np.abs(np.nan_to_num(expected)).max())


def test_gradients_of_batch_norm_over_few_channels() -> None:
    """Dependent reductions, and results along the rows beside sums."""

    def results(context: mx.Context) -> list[np.ndarray[Any, Any]]:
        random = np.random.default_rng(2)
        x = mx.nd.array(random.normal(size=(4, 6, 64, 32)), ctx=context)
        scale, shift = (mx.nd.array(random.normal(size=6), ctx=context) for _ in range(2))
        mean, variance = mx.nd.zeros(6, ctx=context), mx.nd.ones(6, ctx=context)
        for array in (x, scale, shift):
            array.attach_grad()
        with mx.autograd.record():
            y = mx.nd.BatchNorm(x, scale, shift, mean, variance, fix_gamma=False)
            loss = (y * y * x).sum()
        loss.backward()
        arrays: list[Any] = [y, x.grad, scale.grad, shift.grad, mean, variance]
        return [a.asnumpy() for a in arrays]

    for result, expected in zip(results(mx.gpu(0)), results(mx.cpu()), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize(("shape", "axis"), [((8, 6, 41, 101), 1), ((40_001, 3), 1)], ids=["images", "columns"])
def test_statistics_of_a_batch_are_two_launches(shape: tuple[int, ...], axis: int) -> None:
    """Each part of a row has a mean of its own. The mean is large, and the last part is shorter."""
    x = (1000 + np.random.default_rng(3).normal(size=shape)).astype(np.float32)
    net: Any = mx.gluon.nn.BatchNorm(axis=axis, momentum=0)
    net.initialize(ctx=mx.gpu(0))
    net.hybridize(static_alloc=True, static_shape=True)
    device: Any = open_device("gpu", 0)
    before = set(device.launched)
    with mx.autograd.record():
        y = net(mx.nd.array(x, ctx=mx.gpu(0)))
    mx.nd.waitall()
    y.backward()  # updates the moving statistics
    phases = {name[-2:] for name in set(device.launched) - before}
    assert {"_0", "_1"} <= phases and "_2" not in phases
    exact, rest = x.astype(np.float64), tuple(k for k in range(len(shape)) if k != axis)
    mean, variance = exact.mean(rest, keepdims=True), exact.var(rest, keepdims=True)
    np.testing.assert_allclose(net.running_var.data().asnumpy(), variance.ravel(), rtol=1e-5)
    np.testing.assert_allclose(y.asnumpy(), (exact - mean) / np.sqrt(variance + 1e-5), rtol=1e-4, atol=1e-3)
