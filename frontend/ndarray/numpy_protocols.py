"""NumPy's protocols: functions of NumPy on arrays of `mx.np` are the functions of `mx.np` with their names.

Those that `mx.np` does not have are NumPy's own on copies, as in MXNet; they have no gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from importlib import import_module
from typing import Any

import numpy as onp

from ...runtime.modes import modes
from .array_classes import array_class

_NUMPYS_NAMES = {
    "acos": "arccos",
    "acosh": "arccosh",
    "asin": "arcsin",
    "asinh": "arcsinh",
    "atan": "arctan",
    "atan2": "arctan2",
    "atanh": "arctanh",
    "concat": "concatenate",
    "divide": "true_divide",
    "permute_dims": "transpose",
    "pow": "power",
}


def _module() -> Any:
    return import_module("..numpy", __package__)


def apply_ufunc(ufunc: Any, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A ufunc on operands of which some are arrays of `mx.np`; NumPy's arrays among them are converted."""
    if method != "__call__":
        return NotImplemented
    out = kwargs.pop("out", None)
    if out is not None:
        if len(out) != 1:
            raise ValueError("The `out` parameter must have exactly one ndarray")
        (kwargs["out"],) = out
    name: str = _NUMPYS_NAMES.get(ufunc.__name__) or ufunc.__name__
    function = _own_function((name,))
    if function is None:
        return _by_numpy(ufunc, inputs, kwargs)
    context = next(x._context for x in inputs if isinstance(x, array_class()))
    return function(*[_module().array(x, ctx=context) if isinstance(x, onp.ndarray) else x for x in inputs], **kwargs)


def apply_function(func: Any, types: Any, args: Any, kwargs: Any) -> Any:
    """A function of NumPy on arguments of which some are arrays of `mx.np`."""
    path = func.__module__.removeprefix("numpy").removeprefix(".").split(".")
    name: str = _NUMPYS_NAMES.get(func.__name__) or func.__name__
    function = _own_function((*filter(None, path), name))
    if function is None:
        return _by_numpy(func, args, kwargs)
    if not all(issubclass(t, array_class("numpy")) for t in types):
        return NotImplemented
    return function(*args, **kwargs)


def _own_function(path: tuple[str, ...]) -> Callable[..., Any] | None:
    """The function of `mx.np` at this path; None if it is NumPy's own, or missing."""
    from ..numpy_functions import names
    from ..numpy_rows import BINARY, ROWS

    if path[:-1] == ("linalg",):
        return getattr(_module().linalg, path[-1]) if path[-1] in names("linalg") else None
    known = {*ROWS, *names(), *(text.partition("=")[0] for text in BINARY.split()), *_ON_ARRAYS}
    return reduce(getattr, path, _module()) if len(path) == 1 and path[0] in known else None


_ON_ARRAYS = frozenset(
    """
    bincount broadcast_arrays delete diag_indices_from empty_like full_like histogram insert may_share_memory meshgrid
    ones_like percentile polyval quantile resize shape shares_memory unique unravel_index zeros_like
    """.split()
)
"""Further functions of `mx.np` that are not NumPy's own."""


def _by_numpy(function: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
    """The function of NumPy on copies. ValueError in a record section."""
    if modes.recording:
        raise ValueError(
            f"Falling back to NumPy operator {function.__name__} with autograd active is not supported. "
            "Please consider moving the operator to the outside of the autograd scope."
        )
    return import_module("..numpy.fallback", __package__).converted(function, args, kwargs)
