"""The errors of MXNet's API, and the table of errors that can be raised by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

error_types: dict[str, type[Exception]] = {}
"""Error classes by name."""


class MXNetError(RuntimeError):
    """An invalid call. The text names the operator, the argument and the reason."""


class ShapeError(MXNetError, ValueError):
    """An invalid shape. MXNet raises MXNetError in some of these cases and ValueError in others."""


def register_error(func_name: Any = None, cls: Any = None) -> Any:
    """Register an error class under its own name or under `func_name`: `@register_error`, `@register_error("Name")` or
    `register_error("Name", cls)`. Returns the class, or a decorator."""
    if callable(func_name):
        func_name, cls = func_name.__name__, func_name

    def register(error: Any) -> Any:
        error_types[func_name if isinstance(func_name, str) else error.__name__] = error
        return error

    return register if cls is None else register(cls)


def _described(function: object, alias: str | None, args: tuple[object, ...]) -> str:
    """A function's name and the types of its arguments, for an error text."""
    name = getattr(function, "__name__", str(function))
    also = f' (namely operator "{alias}")' if alias else ""
    types = f" with arguments ({', '.join(str(type(a)) for a in args)})" if args else ""
    return f"Function {name}{also}{types}"


@register_error
class NotImplementedForSymbol(MXNetError):
    """A function that accepts arrays and not symbols."""

    def __init__(self, function: Callable[..., Any] | object, alias: str | None, *args: object) -> None:
        text = _described(function, alias, args)
        super().__init__(f"{text} is not implemented for Symbol and only available in NDArray.")


class NotSupportedForSparseNDArray(MXNetError):
    """A function that accepts dense arrays and not sparse ones."""

    def __init__(self, function: Callable[..., Any] | object, alias: str | None, *args: object) -> None:
        text = _described(function, alias, args)
        super().__init__(f"{text} is not supported for SparseNDArray and only available in NDArray.")
