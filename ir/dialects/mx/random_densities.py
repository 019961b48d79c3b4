"""Operators that compute the probability density of samples, or its logarithm: one row of samples per set of
parameters."""

from __future__ import annotations

from collections.abc import Callable
from math import log, pi
from typing import TYPE_CHECKING

from ...graph import Value
from .operator import Operator, declare
from .parameters import Bool
from .shapes import PartialShape, unify_at

if TYPE_CHECKING:
    from .builder import MxBuilder

LogDensity = Callable[..., Value]
"""(b, x, parameters...) -> the logarithm of the density; all have one shape."""


def _uniform(b: MxBuilder, x: Value, low: Value, high: Value) -> Value:
    return b.neg(b.log(b.sub(high, low)))


def _normal(b: MxBuilder, x: Value, mu: Value, sigma: Value) -> Value:
    z = b.div(b.sub(x, mu), sigma)
    return b.sub(b.mul(b.mul(z, z), -0.5), b.add(b.log(sigma), log(2 * pi) / 2))


def _gamma(b: MxBuilder, x: Value, alpha: Value, beta: Value) -> Value:
    power = b.add(b.mul(alpha, b.log(beta)), b.mul(b.sub(alpha, 1.0), b.log(x)))
    return b.sub(b.sub(power, b.mul(beta, x)), b.lgamma(alpha))


def _exponential(b: MxBuilder, x: Value, lam: Value) -> Value:
    return b.sub(b.log(lam), b.mul(lam, x))


def _poisson(b: MxBuilder, x: Value, lam: Value) -> Value:
    return b.sub(b.sub(b.mul(x, b.log(lam)), b.lgamma(b.add(x, 1.0))), lam)


def _negative_binomial(b: MxBuilder, x: Value, k: Value, p: Value) -> Value:
    ways = b.sub(b.sub(b.lgamma(b.add(x, k)), b.lgamma(b.add(x, 1.0))), b.lgamma(k))
    return b.add(ways, b.add(b.mul(k, b.log(p)), b.mul(x, b.log(b.sub(1.0, p)))))


def _generalized_negative_binomial(b: MxBuilder, x: Value, mu: Value, alpha: Value) -> Value:
    return _negative_binomial(b, x, b.div(1.0, alpha), b.div(1.0, b.add(b.mul(mu, alpha), 1.0)))


# name, parameters, logarithm of the density, description
_TABLE: tuple[tuple[str, tuple[str, ...], LogDensity, str], ...] = (
    ("uniform", ("low", "high"), _uniform, "uniform numbers in [low, high); samples outside are treated as inside"),
    ("normal", ("mu", "sigma"), _normal, "normal numbers with mean mu and standard deviation sigma"),
    ("gamma", ("alpha", "beta"), _gamma, "gamma numbers with shape alpha and rate beta"),
    ("exponential", ("lam",), _exponential, "exponential numbers with rate lam"),
    ("poisson", ("lam",), _poisson, "Poisson counts with mean lam"),
    ("negative_binomial", ("k", "p"), _negative_binomial, "failures before the k-th success with probability p"),
    (
        "generalized_negative_binomial",
        ("mu", "alpha"),
        _generalized_negative_binomial,
        "counts with mean mu and dispersion alpha",
    ),
)


_ARGUMENTS = {
    "low": "Lower ends of the intervals.",
    "high": "Upper ends of the intervals.",
    "mu": "The means.",
    "sigma": "The standard deviations.",
    "alpha": "The shapes; the dispersions of a generalized negative binomial distribution.",
    "beta": "The rates.",
    "lam": "The rates of exponential numbers; the means of Poisson counts.",
    "k": "Numbers of successes.",
    "p": "Probabilities of a success.",
}

_COUNTS = ("poisson", "negative_binomial", "generalized_negative_binomial")
"""Distributions of integers: there is no gradient with respect to the samples."""


class Density(Operator):
    """Shared arguments of several operators.

    Args:
        sample: Samples: a row per element of the parameters.
        is_log: True for the logarithm of the density.
    Returns:
        An array of the samples' shape.
    """

    is_log: Bool = False

    def complete(self, inputs: list[PartialShape], outputs: list[PartialShape]) -> None:
        unify_at(inputs, 0, outputs[0])
        outputs[0] = inputs[0]
        for position in range(2, len(inputs)):
            unify_at(inputs, position, inputs[1])
            unify_at(inputs, 1, inputs[position])

    def finish(self, b: MxBuilder, logarithm: Value) -> Value:
        return logarithm if self.is_log else b.exp(logarithm)


def _spread(b: MxBuilder, op: Operator, parameter: Value, x: Value) -> Value:
    """A parameter, broadcast along the first axes of the samples."""
    rank = parameter.type.rank
    if parameter.type.shape != x.type.shape[:rank]:
        shapes = f"{parameter.type.shape} and {x.type.shape}"
        raise ValueError(f"parameters must have the shape of the first axes of the samples, got {shapes}")
    return b.broadcast(parameter, x.type.shape, tuple(range(rank)))


def _declare_density(distribution: str, parameters: tuple[str, ...], function: LogDensity, what: str) -> None:
    def decompose(self: Density, b: MxBuilder, *inputs: Value) -> Value:
        x, *parameters_of_density = inputs
        x = b.stop_gradient(x) if distribution in _COUNTS else x
        return self.finish(b, function(b, x, *(_spread(b, self, p, x) for p in parameters_of_density)))

    arguments = "".join(f"    {name}: {_ARGUMENTS[name]}\n" for name in parameters)
    doc = f"The density of {what}.\n\nArgs:\n{arguments}"
    members = {"inputs": ("sample", *parameters), "__doc__": doc, "decompose": decompose}
    declare(f"_random_pdf_{distribution}", Density, members, (f"random_pdf_{distribution}",))


for _row in _TABLE:
    _declare_density(*_row)


def _dirichlet(self: Density, b: MxBuilder, *inputs: Value) -> Value:
    x, alpha = inputs
    rank, shape = alpha.type.rank, x.type.shape
    if alpha.type.shape != (*shape[: rank - 1], shape[-1]):
        shapes = f"{alpha.type.shape} and {shape}"
        raise ValueError(f"alpha must have the first axes and the last axis of the samples, got {shapes}")
    wide = b.broadcast(alpha, shape, (*range(rank - 1), len(shape) - 1))
    last = len(shape) - 1
    powers = b.sum(b.mul(b.sub(wide, 1.0), b.log(x)), last)
    constant = b.sub(b.lgamma(b.sum(wide, last)), b.sum(b.lgamma(wide), last))
    return self.finish(b, b.add(powers, constant))


def _complete_dirichlet(self: Density, inputs: list[PartialShape], outputs: list[PartialShape]) -> None:
    if inputs[0] is not None:
        outputs[0] = inputs[0][:-1]


declare(
    "_random_pdf_dirichlet",
    Density,
    {
        "inputs": ("sample", "alpha"),
        "decompose": _dirichlet,
        "complete": _complete_dirichlet,
        "__doc__": "The density of Dirichlet samples (..., k).\n\nArgs:\n    alpha: (..., k), the concentrations.",
    },
    ("random_pdf_dirichlet",),
)
