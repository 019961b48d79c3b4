"""Random symbols: `sym.random.uniform(0, 1, shape=(2, 3))`. The parameters of a distribution are numbers or symbols.

See `nd.random` for the parameters.
"""

from __future__ import annotations

from numbers import Number
from typing import Any

from ..base import _Null, numeric_types
from .operators import internal
from .ops import attribute_finder
from .symbol import Symbol

__all__ = [
    "Symbol",
    "exponential",
    "gamma",
    "generalized_negative_binomial",
    "multinomial",
    "negative_binomial",
    "normal",
    "numeric_types",
    "poisson",
    "randint",
    "randn",
    "shuffle",
    "uniform",
]

Parameter = float | Symbol

__getattr__, __dir__ = attribute_finder("random", globals())  # `uniform_like`, `pdf_uniform`, ...


def draw(name: str, parameters: list[Any], options: dict[str, Any]) -> Symbol:
    """Draw with numbers as parameters, or with symbols, where `shape` numbers are drawn for each element."""
    if all(isinstance(p, Symbol) for p in parameters):
        return internal(f"_sample_{name}", *parameters, **options)
    if any(not isinstance(p, Number) for p in parameters):
        kinds = ", ".join(type(p).__name__ for p in parameters)
        error = AssertionError if isinstance(parameters[0], Symbol | Number) else ValueError
        raise error(f"Distribution parameters must be either all Symbols or all numbers, but got {kinds}.")
    return internal(f"_random_{name}", *parameters, **options)


def uniform(low: Parameter = 0, high: Parameter = 1, shape: Any = _Null, dtype: Any = _Null, **kwargs: Any) -> Symbol:
    """Uniform numbers in [low, high)."""
    return draw("uniform", [low, high], {"shape": shape, "dtype": dtype, **kwargs})


def normal(loc: Parameter = 0, scale: Parameter = 1, shape: Any = _Null, dtype: Any = _Null, **kwargs: Any) -> Symbol:
    """Normally distributed numbers with mean `loc` and standard deviation `scale`."""
    return draw("normal", [loc, scale], {"shape": shape, "dtype": dtype, **kwargs})


def poisson(lam: Parameter = 1, shape: Any = _Null, dtype: Any = _Null, **kwargs: Any) -> Symbol:
    """Poisson-distributed counts with mean `lam`."""
    return draw("poisson", [lam], {"shape": shape, "dtype": dtype, **kwargs})


def gamma(alpha: Parameter = 1, beta: Parameter = 1, shape: Any = _Null, dtype: Any = _Null, **kwargs: Any) -> Symbol:
    """Gamma-distributed numbers with shape `alpha` and scale `beta`."""
    return draw("gamma", [alpha, beta], {"shape": shape, "dtype": dtype, **kwargs})


def negative_binomial(
    k: Parameter = 1, p: Parameter = 1, shape: Any = _Null, dtype: Any = _Null, **kwargs: Any
) -> Symbol:
    """Numbers of failures before the k-th success, where `p` is the probability of a success."""
    return draw("negative_binomial", [k, p], {"shape": shape, "dtype": dtype, **kwargs})


def generalized_negative_binomial(
    mu: Parameter = 1, alpha: Parameter = 1, shape: Any = _Null, dtype: Any = _Null, **kwargs: Any
) -> Symbol:
    """Counts with mean `mu` and variance mu + alpha * mu^2."""
    return draw("generalized_negative_binomial", [mu, alpha], {"shape": shape, "dtype": dtype, **kwargs})


def exponential(scale: Any = 1, shape: Any = _Null, dtype: Any = _Null, **kwargs: Any) -> Symbol:
    """Exponentially distributed numbers with mean `scale`."""
    return draw("exponential", [1.0 / scale], {"shape": shape, "dtype": dtype, **kwargs})


def randn(*shape: int, **kwargs: Any) -> Symbol:
    """Normally distributed numbers of this shape, with mean `loc` (default 0) and standard deviation `scale` (default
    1)."""
    return draw("normal", [kwargs.pop("loc", 0), kwargs.pop("scale", 1)], {"shape": shape, **kwargs})


def randint(low: int, high: int, shape: Any = _Null, dtype: Any = _Null, **kwargs: Any) -> Symbol:
    """Uniform integers in [low, high)."""
    return draw("randint", [low, high], {"shape": shape, "dtype": dtype, **kwargs})


def multinomial(data: Symbol, shape: Any = _Null, get_prob: bool = True, dtype: Any = "int32", **kwargs: Any) -> Symbol:
    """Draws classes by the probabilities in the last axis of `data`."""
    return internal("_sample_multinomial", data, shape=shape, get_prob=get_prob, dtype=dtype, **kwargs)


def shuffle(data: Symbol, **kwargs: Any) -> Symbol:
    """The slices along axis 0, in random order."""
    return internal("_shuffle", data, **kwargs)
