"""The same seed gives the same numbers, whether operators run one by one or as a compiled graph."""

from __future__ import annotations

from typing import Any

import mxforge as mx
import numpy as np


class Noisy(mx.gluon.HybridBlock):
    """Two dropouts around a draw of its own."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.first, self.second = mx.gluon.nn.Dropout(0.5), mx.gluon.nn.Dropout(0.3)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return self.second(self.first(x) + F.random.normal(shape=(3, 40)))


def _draws(net: mx.gluon.HybridBlock) -> list[np.ndarray]:
    mx.random.seed(5)
    with mx.autograd.train_mode():
        return [net(mx.nd.ones((3, 40))).asnumpy() for _ in range(3)]


def test_a_compiled_graph_draws_what_its_operators_draw() -> None:
    net = Noisy()
    net.initialize()
    eager = _draws(net)
    net.hybridize()
    compiled = _draws(net)
    assert not np.array_equal(eager[0], eager[1])
    for one, other in zip(eager, compiled, strict=True):
        assert np.allclose(one, other, rtol=1e-6)
