"""Several backward passes of one forward pass."""

from __future__ import annotations

from typing import Any

import mxforge as mx
import numpy as np
import pytest


class _Normalized(mx.gluon.HybridBlock):
    """A batch normalization of a parameter: the new statistics depend on parameters only."""

    def __init__(self, shape: tuple[int, int]) -> None:
        super().__init__()
        kept = {"shape": shape[1:], "grad_req": "null", "differentiable": False}
        with self.name_scope():
            self.x = self.params.get("x", shape=shape)
            self.beta = self.params.get("beta", shape=shape[1:], init="zeros")
            self.mean = self.params.get("mean", init="zeros", **kept)
            self.variance = self.params.get("variance", init="ones", **kept)

    def hybrid_forward(self, F: Any, data: Any, x: Any, beta: Any, mean: Any, variance: Any) -> Any:
        return F.broadcast_add(F.BatchNorm(x, F.ones_like(beta), beta, mean, variance, momentum=0.5), data)


@pytest.mark.parametrize("hybridize", [False, True])
@pytest.mark.parametrize("rows", [1, 2])
def test_each_backward_pass_moves_the_statistics(rows: int, hybridize: bool) -> None:
    """Recorded from MXNet 1.9.1."""
    net = _Normalized((rows, 3))
    net.initialize()
    net.x.set_data(mx.nd.full((rows, 3), 2))
    net.hybridize(hybridize)
    found: list[float] = []
    for _ in range(2):
        with mx.autograd.record():
            y = net(mx.nd.ones((1,)))
        for retain in (True, False):
            y.backward(retain_graph=retain)
            found.append(float(net.mean.data().asnumpy()[0]))
    np.testing.assert_allclose(found, [1, 1.5, 1.75, 1.875])
