"""Statistical checks of random number generators."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np


def gen_buckets_probs_with_ppf(ppf: Callable[[float], float], nbuckets: int) -> tuple[list[Any], list[float]]:
    """`nbuckets` intervals of equal probability from the inverse distribution function, and their probabilities."""
    if nbuckets <= 0:
        raise AssertionError("nbuckets must be positive")
    bounds = [ppf(i / float(nbuckets)) for i in range(nbuckets + 1)]
    return list(pairwise(bounds)), [1.0 / nbuckets] * nbuckets


def mean_check(generator: Callable[[int], Any], mu: float, sigma: float, nsamples: int = 1000000) -> bool:
    """True if the mean of the samples is within three standard errors of `mu`."""
    error = 3 * sigma / np.sqrt(nsamples)
    return bool(abs(np.array(generator(nsamples)).mean() - mu) < error)


def var_check(generator: Callable[[int], Any], sigma: float, nsamples: int = 1000000) -> bool:
    """True if the variance of the samples is within three standard errors of `sigma` ** 2."""
    error = 3 * np.sqrt(2 * sigma**4 / (nsamples - 1))
    return bool(abs(np.array(generator(nsamples)).var(ddof=1) - sigma**2) < error)


def chi_square_check(
    generator: Callable[[int], Any], buckets: list[Any], probs: Sequence[float], nsamples: int = 1000000
) -> tuple[float, np.ndarray, np.ndarray]:
    """The p-value of Pearson's chi-square test of a generator, and the observed and expected frequencies.

    `buckets` are ascending intervals (low, high), or the values of a discrete distribution.
    """
    if not isinstance(buckets, list) or len(probs) != len(buckets):
        raise AssertionError("buckets must be a list, with one probability for each entry")
    samples = np.array(generator(nsamples))
    expected = (nsamples * np.array(probs, dtype=np.float32)).astype(np.int32)
    if isinstance(buckets[0], list | tuple):
        bounds = np.array(buckets, dtype=np.float32).reshape(-1)
        if np.any(np.diff(bounds) < 0):
            raise AssertionError("buckets must ascend and not overlap")
        numbers: Any = np.searchsorted(bounds, samples, side="right") // 2
        categories: Sequence[Any] = range(len(buckets))
    else:
        numbers, categories = samples, buckets
    observed = np.array([(numbers == value).sum() for value in categories], dtype=np.int64)
    statistic = float(((observed - expected) ** 2 / expected).sum())
    return _upper_gamma((len(buckets) - 1) / 2, statistic / 2), observed, expected


def _upper_gamma(a: float, x: float) -> float:
    """The regularized upper incomplete gamma function, by its series or by Lentz's continued fraction (Numerical
    Recipes, 6.2), accurate to about 1e-12."""
    if x <= 0:
        return 1.0
    front = math.exp(-x + a * math.log(x) - math.lgamma(a))
    if x < a + 1:
        term = total = 1 / a
        n = a
        while abs(term) > abs(total) * 1e-14:
            n += 1
            term *= x / n
            total += term
        return 1 - total * front
    b = x + 1 - a
    c, d = 1e300, 1 / b
    fraction = d
    for i in range(1, 10000):
        weight = -i * (i - a)
        b += 2
        d = 1 / (weight * d + b)
        c = b + weight / c
        fraction *= d * c
        if abs(d * c - 1) < 1e-14:
            break
    return front * fraction


def verify_generator(
    generator: Callable[[int], Any],
    buckets: list[Any],
    probs: Sequence[float],
    nsamples: int = 1000000,
    nrepeat: int = 5,
    success_rate: float = 0.2,
    alpha: float = 0.05,
) -> list[float]:
    """The p-values of `nrepeat` chi-square tests. AssertionError if less than the share `success_rate` of them passes
    (p > `alpha`)."""
    checks = [chi_square_check(generator, buckets, probs, nsamples) for _ in range(nrepeat)]
    values = [p for p, _, _ in checks]
    if sum(p > alpha for p in values) < nrepeat * success_rate:
        raise AssertionError(
            f"Generator test fails, Chi-square p={values}, obs_freq={[o for _, o, _ in checks]}, "
            f"expected_freq={[e for _, _, e in checks]}.\nbuckets={buckets}, probs={probs}"
        )
    return values
