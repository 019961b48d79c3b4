"""Random arrays: `nd.random.uniform`, ... The parameters of a distribution are numbers or arrays.

With numbers, the result has shape `shape`. With arrays, `shape` numbers are drawn for each of their elements, and the
result has the shape of the arrays followed by `shape`.
"""

from __future__ import annotations

from typing import Any

from ..base import MXNetError, _Null, numeric_types
from ..context import Context, current_context
from . import _internal
from .functions import attribute_finder
from .ndarray import NDArray

__all__ = [
    "current_context",
    "exponential",
    "gamma",
    "generalized_negative_binomial",
    "multinomial",
    "negative_binomial",
    "normal",
    "poisson",
    "randint",
    "randn",
    "shuffle",
    "uniform",
]

__getattr__, __dir__ = attribute_finder("random", globals())


def _draw(
    distribution: str,
    params: dict[str, Any],
    shape: Any,
    dtype: Any,
    ctx: Context | None,
    out: NDArray | None,
    kwargs: dict[str, Any],
) -> Any:
    """Draw with numbers (`_random_*`) or with arrays (`_sample_*`) as parameters; the two cannot be mixed."""
    values = list(params.values())
    _check_parameters(distribution, params)
    options = {k: v for k, v in {"shape": shape, "dtype": dtype, **kwargs}.items() if v is not _Null}
    if all(isinstance(v, NDArray) for v in values):
        options.setdefault("dtype", "float32" if out is None else out.dtype)
        return getattr(_internal, f"_sample_{distribution}")(*values, out=out, **options)
    if not all(isinstance(v, numeric_types) for v in values):
        kinds = ", ".join(type(v).__name__ for v in values)
        error = AssertionError if isinstance(values[0], (NDArray, *numeric_types)) else ValueError
        raise error(f"Distribution parameters must be either all NDArrays or all numbers, but got {kinds}")
    if out is not None:
        options.setdefault("shape", out.shape)
        options.setdefault("dtype", out.dtype)
    options.setdefault("shape", 1)
    return getattr(_internal, f"_random_{distribution}")(**params, **options, ctx=ctx, out=out)


_POSITIVE = {"normal": ("scale",), "exponential": ("lam",), "gamma": ("alpha", "beta")}
_NOT_NEGATIVE = {
    "poisson": ("lam",),
    "negative_binomial": ("k", "p"),
    "generalized_negative_binomial": ("mu", "alpha"),
}


def _check_parameters(distribution: str, params: dict[str, Any]) -> None:
    """MXNetError for numbers that are invalid for the distribution, and for arrays of different shapes."""
    shapes = {v._shape for v in params.values() if isinstance(v, NDArray)}
    if len(shapes) > 1:
        raise MXNetError(f"random.{distribution}: the parameters differ in shape: {', '.join(map(str, shapes))}")
    for name, value in params.items():
        if not isinstance(value, numeric_types):
            continue
        value = float(value)
        if value < 0 and name in _NOT_NEGATIVE.get(distribution, ()):
            raise MXNetError(f"random.{distribution}: {name} is {value}, and must not be negative")
        if value <= 0 and name in _POSITIVE.get(distribution, ()):
            raise MXNetError(f"random.{distribution}: {name} is {value}, and must be positive")


def uniform(
    low: Any = 0, high: Any = 1, shape: Any = _Null, dtype: Any = _Null, ctx: Any = None, out: Any = None, **kwargs: Any
) -> Any:
    """Uniform numbers in [low, high).

    Args:
        low: Least number.
        high: End of the interval, excluded.
        shape: Shape of the result; for arrays as parameters, the draws for each of their elements.
        dtype: Dtype of the result; float32 by default.
        ctx: The device; the current context by default.
        out: An array that receives the draws.
    Example:
        >>> nd.random.uniform(shape=(2, 3)).shape
        (2, 3)
    """
    return _draw("uniform", {"low": low, "high": high}, shape, dtype, ctx, out, kwargs)


def normal(
    loc: Any = 0,
    scale: Any = 1,
    shape: Any = _Null,
    dtype: Any = _Null,
    ctx: Any = None,
    out: Any = None,
    **kwargs: Any,
) -> Any:
    """Normally distributed numbers.

    Args:
        loc: The mean.
        scale: The standard deviation.
        shape: Shape of the result; for arrays as parameters, the draws for each of their elements.
        dtype: Dtype of the result; float32 by default.
        ctx: The device; the current context by default.
        out: An array that receives the draws.
    Example:
        >>> nd.random.normal(shape=(2, 3)).shape
        (2, 3)
    """
    return _draw("normal", {"loc": loc, "scale": scale}, shape, dtype, ctx, out, kwargs)


def randn(*shape: int, **kwargs: Any) -> Any:
    """Normally distributed numbers of this shape.

    Args:
        shape: The extents, as several arguments.
        loc: The mean, by default 0.
        scale: The standard deviation, by default 1.
        dtype, ctx, out: As for `normal`.
    """
    return normal(kwargs.pop("loc", 0), kwargs.pop("scale", 1), shape or _Null, **kwargs)


