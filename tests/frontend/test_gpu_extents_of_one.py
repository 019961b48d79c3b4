"""Reductions, products and windows over axes of extent 1 on a simulated GPU: a kernel reads one element of a block."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mxforge as mx
import numpy as np
import pytest

pytestmark = pytest.mark.usefixtures("simulated_gpus")

Function = Callable[..., Any]

CASES: dict[str, tuple[Function, tuple[tuple[int, ...], ...]]] = {
    **{
        f"{name} of axis {axis}": (lambda F, x, name=name, axis=axis: getattr(F, name)(x, axis=axis), (shape,))
        for name in ("sum", "mean", "prod", "max", "min", "norm", "nansum", "nanprod")
        for axis, shape in ((1, (5, 1)), (0, (1, 7)), ((1, 2), (3, 1, 1)))
    },
    **{
        f"{name} of everything": (lambda F, x, name=name: getattr(F, name)(x), ((1, 1),))
        for name in ("sum", "mean", "prod")
    },
    "softmax": (lambda F, x: F.softmax(x), ((4, 1),)),
    "log_softmax": (lambda F, x: F.log_softmax(x, axis=0), ((1, 4),)),
    "argmax": (lambda F, x: F.argmax(x, axis=1), ((4, 1),)),
    "dot": (lambda F, x, y: F.dot(x, y), ((5, 1), (1, 6))),
    "dot of vectors": (lambda F, x, y: F.dot(x, y), ((1,), (1,))),
    "batch_dot": (lambda F, x, y: F.batch_dot(x, y), ((2, 20, 1), (2, 1, 33))),
    "dense layer of one input": (lambda F, x, w, b: F.FullyConnected(x, w, b, num_hidden=6), ((5, 1), (6, 1), (6,))),
    "dense layer of one unit": (lambda F, x, w, b: F.FullyConnected(x, w, b, num_hidden=1), ((5, 4), (1, 4), (1,))),
    "convolution of one channel": (
        lambda F, x, w: F.Convolution(x, w, kernel=(1, 1), num_filter=4, no_bias=True),
        ((2, 1, 3, 3), (4, 1, 1, 1)),
    ),
    "convolution of an image of one pixel": (
        lambda F, x, w: F.Convolution(x, w, kernel=(3, 3), pad=(1, 1), num_filter=4, no_bias=True),
        ((2, 3, 1, 1), (4, 3, 3, 3)),
    ),
    "global average": (lambda F, x: F.Pooling(x, kernel=(1, 1), global_pool=True, pool_type="avg"), ((2, 3, 1, 1),)),
    **{
        f"{kind} of windows of one element": (
            lambda F, x, kind=kind: F.Pooling(x, kernel=(1, 1), stride=(2, 2), pool_type=kind),
            ((2, 3, 5, 4),),
        )
        for kind in ("avg", "max", "sum")
    },
    "layer normalisation": (lambda F, x, g, b: F.LayerNorm(x, g, b), ((4, 1), (1,), (1,))),
    "loss of one class": (lambda F, x: F.mean(F.square(F.log_softmax(x) - 1), axis=1), ((4, 1),)),
}


class Block(mx.gluon.HybridBlock):
    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def hybrid_forward(self, F: Any, x: Any, *others: Any) -> Any:
        return self.function(F, x, *others)


def results(function: Function, given: list[np.ndarray], context: mx.Context, dtype: str) -> list[np.ndarray]:
    """The result and the gradients."""
    operands: list[Any] = [mx.nd.array(x, dtype=dtype, ctx=context) for x in given]
    for x in operands:
        x.attach_grad()
    with mx.autograd.record():
        y = function(*operands)
    y.backward(2 * mx.nd.ones_like(y))
    return [y.asnumpy(), *(x.grad.asnumpy() for x in operands)]


@pytest.mark.parametrize(("hybridized", "dtype"), [(False, "float32"), (True, "float16")], ids=["eager", "hybridized"])
@pytest.mark.parametrize("name", CASES)
def test_results_and_gradients(name: str, hybridized: bool, dtype: str) -> None:
    function, shapes = CASES[name]
    rng = np.random.default_rng(len(name))
    given = [rng.uniform(0.5, 2, shape) for shape in shapes]
    found: list[list[np.ndarray]] = []
    for context in (mx.cpu(), mx.gpu(0)):
        if hybridized:
            block = Block(function)
            block.hybridize(static_alloc=True, static_shape=True)
            found.append(results(block, given, context, dtype))
        else:
            found.append(results(lambda *xs: function(mx.nd, *xs), given, context, dtype))
    limit = 1e-5 if dtype == "float32" else 4e-3
    for x, y in zip(*found, strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_allclose(y.astype(np.float64), x.astype(np.float64), limit, limit)
