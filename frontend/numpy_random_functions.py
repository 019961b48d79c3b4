"""The functions of `mx.np.random` for arrays and for symbols; see `numpy_functions.py`."""

from __future__ import annotations

from typing import Any

from .base import numeric_types
from .numpy_functions import Operators, public


def _size(size: Any) -> Any:
    return size if size is None or isinstance(size, int) else tuple(size)


_POSITIVE = ("scale", "a", "shape")
"""Parameters of distributions that must be positive. As arrays they are not checked: that would wait for them."""


def _drawn(F: Operators, operator: str, parameters: dict[str, Any], size: Any, ctx: Any, out: Any, **more: Any) -> Any:
    """A draw, whose parameters are numbers or arrays."""
    arrays = [v for v in parameters.values() if not isinstance(v, numeric_types)]
    if any(isinstance(v, list | tuple) or v is None for v in arrays):
        raise TypeError(f"the parameters of a distribution must be numbers or arrays, not {parameters}")
    numbers = {name: float(v) if isinstance(v, numeric_types) else None for name, v in parameters.items()}
    for name, value in numbers.items():
        if value is not None and value <= 0 and name in _POSITIVE:
            may_be_zero = name == "scale" and operator != "_npi_gamma"
            if value < 0 or not may_be_zero:
                raise ValueError(f"{name}={value}: must be {'non-negative' if may_be_zero else 'positive'}")
    size = () if size is None and not arrays else _size(size)
    params = {**numbers, "size": size, **{k: v for k, v in more.items() if v is not None}}
    if ctx is not None:
        params["ctx"] = ctx
    return F(operator)(*arrays, out=out, **params)


def _dtype(dtype: Any) -> Any:
    return "float32" if dtype is None else dtype


@public("random")
def uniform(
    F: Operators,
    low: Any = 0.0,
    high: Any = 1.0,
    size: Any = None,
    dtype: Any = None,
    ctx: Any = None,
    out: Any = None,
) -> Any:
    """Uniform numbers in [low, high)."""
    return _drawn(F, "_npi_uniform", {"low": low, "high": high}, size, ctx, out, dtype=_dtype(dtype))


@public("random")
def normal(
    F: Operators,
    loc: Any = 0.0,
    scale: Any = 1.0,
    size: Any = None,
    dtype: Any = None,
    ctx: Any = None,
    out: Any = None,
) -> Any:
    """Normal numbers with mean `loc` and standard deviation `scale`."""
    return _drawn(F, "_npi_normal", {"loc": loc, "scale": scale}, size, ctx, out, dtype=_dtype(dtype))


@public("npx_random")
def uniform_n(
    F: Operators, low: Any = 0.0, high: Any = 1.0, batch_shape: Any = None, dtype: Any = None, ctx: Any = None
) -> Any:
    """Uniform numbers; `batch_shape` precedes the shape of the parameters."""
    return _drawn(F, "_npi_uniform_n", {"low": low, "high": high}, batch_shape, ctx, None, dtype=_dtype(dtype))


@public("npx_random")
def normal_n(
    F: Operators, loc: Any = 0.0, scale: Any = 1.0, batch_shape: Any = None, dtype: Any = None, ctx: Any = None
) -> Any:
    """Normal numbers; `batch_shape` precedes the shape of the parameters."""
    return _drawn(F, "_npi_normal_n", {"loc": loc, "scale": scale}, batch_shape, ctx, None, dtype=_dtype(dtype))


@public("npx_random")
def bernoulli(
    F: Operators,
    prob: Any = None,
    logit: Any = None,
    size: Any = None,
    dtype: Any = None,
    ctx: Any = None,
    out: Any = None,
) -> Any:
    """Ones with probability `prob`, or with the logarithm of the odds `logit`, and zeros."""
    if (prob is None) == (logit is None):
        raise ValueError("Either `prob` or `logit` must be specified, but not both.")
    is_logit = prob is None
    value = logit if is_logit else prob
    params: dict[str, Any] = {"prob": None, "logit": None, "is_logit": is_logit, "dtype": _dtype(dtype)}
    params["size"] = () if size is None and isinstance(value, numeric_types) else _size(size)
    if ctx is not None:
        params["ctx"] = ctx
    if isinstance(value, numeric_types):
        if not is_logit and not 0 <= float(value) <= 1:
            raise ValueError(f"prob={value}: must be between 0 and 1")
        return F("_npi_bernoulli")(out=out, **{**params, "logit" if is_logit else "prob": float(value)})
    return F("_npi_bernoulli")(value, out=out, **params)


@public("random")
def lognormal(
    F: Operators,
    mean: Any = 0.0,
    sigma: Any = 1.0,
    size: Any = None,
    dtype: Any = None,
    ctx: Any = None,
    out: Any = None,
) -> Any:
    """Numbers whose logarithms are normal."""
    return F("_npi_exp")(normal(F, mean, sigma, size, dtype, ctx), out=out)


@public("random")
def logistic(F: Operators, loc: Any = 0.0, scale: Any = 1.0, size: Any = None, ctx: Any = None, out: Any = None) -> Any:
    """Logistic numbers."""
    return _drawn(F, "_npi_logistic", {"loc": loc, "scale": scale}, size, ctx, out)


@public("random")
def gumbel(F: Operators, loc: Any = 0.0, scale: Any = 1.0, size: Any = None, ctx: Any = None, out: Any = None) -> Any:
    """Gumbel numbers."""
    return _drawn(F, "_npi_gumbel", {"loc": loc, "scale": scale}, size, ctx, out)


