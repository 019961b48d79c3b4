"""The errors of MXNet's API, and the table of errors that have a name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

error_types: dict[str, type[Exception]] = {}
"""Errors by the name under which a message may ask for them."""


class MXNetError(RuntimeError):
    """A call that MXNet refuses: it names the operator, the argument, and what does not fit."""


def gradients_missing(what: str) -> MXNetError:
    """The error of a call that needs gradients, which come with training."""
    return MXNetError(f"{what}: gradients are not there yet; they come with training")


class ShapeError(MXNetError, ValueError):
    """A shape that does not fit: MXNet raises MXNetError in some such cases and ValueError in others."""


def register_error(func_name: Any = None, cls: Any = None) -> Any:
    """Make an error known by its class's name, or by `func_name`: `@register_error`, `@register_error("Name")` or
    `register_error("Name", cls)`. Gives the class, or the decorator."""
    if callable(func_name):
        func_name, cls = func_name.__name__, func_name

    def register(error: Any) -> Any:
        error_types[func_name if isinstance(func_name, str) else error.__name__] = error
        return error

    return register if cls is None else register(cls)


def _described(function: object, alias: str | None, args: tuple[object, ...]) -> str:
    """Names a function and the types of its arguments."""
    name = getattr(function, "__name__", str(function))
    also = f' (namely operator "{alias}")' if alias else ""
    types = f" with arguments ({', '.join(str(type(a)) for a in args)})" if args else ""
    return f"Function {name}{also}{types}"


@register_error
class NotImplementedForSymbol(MXNetError):
    """A function that works on arrays and not on symbols."""

    def __init__(self, function: Callable[..., Any] | object, alias: str | None, *args: object) -> None:
        text = _described(function, alias, args)
        super().__init__(f"{text} is not implemented for Symbol and only available in NDArray.")


class NotSupportedForSparseNDArray(MXNetError):
    """A function that works on dense arrays and not on sparse ones."""

    def __init__(self, function: Callable[..., Any] | object, alias: str | None, *args: object) -> None:
        text = _described(function, alias, args)
        super().__init__(f"{text} is not supported for SparseNDArray and only available in NDArray.")