def poisson(
    lam: Any = 1, shape: Any = _Null, dtype: Any = _Null, ctx: Any = None, out: Any = None, **kwargs: Any
) -> Any:
    """Poisson counts.

    Args:
        lam: The mean.
        shape: Shape of the result; for arrays as parameters, the draws for each of their elements.
        dtype: Dtype of the result; float32 by default.
        ctx: The device; the current context by default.
        out: An array that receives the draws.
    Example:
        >>> nd.random.poisson(shape=(2, 3)).shape
        (2, 3)
    """
    return _draw("poisson", {"lam": lam}, shape, dtype, ctx, out, kwargs)


def exponential(
    scale: Any = 1, shape: Any = _Null, dtype: Any = _Null, ctx: Any = None, out: Any = None, **kwargs: Any
) -> Any:
    """Exponentially distributed numbers.

    Args:
        scale: The mean, 1 / rate.
        shape: Shape of the result; for arrays as parameters, the draws for each of their elements.
        dtype: Dtype of the result; float32 by default.
        ctx: The device; the current context by default.
        out: An array that receives the draws.
    Example:
        >>> nd.random.exponential(shape=(2, 3)).shape
        (2, 3)
    """
    return _draw("exponential", {"lam": 1.0 / scale}, shape, dtype, ctx, out, kwargs)


def gamma(
    alpha: Any = 1,
    beta: Any = 1,
    shape: Any = _Null,
    dtype: Any = _Null,
    ctx: Any = None,
    out: Any = None,
    **kwargs: Any,
) -> Any:
    """Gamma-distributed numbers with mean alpha * beta.

    Args:
        alpha: The shape parameter.
        beta: The scale parameter.
        shape: Shape of the result; for arrays as parameters, the draws for each of their elements.
        dtype: Dtype of the result; float32 by default.
        ctx: The device; the current context by default.
        out: An array that receives the draws.
    Example:
        >>> nd.random.gamma(shape=(2, 3)).shape
        (2, 3)
    """
    return _draw("gamma", {"alpha": alpha, "beta": beta}, shape, dtype, ctx, out, kwargs)


def negative_binomial(
    k: Any = 1, p: Any = 1, shape: Any = _Null, dtype: Any = _Null, ctx: Any = None, out: Any = None, **kwargs: Any
) -> Any:
    """Numbers of failures before the k-th success.

    Args:
        k: Number of successes.
        p: Probability of a success.
        shape: Shape of the result; for arrays as parameters, the draws for each of their elements.
        dtype: Dtype of the result; float32 by default.
        ctx: The device; the current context by default.
        out: An array that receives the draws.
    Example:
        >>> nd.random.negative_binomial(shape=(2, 3)).shape
        (2, 3)
    """
    return _draw("negative_binomial", {"k": k, "p": p}, shape, dtype, ctx, out, kwargs)


def generalized_negative_binomial(
    mu: Any = 1, alpha: Any = 1, shape: Any = _Null, dtype: Any = _Null, ctx: Any = None, out: Any = None, **kwargs: Any
) -> Any:
    """Counts with mean mu and variance mu + alpha * mu^2.

    Args:
        mu: The mean.
        alpha: The dispersion.
        shape: Shape of the result; for arrays as parameters, the draws for each of their elements.
        dtype: Dtype of the result; float32 by default.
        ctx: The device; the current context by default.
        out: An array that receives the draws.
    Example:
        >>> nd.random.generalized_negative_binomial(shape=(2, 3)).shape
        (2, 3)
    """
    return _draw("generalized_negative_binomial", {"mu": mu, "alpha": alpha}, shape, dtype, ctx, out, kwargs)


def multinomial(
    data: NDArray, shape: Any = _Null, get_prob: bool = False, out: Any = None, dtype: Any = "int32", **kwargs: Any
) -> Any:
    """Draws classes by their probabilities.

    Args:
        data: (..., classes), probabilities that add up to 1.
        shape: Shape of the draws for each row; one draw by default.
        get_prob: True to return the logarithms of the probabilities of the draws as well.
        out: An array that receives the draws.
        dtype: Dtype of the classes.
    Example:
        >>> nd.random.multinomial(nd.array([0, 1])).asnumpy()
        array([1], dtype=int32)
    """
    options = {} if shape is _Null else {"shape": shape}
    return _internal._sample_multinomial(data, get_prob=get_prob, out=out, dtype=dtype, **options, **kwargs)


def shuffle(data: NDArray, **kwargs: Any) -> Any:
    """The slices of an array along axis 0, in random order."""
    return _internal._shuffle(data, **kwargs)


def randint(
    low: int, high: int, shape: Any = _Null, dtype: Any = _Null, ctx: Any = None, out: Any = None, **kwargs: Any
) -> Any:
    """Uniform integers in [low, high).

    Args:
        low: Least number.
        high: End of the interval, excluded.
        shape: Shape of the result; for arrays as parameters, the draws for each of their elements.
        dtype: Dtype of the result; int32 by default.
        ctx: The device; the current context by default.
        out: An array that receives the draws.
    Example:
        >>> nd.random.randint(0, 10, shape=(2, 3)).shape
        (2, 3)
    """
    if not isinstance(low, numeric_types) or not isinstance(high, numeric_types):
        kinds = f"{type(low).__name__}, {type(high).__name__}"
        raise TypeError(f"random.randint: low and high must be integers, not {kinds}")
    return _draw("randint", {"low": low, "high": high}, shape, dtype, ctx, out, kwargs)
