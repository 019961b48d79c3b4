"""Gamma and Poisson distributions and distributions based on them: moments, frequencies, seeds, array parameters."""

from __future__ import annotations

from math import exp, lgamma, log
from typing import Any

import mxforge as mx
import numpy as np
import pytest

nd = mx.nd
COUNT = 40000


def drawn(function: str, *parameters: float) -> np.ndarray:
    mx.random.seed(11)
    return getattr(nd.random, function)(*parameters, shape=COUNT).asnumpy().astype(np.float64)


@pytest.mark.parametrize(
    ("function", "parameters", "mean", "variance"),
    [
        ("gamma", (0.3, 2.0), 0.6, 1.2),
        ("gamma", (1.0, 1.0), 1, 1),
        ("gamma", (7.5, 0.5), 3.75, 1.875),
        ("poisson", (0.5,), 0.5, 0.5),
        ("poisson", (9.5,), 9.5, 9.5),
        ("poisson", (12.0,), 12, 12),
        ("poisson", (1e6,), 1e6, 1e6),
        ("negative_binomial", (3, 0.4), 4.5, 11.25),
        ("generalized_negative_binomial", (3.0, 0.4), 3, 6.6),
        ("generalized_negative_binomial", (3.0, 0.0), 3, 3),
        ("exponential", (2.0,), 2, 4),
    ],
)
def test_moments(function: str, parameters: Any, mean: float, variance: float) -> None:
    found = drawn(function, *parameters)
    assert abs(found.mean() - mean) < 5 * (variance / COUNT) ** 0.5
    assert found.var() == pytest.approx(variance, rel=0.08)


@pytest.mark.parametrize("lam", [0.7, 6.0, 11.0, 30.0])
def test_frequencies_of_poisson_numbers(lam: float) -> None:
    """A chi-square test over the counts with an expected frequency of at least 20."""
    found = drawn("poisson", lam)
    expected = np.array([COUNT * exp(k * log(lam) - lam - lgamma(k + 1)) for k in range(100)])
    observed = np.bincount(found.astype(int), minlength=100)[:100]
    kept = expected >= 20
    statistic = ((observed - expected) ** 2 / np.maximum(expected, 1e-9))[kept].sum()
    freedom = kept.sum() - 1
    assert statistic < freedom + 5 * (2 * freedom) ** 0.5


def test_distribution_of_gamma_numbers() -> None:
    """The Kolmogorov-Smirnov distance to 1 - (1 + x) exp(-x), the distribution function for shape 2."""
    found = np.sort(drawn("gamma", 2.0, 1.0))
    distance = np.abs((1 - (1 + found) * np.exp(-found)) - np.arange(COUNT) / COUNT).max()
    assert distance < 1.95 / COUNT**0.5


@pytest.mark.parametrize("function", ["gamma", "poisson", "negative_binomial", "generalized_negative_binomial"])
def test_a_seed_repeats_and_calls_differ(function: str) -> None:
    parameters = {"poisson": (20,), "negative_binomial": (3, 0.4)}.get(function, (3, 0.4))
    draw = getattr(nd.random, function)
    mx.random.seed(5)
    first, second = (draw(*parameters, shape=(3, 40)).asnumpy() for _ in range(2))
    mx.random.seed(5)
    again = draw(*parameters, shape=(3, 40)).asnumpy()
    assert (first == again).all()
    assert (first != second).any()


def test_arrays_of_parameters() -> None:
    mx.random.seed(2)
    lam = nd.array([[0.0, 3.0], [40.0, 1000.0]])
    found = nd.random.poisson(lam, shape=4000).asnumpy()
    assert found.shape == (2, 2, 4000)
    np.testing.assert_allclose(found.mean(-1), lam.asnumpy(), rtol=0.05)
    gammas = nd.sample_gamma(nd.array([1.0, 9.0]), nd.array([2.0, 0.5]), shape=(4000,)).asnumpy()
    np.testing.assert_allclose(gammas.mean(-1), [2, 4.5], rtol=0.06)
    assert nd.random.negative_binomial(nd.array([3.0]), nd.array([0.5]), shape=2, dtype="float64").dtype == np.float64
    assert np.isnan(nd.sample_gamma(nd.array([-1.0]), nd.array([1.0])).asnumpy()).all()
    assert np.isnan(nd.sample_poisson(nd.array([np.inf, np.nan])).asnumpy()).all()


def test_draws_like_another_array() -> None:
    like = nd.zeros((3, 5), dtype="float16")
    for found in (nd.random.gamma_like(data=like, alpha=2), nd.random.poisson_like(data=like, lam=30)):
        assert found.shape == (3, 5)
        assert found.dtype == np.float16
        assert (found.asnumpy() > 0).all()


@pytest.mark.parametrize(
    ("function", "parameters"),
    [("poisson", (-1,)), ("gamma", (0, 1)), ("gamma", (1, -1)), ("negative_binomial", (3, 1.5))],
)
def test_invalid_parameters_are_refused(function: str, parameters: Any) -> None:
    with pytest.raises(mx.base.MXNetError, match=r"must|between"):
        getattr(nd.random, function)(*parameters, shape=3)


class Draws(mx.gluon.HybridBlock):
    """A draw of each kind, with numbers and with arrays."""

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        one = F.random.gamma(2, 0.5, shape=(3, 4)) + F.random.poisson(20, shape=(3, 4))
        return one + F.sample_poisson(x) + F.random.generalized_negative_binomial(3, 0.2, shape=(3, 4))


def test_a_compiled_graph_draws_the_same_numbers_as_its_operators() -> None:
    net, x = Draws(), nd.full((3, 4), 25.0)
    mx.random.seed(7)
    eager = [net(x).asnumpy() for _ in range(2)]
    net.hybridize()
    mx.random.seed(7)
    compiled = [net(x).asnumpy() for _ in range(2)]
    for one, other in zip(eager, compiled, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)


def test_distinct_classes() -> None:
    mx.random.seed(3)
    found, tries = nd._internal._sample_unique_zipfian(range_max=50, shape=(3, 20))
    assert found.dtype == tries.dtype == np.int64
    for row, count in zip(found.asnumpy(), tries.asnumpy(), strict=True):
        assert len(set(row.tolist())) == 20 <= count
        assert 0 <= row.min() <= row.max() < 50
    with pytest.raises(mx.base.MXNetError, match="are impossible"):
        nd._internal._sample_unique_zipfian(range_max=5, shape=(1, 6))


def test_numbers_of_a_distribution_compile_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    from mxforge.frontend.ndarray import operator_function

    nd.random.uniform(0, 1, shape=(2,))
    monkeypatch.setattr(operator_function.OperatorSpecialization, "__init__", None)
    for high in range(2, 6):
        assert (nd.random.uniform(high - 1, high, shape=(2,)).asnumpy() >= high - 1).all()
