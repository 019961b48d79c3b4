"""Arithmetic of arrays of `mx.np`: Python's operators, and the functions of two arrays such as `np.add`.

Operators promote the dtypes of arrays. A number is converted to the dtype of the array beside it, as in MXNet, and a
boolean array to integers, but not for operators of bits; a quotient of integers is one of floats.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

import numpy as onp

from ...ir.promotion import DEFAULT_FLOAT, KEEP_BOOLEANS
from ...ir.types import DType
from ...runtime.device import DeviceError
from ...runtime.modes import hooks
from ..base import numeric_types
from ..tracebacks import api_boundary
from ..util import check_ufunc_options
from .arithmetic import (
    Binary,
    as_operand,
    beside_number,
    in_place_of,
    method_of,
    reflected_of,
    require_kind,
    table_of,
)
from .eager import invoke, operator_named
from .recorded_calls import while_watched

if TYPE_CHECKING:
    from .ndarray import NDArray

_AS_FLOATS = {d: DEFAULT_FLOAT.full_name for d in DType if not d.is_float}
_OPERATORS = {"maximum": "broadcast_maximum", "minimum": "broadcast_minimum"}


def binary_named(name: str) -> Binary:
    """The operator of a function of two arrays, `add` for instance."""
    operator = _OPERATORS.get(name, f"_npi_{name}")
    if name in KEEP_BOOLEANS:
        return Binary(operator, True, {})
    return Binary(operator, True, _AS_FLOATS) if name == "true_divide" else Binary(operator, True)


def binary_function(public: str, name: str) -> Callable[..., Any]:
    """The function `public` of two arrays, an array and a number in either order, or two numbers."""
    binary = binary_named(name)
    fast_paths, slow = table_of(*binary[:2]).recent, _of_any(binary, public)

    def function(x1: Any, x2: Any, out: Any = None, **kwargs: Any) -> Any:
        try:
            call = fast_paths[x1._dtype, x1._shape, x2._dtype, x2._shape]
        except (AttributeError, KeyError):
            call = None
        if hooks.watched:
            call = while_watched(call)
        if call is not None and out is None and not kwargs:
            try:
                return call(x1, x2)
            except DeviceError:
                pass
        return slow(x1, x2, out, kwargs)

    function.__name__ = function.__qualname__ = public
    function.__module__ = "mxforge.numpy"
    return function


def _of_any(binary: Binary, public: str) -> Callable[..., Any]:
    """The slow path of a function."""
    forward, reflected = method_of(binary, public, ""), reflected_of(binary, public, "")

    @api_boundary
    def slow(x1: Any, x2: Any, out: Any, kwargs: dict[str, Any]) -> Any:
        if kwargs:
            check_ufunc_options(public, kwargs)
        if isinstance(x1, numeric_types) and isinstance(x2, numeric_types):
            return getattr(onp, public)(x1, x2)
        if out is not None:
            return _into(binary, x1, x2, out)
        if isinstance(x1, numeric_types):
            return reflected(x2, x1)
        return forward(as_operand(x1, DEFAULT_FLOAT), x2)

    return slow


def _into(binary: Binary, x1: Any, x2: Any, out: Any) -> Any:
    """Apply an operator and write the result into `out`."""
    if isinstance(x1, numeric_types):
        x2 = beside_number(binary, x2)
        x1 = as_operand(x1, x2._dtype)
    elif isinstance(x2, numeric_types):
        x1 = beside_number(binary, x1)
        x2 = as_operand(x2, x1._dtype)
    require_kind(binary, x1, x2)
    return invoke(operator_named(binary.operator), [x1, x2], {}, out, numpy=binary.numpy)


_METHODS = {
    "add": "add",
    "sub": "subtract",
    "mul": "multiply",
    "truediv": "true_divide",
    "mod": "mod",
    "pow": "power",
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
    "matmul": "matmul",
    "floordiv": "floor_divide",
    "lshift": "bitwise_left_shift",
    "rshift": "bitwise_right_shift",
}
_COMPARISONS = {
    "eq": "equal",
    "ne": "not_equal",
    "gt": "greater",
    "ge": "greater_equal",
    "lt": "less",
    "le": "less_equal",
}


def _of_arrays(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method that refuses numbers."""

    @wraps(method)
    def checked(self: Any, other: Any) -> Any:
        if isinstance(other, numeric_types):
            raise AssertionError(f"matmul: the argument must be an array of mx.np, not {other!r}")
        return method(self, other)

    return checked


def _or_of_numpy(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method that leaves an array of NumPy on the right to NumPy, whose operator calls `__array_ufunc__`."""

    @wraps(method)
    def checked(self: Any, other: Any) -> Any:
        return NotImplemented if isinstance(other, onp.ndarray) else method(self, other)

    return checked


def negation_of(method: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The method `-x`: of booleans, a product with -1."""

    @wraps(method)
    def negation(self: NDArray) -> NDArray:
        return method(self) if self._dtype is not DType.BOOL else self * -1

    return negation


def install(cls: type[NDArray]) -> None:
    """Give a class of arrays Python's operators."""
    for python, name in _METHODS.items():
        binary = binary_named(name)
        setattr(cls, f"__{python}__", method_of(binary, f"__{python}__", name))
        setattr(cls, f"__r{python}__", reflected_of(binary, f"__r{python}__", name))
        setattr(cls, f"__i{python}__", in_place_of(binary, f"__i{python}__", name))
    for python in ("matmul", "rmatmul", "imatmul"):
        setattr(cls, f"__{python}__", _of_arrays(getattr(cls, f"__{python}__")))
    for python in ("floordiv", "lshift", "rshift"):  # MXNet's arrays lack them, so Python asks NumPy's array
        setattr(cls, f"__{python}__", _or_of_numpy(getattr(cls, f"__{python}__")))
    for python, name in _COMPARISONS.items():
        setattr(cls, f"__{python}__", method_of(binary_named(name), f"__{python}__", name))
    for python in ("div", "rdiv", "idiv"):
        setattr(cls, f"__{python}__", getattr(cls, f"__{python.replace('div', 'truediv')}__"))
