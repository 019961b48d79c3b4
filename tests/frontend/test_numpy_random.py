"""`mx.np.random`: distributions, seeds, parameters that are arrays, gradients and errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import erf
from typing import Any

import numpy as onp
import pytest
from mxforge import MXNetError, autograd, gluon, np, npx

COUNT = 20000


@pytest.fixture(autouse=True)
def numpy_mode() -> Iterator[None]:
    npx.set_np()
    npx.random.seed(7)
    yield
    npx.reset_np()


_erf = onp.vectorize(erf)

# The distribution functions of draws with the parameters.
DISTRIBUTIONS: list[tuple[str, tuple[float, ...], Callable[[Any], Any]]] = [
    ("uniform", (-1, 3), lambda x: (x + 1) / 4),
    ("normal", (1, 2), lambda x: (1 + _erf((x - 1) / 8**0.5)) / 2),
    ("lognormal", (0.5, 2), lambda x: (1 + _erf((onp.log(x) - 0.5) / 8**0.5)) / 2),
    ("logistic", (1, 2), lambda x: 1 / (1 + onp.exp((1 - x) / 2))),
    ("gumbel", (1, 2), lambda x: onp.exp(-onp.exp((1 - x) / 2))),
    ("exponential", (2,), lambda x: 1 - onp.exp(-x / 2)),
    ("rayleigh", (2,), lambda x: 1 - onp.exp(-x * x / 8)),
    ("weibull", (1.5,), lambda x: 1 - onp.exp(-(x**1.5))),
    ("pareto", (2.5,), lambda x: 1 - (1 + x) ** -2.5),
    ("power", (2.5,), lambda x: x**2.5),
    ("gamma", (2, 3), lambda x: 1 - (1 + x / 3) * onp.exp(-x / 3)),
    ("chisquare", (4,), lambda x: 1 - (1 + x / 2) * onp.exp(-x / 2)),
    ("beta", (2, 1), lambda x: x * x),
    ("rand", (), lambda x: x),
    ("randn", (), lambda x: (1 + _erf(x / 2**0.5)) / 2),
]


def distance(drawn: Any, function: Callable[[Any], Any]) -> float:
    """The Kolmogorov-Smirnov distance."""
    ordered = onp.sort(drawn.asnumpy().astype("float64").ravel())
    return float(abs(function(ordered) - onp.arange(len(ordered)) / len(ordered)).max())


@pytest.mark.parametrize(("name", "parameters", "function"), DISTRIBUTIONS, ids=[d[0] for d in DISTRIBUTIONS])
def test_distributions(name: str, parameters: tuple[float, ...], function: Callable[[Any], Any]) -> None:
    draw = getattr(np.random, name)
    if name in ("rand", "randn"):
        assert distance(draw(COUNT), function) < 1.95 / COUNT**0.5
        return
    drawn = draw(*parameters, size=COUNT)
    assert type(drawn) is np.ndarray and drawn.shape == (COUNT,) and drawn.dtype == "float32"
    assert distance(drawn, function) < 1.95 / COUNT**0.5
    assert draw(*parameters).shape == () and draw(*parameters, size=(2, 3)).shape == (2, 3)
    if name in ("uniform", "normal", "gumbel", "logistic", "exponential", "rayleigh", "weibull", "pareto", "gamma"):
        arrays = [np.full((COUNT,), p, dtype="float32") for p in parameters]
        assert distance(draw(*arrays), function) < 1.95 / COUNT**0.5


def test_seeds_repeat_draws() -> None:
    def draws() -> list[Any]:
        npx.random.seed(3)
        return [np.random.normal(size=4).tolist(), np.random.randint(100, size=4).tolist(), np.random.rand(2).tolist()]

    assert draws() == draws() and np.random.normal(size=4).tolist() != np.random.normal(size=4).tolist()


def test_hybridized_draws_change_and_follow_the_seed() -> None:
    class Noisy(gluon.HybridBlock):
        def hybrid_forward(self, F: Any, x: Any) -> Any:  # type: ignore[override]
            return x + F.np.random.normal(0, 1, size=(2, 3))

    block = Noisy()
    block.hybridize()
    zeros = np.zeros((2, 3))
    first, second = block(zeros), block(zeros)
    assert first.tolist() != second.tolist()
    npx.random.seed(1)
    drawn = block(zeros).tolist()
    npx.random.seed(1)
    assert block(zeros).tolist() == drawn


def test_integers_choices_and_counts() -> None:
    drawn = np.random.randint(2, 5, size=COUNT)
    assert drawn.dtype == "int64" and onp.bincount(drawn.asnumpy())[2:] == pytest.approx(COUNT / 3, rel=0.06)
    weights = np.array([0.2, 0.0, 0.8])
    counts = onp.bincount(np.random.choice(3, COUNT, p=weights).asnumpy(), minlength=3) / COUNT
    assert counts == pytest.approx([0.2, 0, 0.8], abs=0.015)
    assert sorted(np.random.choice(5, 5, replace=False).tolist()) == [0, 1, 2, 3, 4]
    assert set(np.random.choice(np.array([3.0, 7.0]), 50).tolist()) == {3.0, 7.0}
    counts = np.random.multinomial(1000, [0.5, 0.5], size=3)
    assert counts.shape == (3, 2) and counts.sum(axis=1).tolist() == [1000] * 3
    ones = npx.random.bernoulli(prob=0.3, size=COUNT)
    assert float(ones.mean()) == pytest.approx(0.3, abs=0.015)
    assert npx.random.normal_n(np.zeros(2), np.ones(2), batch_shape=(5,)).shape == (5, 2)


def test_permutations() -> None:
    x = np.arange(40).reshape(20, 2)
    np.random.shuffle(x)
    rows = x.asnumpy()
    assert sorted(rows[:, 0]) == list(range(0, 40, 2)) and (rows[:, 1] == rows[:, 0] + 1).all()
    assert list(rows[:, 0]) != list(range(0, 40, 2))


def test_normal_vectors() -> None:
    covariance = onp.array([[2, 0.6], [0.6, 1]])
    drawn = np.random.multivariate_normal(np.array([1.0, -1.0]), np.array(covariance, dtype="float32"), size=COUNT)
    assert onp.cov(drawn.asnumpy().T) == pytest.approx(covariance, abs=0.08)
    assert drawn.asnumpy().mean(0) == pytest.approx([1, -1], abs=0.05)


@pytest.mark.parametrize("name", ["normal", "gumbel", "logistic"])
def test_gradients_of_place_and_scale(name: str) -> None:
    """A draw is loc + scale * noise, of which the gradients follow."""
    loc, scale = np.array([1.0, 2.0]), np.array([3.0, 0.5])
    loc.attach_grad()
    scale.attach_grad()
    with autograd.record():
        drawn = getattr(np.random, name)(loc, scale)
    drawn.backward()
    assert loc.grad.tolist() == [1, 1]
    noise = (drawn - loc) / scale
    assert scale.grad.asnumpy() == pytest.approx(noise.asnumpy(), rel=1e-4)


@pytest.mark.parametrize("name", ["exponential", "rayleigh"])
def test_gradients_of_scales(name: str) -> None:
    scale = np.array([3.0, 0.5])
    scale.attach_grad()
    with autograd.record():
        drawn = getattr(np.random, name)(scale)
    drawn.backward()
    assert scale.grad.asnumpy() == pytest.approx((drawn / scale).asnumpy(), rel=1e-4)


ERRORS: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: np.random.normal(0, -1), ValueError, "scale=-1.0: must be non-negative"),
    (lambda: np.random.gamma(1, 0), ValueError, "scale=0.0: must be positive"),
    (lambda: np.random.pareto(0), ValueError, "a=0.0: must be positive"),
    (lambda: npx.random.bernoulli(prob=2), ValueError, "prob=2: must be between 0 and 1"),
    (npx.random.bernoulli, ValueError, "Either `prob` or `logit`"),
    (lambda: np.random.choice(3, 5, replace=False), MXNetError, "choice: Cannot take a larger sample"),
    (lambda: np.random.choice(0), ValueError, "greater than 0"),
    (lambda: np.random.uniform(size=-1), MXNetError, "uniform: "),
    (lambda: np.random.multinomial(1, [0.9, 0.9, 0.1]), ValueError, "a sum above 1"),
    (lambda: np.percentile(np.ones(3), 101), ValueError, "percentile exceeds the valid range"),
    (lambda: np.ones((2, 3)) + np.ones(4), MXNetError, r"^add: shapes \(2, 3\) and \(4,\) do not broadcast"),
    (lambda: np.sum(np.ones(3), axis=3), MXNetError, "^sum: axis 3 is out of range"),
    (lambda: np.sum(np.ones(3), axes=0), TypeError, r"sum\(\) got an unexpected keyword argument 'axes'"),
    (lambda: np.ones(3) @ 2, AssertionError, "matmul: the argument must be an array of mx.np, not 2"),
    (lambda: np.ones(3)["a"], ValueError, "does not support slicing with key 'a'"),
    (lambda: np.ones(3).foo, AttributeError, "'ndarray' object has no attribute 'foo'"),
    (lambda: np.clip(np.ones(3), None, None), ValueError, "must set either max or min"),
    (lambda: np.nonsense, AttributeError, "nonsense"),
    (lambda: np.concatenate(3), ValueError, "concatenate requires a list or tuple of arrays"),
    (lambda: np.concatenate([]), MXNetError, "need at least one array to concatenate"),
    (lambda: np.split(np.ones(4), [1], axis=2), MXNetError, "^split: axis 2 is out of range"),
    (lambda: np.tensordot(np.ones(2), np.ones(2), axes=0.5), ValueError, "^tensordot: axes must be an integer"),
    (lambda: np.exp(np.ones(2), where=np.ones(2)), NotImplementedError, "^exp: where= cannot be an array"),
    (lambda: np.ones(2) + np.ones(2).as_nd_ndarray(), TypeError, r"do not mix; call as_np_ndarray\(\)"),
    (lambda: np.delete(np.ones((2, 3)), 5, axis=1), IndexError, "^delete: index 5 is out of bounds for axis 1"),
    (lambda: np.insert(np.ones((2, 3)), 5, 1, axis=1), IndexError, "^insert: index 5 is out of bounds for axis 1"),
    (lambda: np.meshgrid(3), TypeError, "^meshgrid: coordinates must be arrays of mx.np"),
    (lambda: npx.index_add(np.ones(2), np.array([[4]]), np.ones(1)), IndexError, "index_add: index 4 is out of bounds"),
    (lambda: np.linalg.inv(np.ones((2, 3))), MXNetError, "the matrices must be square"),
]


@pytest.mark.parametrize(("call", "kind", "text"), ERRORS, ids=[e[2] for e in ERRORS])
def test_errors(call: Callable[[], Any], kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        call().asnumpy()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_multivariate_normal_has_the_dtype_of_its_parameters(dtype: str) -> None:
    vectors = np.random.multivariate_normal(np.zeros(2, dtype=dtype), np.eye(2, dtype=dtype), (3,))
    assert vectors.shape == (3, 2)
    assert vectors.dtype == dtype


def test_seed_takes_its_argument_by_name() -> None:
    npx.random.seed(seed=3)
    first = np.random.uniform(size=4)
    npx.random.seed(3, ctx="all")
    assert (first == np.random.uniform(size=4)).all()
