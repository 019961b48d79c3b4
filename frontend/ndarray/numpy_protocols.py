"""NumPy's protocols: functions of NumPy on arrays of `mx.np`.

Those that MXNet lists are the functions of `mx.np` with their names. All others are NumPy's own on copies, with NumPy's
dtypes. NumPy's own have no gradient, so that under `autograd.record` whatever `mx.np` has is computed by `mx.np`.
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
    function = _own_function((name,)) if name in _UFUNCS or modes.recording else None
    if function is None:
        return _by_numpy(ufunc, inputs, kwargs)
    context = next(x._context for x in inputs if isinstance(x, array_class()))
    return function(*[_module().array(x, ctx=context) if isinstance(x, onp.ndarray) else x for x in inputs], **kwargs)


def apply_function(func: Any, types: Any, args: Any, kwargs: Any) -> Any:
    """A function of NumPy on arguments of which some are arrays of `mx.np`."""
    parts = func.__module__.removeprefix("numpy").removeprefix(".").split(".")
    path = (*filter(None, parts), _NUMPYS_NAMES.get(func.__name__) or func.__name__)
    function = _own_function(path) if ".".join(path) in _FUNCTIONS or modes.recording else None
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


_UFUNCS = frozenset(
    """
    absolute add arccos arccosh arcsin arcsinh arctan arctan2 arctanh bitwise_and bitwise_not bitwise_or bitwise_xor
    cbrt ceil copysign cos cosh degrees equal exp expm1 fabs floor greater greater_equal hypot invert lcm less
    less_equal log log10 log2 logical_not matmul maximum minimum mod multiply negative not_equal power reciprocal
    remainder rint sign sin sinh sqrt square subtract tan tanh true_divide trunc
    """.split()
)
"""The ufuncs that MXNet computes."""

_FUNCTIONS = frozenset(
    """
    all amax amin any append argmax argmin argsort around array_split atleast_1d atleast_2d atleast_3d bincount
    broadcast_arrays broadcast_to clip column_stack concatenate copy cumsum delete diag diag_indices_from diagflat
    diagonal diff dot dsplit dstack ediff1d einsum empty_like expand_dims fix flip fliplr flipud full_like hsplit hstack
    inner insert isneginf isposinf max may_share_memory mean meshgrid min nan_to_num nonzero ones_like outer pad
    percentile polyval prod quantile ravel repeat reshape resize roll round shape shares_memory sort split squeeze stack
    std sum swapaxes take tensordot tile trace transpose tril unique unravel_index var vdot vsplit vstack where
    zeros_like linalg.cholesky linalg.eig linalg.eigh linalg.eigvals linalg.eigvalsh linalg.inv linalg.norm linalg.pinv
    linalg.solve linalg.tensorinv linalg.tensorsolve
    """.split()
)
"""The other functions that MXNet computes."""


def _by_numpy(function: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
    """The function of NumPy on copies. ValueError in a record section."""
    if modes.recording:
        raise ValueError(
            f"Falling back to NumPy operator {function.__name__} with autograd active is not supported. "
            "Please consider moving the operator to the outside of the autograd scope."
        )
    return import_module("..numpy.fallback", __package__).converted(function, args, kwargs)
