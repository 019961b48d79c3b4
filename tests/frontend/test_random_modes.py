"""A seed gives the same numbers in eager calls and in compiled graphs."""

from __future__ import annotations

from typing import Any

import mxforge as mx
import numpy as np
import pytest


class Noisy(mx.gluon.HybridBlock):
    """Two dropouts around a random draw."""

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


def test_a_compiled_graph_draws_the_same_numbers_as_its_operators() -> None:
    net = Noisy()
    net.initialize()
    eager = _draws(net)
    net.hybridize()
    compiled = _draws(net)
    assert not np.array_equal(eager[0], eager[1])
    for one, other in zip(eager, compiled, strict=True):
        assert np.allclose(one, other, rtol=1e-6)


@pytest.mark.parametrize(
    ("name", "numbers"),
    [
        ("uniform", {"low": 2, "high": 1}),
        ("normal", {"scale": 0}),
        ("exponential", {"lam": -1}),
        ("gamma", {"beta": 0}),
    ],
)
def test_invalid_parameters_of_distributions_are_refused(name: str, numbers: dict[str, float]) -> None:
    text = rf"{next(reversed(numbers))}=\S+ must be"
    with pytest.raises(mx.MXNetError, match=text):
        getattr(mx.nd, f"random_{name}")(shape=(2,), **numbers)
    with pytest.raises(mx.MXNetError, match=text):
        getattr(mx.sym, f"random_{name}")(shape=(2,), **numbers).bind(mx.cpu(), {})
