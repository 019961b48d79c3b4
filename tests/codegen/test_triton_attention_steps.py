"""Training steps of attention on a simulated GPU agree with those on the CPU, with the same random numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("triton", reason="Triton is not installed: pip install mxforge[cuda]")

import mxforge as mx
from mxforge import autograd
from transformer_graphs import Layer

pytestmark = pytest.mark.usefixtures("simulated_gpus")


class Dropped(mx.gluon.HybridBlock):
    """Attention with lengths and dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.drop = mx.gluon.nn.Dropout(0.3)

    def hybrid_forward(self, F, q, k, v, length):
        scores = F.batch_dot(q, k, transpose_b=True) * 0.25
        return F.batch_dot(self.drop(F.softmax(scores, length, axis=-1, use_length=True)), v)


def step(net: mx.gluon.HybridBlock, inputs: list[np.ndarray], ctx: mx.Context) -> list[np.ndarray]:
    """The result of a step and the gradients of inputs and parameters."""
    mx.random.seed(3)
    net.initialize(ctx=ctx, force_reinit=True)
    net.hybridize()
    rng = np.random.default_rng(0)
    parameters = list(net.collect_params().values())
    for p in parameters:
        p.set_data(mx.nd.array(rng.standard_normal(p.shape) / 4, ctx=ctx))
    arrays = [mx.nd.array(x, ctx=ctx, dtype=x.dtype) for x in inputs]
    trained = [x for x in arrays if x.dtype is np.float32]
    for x in trained:
        x.attach_grad()
    with autograd.record():
        y = net(*arrays)
        loss = (y * y * y).sum()
    loss.backward()
    results: list[Any] = [y, *(x.grad for x in trained), *(p.grad() for p in parameters)]
    return [x.asnumpy() for x in results]


@pytest.mark.parametrize("name", ["layer", "dropout"])
def test_step(name: str) -> None:
    rng = np.random.default_rng(1)
    if name == "layer":
        net: Any = Layer(24, 3, 40)
        inputs: list[Any] = [rng.standard_normal((2, 20, 24)).astype(np.float32)]
    else:
        net = Dropped()
        inputs = [rng.standard_normal((3, 20, 8)).astype(np.float32) for _ in range(3)]
        inputs.append(np.full((3, 20), 7, np.int32))
    for x, expected in zip(step(net, inputs, mx.gpu(0)), step(net, inputs, mx.cpu()), strict=True):
        np.testing.assert_allclose(x, expected, 1e-4, 1e-4 * np.abs(expected).max())