@public("random")
def gamma(
    F: Operators, shape: Any, scale: Any = 1.0, size: Any = None, dtype: Any = None, ctx: Any = None, out: Any = None
) -> Any:
    """Gamma numbers."""
    return _drawn(F, "_npi_gamma", {"shape": shape, "scale": scale}, size, ctx, out, dtype=_dtype(dtype))


@public("random")
def beta(F: Operators, a: Any, b: Any, size: Any = None, dtype: Any = None, ctx: Any = None) -> Any:
    """Beta numbers: X / (X + Y) of two gamma numbers."""
    x = gamma(F, a, 1.0, size, dtype, ctx)
    y = gamma(F, b, 1.0, size, dtype, ctx)
    return x / (x + y)


@public("random")
def chisquare(F: Operators, df: Any, size: Any = None, dtype: Any = None, ctx: Any = None) -> Any:
    """Chi-square numbers with `df` degrees of freedom."""
    return gamma(F, df / 2, 2.0, size, dtype, ctx)


@public("random")
def exponential(F: Operators, scale: Any = 1.0, size: Any = None, ctx: Any = None, out: Any = None) -> Any:
    """Exponential numbers with mean `scale`."""
    return _drawn(F, "_npi_exponential", {"scale": scale}, size, ctx, out)


@public("random")
def rayleigh(F: Operators, scale: Any = 1.0, size: Any = None, ctx: Any = None, out: Any = None) -> Any:
    """Rayleigh numbers."""
    return _drawn(F, "_npi_rayleigh", {"scale": scale}, size, ctx, out)


@public("random")
def weibull(F: Operators, a: Any, size: Any = None, ctx: Any = None, out: Any = None) -> Any:
    """Weibull numbers."""
    return _drawn(F, "_npi_weibull", {"a": a}, size, ctx, out)


@public("random")
def pareto(F: Operators, a: Any, size: Any = None, ctx: Any = None, out: Any = None) -> Any:
    """Pareto II numbers."""
    return _drawn(F, "_npi_pareto", {"a": a}, size, ctx, out)


@public("random")
def power(F: Operators, a: Any, size: Any = None) -> Any:
    """Numbers in (0, 1) with the density a x^(a - 1)."""
    return _drawn(F, "_npi_powerd", {"a": a}, size, None, None)


@public("random")
def multinomial(F: Operators, n: int, pvals: Any, size: Any = None) -> Any:
    """How often each of several outcomes occurs in n experiments."""
    if isinstance(pvals, list | tuple):
        if any(isinstance(p, list | tuple) for p in pvals):
            raise ValueError("object too deep for desired array")
        if sum(pvals[:-1]) > 1 + 1e-12:
            raise ValueError(f"multinomial: the probabilities {pvals} have a sum above 1")
        return F("_npi_multinomial")(n=n, pvals=tuple(map(float, pvals)), size=_size(size))
    return F("_npi_multinomial")(pvals, n=n, size=_size(size))


@public("random")
def randint(
    F: Operators, low: Any, high: Any = None, size: Any = None, dtype: Any = None, ctx: Any = None, out: Any = None
) -> Any:
    """Uniform integers in [low, high), or in [0, low)."""
    low, high = (0, low) if high is None else (low, high)
    params = {} if ctx is None else {"ctx": ctx}
    shape = () if size is None else (size,) if isinstance(size, int) else tuple(size)
    chosen = "int64" if dtype is None or dtype is int else dtype
    return F("_npi_random_randint")(low=low, high=high, shape=shape, dtype=chosen, out=out, **params)


@public("random")
def rand(F: Operators, *size: int, **kwargs: Any) -> Any:
    """Uniform numbers in [0, 1) of a shape."""
    return uniform(F, 0.0, 1.0, size or None, **kwargs)


@public("random")
def randn(F: Operators, *size: int, **kwargs: Any) -> Any:
    """Standard normal numbers of a shape."""
    return normal(F, 0.0, 1.0, size or None, **kwargs)


@public("random")
def choice(
    F: Operators, a: Any, size: Any = None, replace: bool = True, p: Any = None, ctx: Any = None, out: Any = None
) -> Any:
    """Elements of `a`, or of the numbers below it, drawn with or without replacement and with probabilities `p`."""
    is_number = isinstance(a, numeric_types)
    params = {"a": int(a) if is_number else a.shape[0], "size": _size(size), "replace": replace}
    params |= {"weighted": p is not None} | ({} if ctx is None else {"ctx": ctx})
    if params["a"] < 1:
        raise ValueError("a must be greater than 0")
    places = F("_npi_choice")(*([] if p is None else [p]), **params)
    if is_number:
        return places if out is None else places.copyto(out)
    return F("take")(a, places, axis=0, out=out)


@public("random")
def multivariate_normal(
    F: Operators, mean: Any, cov: Any, size: Any = None, check_valid: Any = None, tol: Any = None
) -> Any:
    """Normal vectors with a mean and a covariance matrix; both can have leading axes that broadcast."""
    if check_valid is not None or tol is not None:
        raise NotImplementedError("Parameter `check_valid` and `tol` are not supported")
    factor = F("_npi_cholesky")(cov)
    length = mean.shape[-1]
    batch = () if size is None else (size,) if isinstance(size, int) else tuple(size)
    leading = max(mean.shape[:-1], cov.shape[:-2], key=len)
    noise = normal(F, 0.0, 1.0, (*batch, *leading, length, 1), dtype=cov.dtype)
    return mean + F("_np_squeeze")(F("_npi_matmul")(factor, noise), axis=-1)


@public("random")
def shuffle(F: Operators, x: Any) -> None:
    """Permutes the slices along the first axis of an array in place."""
    x[...] = F("_npi_shuffle")(x)
