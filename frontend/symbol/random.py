"""Random symbols, `sym.random.uniform(0, 1, shape=(2, 3))`, with numbers or symbols as parameters."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Number
from typing import Any

from ..base import _Null
from .symbol import Symbol, internal


def _distribution(name: str, defaults: dict[str, Any]) -> Callable[..., Symbol]:
    """The function of one distribution; `defaults` are its parameters in order."""

    def function(*args: Any, **kwargs: Any) -> Symbol:
        names = (*defaults, "shape", "dtype")
        given = {**defaults, **dict(zip(names, args, strict=False)), **kwargs}
        parameters = [given.pop(key) for key in defaults]
        return draw(name, parameters, given)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Numbers from the {name} distribution with parameters {', '.join(defaults)}."
    return function


def draw(name: str, parameters: list[Any], options: dict[str, Any]) -> Symbol:
    """Draws with the same parameters everywhere (numbers), or with one set per element (symbols)."""
    if all(isinstance(p, Symbol) for p in parameters):
        return internal(f"_sample_{name}", *parameters, **options)
    if any(not isinstance(p, Number) for p in parameters):
        kinds = ", ".join(type(p).__name__ for p in parameters)
        raise ValueError(f"Distribution parameters must be either all Symbols or all numbers, but got {kinds}.")
    return internal(f"_random_{name}", *parameters, **options)


uniform = _distribution("uniform", {"low": 0, "high": 1})
normal = _distribution("normal", {"loc": 0, "scale": 1})
poisson = _distribution("poisson", {"lam": 1})
gamma = _distribution("gamma", {"alpha": 1, "beta": 1})
negative_binomial = _distribution("negative_binomial", {"k": 1, "p": 1})
generalized_negative_binomial = _distribution("generalized_negative_binomial", {"mu": 1, "alpha": 1})


def exponential(scale: float = 1, shape: Any = _Null, dtype: Any = _Null, **kwargs: Any) -> Symbol:
    """Numbers from the exponential distribution with mean `scale`."""
    return draw("exponential", [1.0 / scale], {"shape": shape, "dtype": dtype, **kwargs})


def randn(*shape: int, loc: float = 0, scale: float = 1, **kwargs: Any) -> Symbol:
    """Normal numbers of the given shape."""
    return draw("normal", [loc, scale], {"shape": shape, **kwargs})


def randint(low: int, high: int, shape: Any = _Null, dtype: Any = _Null, **kwargs: Any) -> Symbol:
    """Whole numbers from low to before high."""
    return draw("randint", [low, high], {"shape": shape, "dtype": dtype, **kwargs})


def multinomial(data: Symbol, shape: Any = _Null, get_prob: bool = True, dtype: Any = "int32", **kwargs: Any) -> Symbol:
    """Positions drawn with the probabilities in the last axis of `data`."""
    return internal("_sample_multinomial", data, shape=shape, get_prob=get_prob, dtype=dtype, **kwargs)


def shuffle(data: Symbol, **kwargs: Any) -> Symbol:
    """The items of the first axis in random order."""
    return internal("_shuffle", data, **kwargs)
