"""Python's operators on sparse arrays.

For a number, the scalar operator (`_mul_scalar`, ...) is called, since many of these keep zeros zero. For an array of
the same shape, the element-wise operator is called if it keeps results sparse. Otherwise the operator broadcasts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from ..base import numeric_types
from .array_classes import array_class
from .casting import write
from .eager import invoke, operator_named

if TYPE_CHECKING:
    from .ndarray import NDArray

OF_NUMBERS: dict[str, tuple[str, str]] = {
    "broadcast_add": ("_plus_scalar", "_plus_scalar"),
    "broadcast_sub": ("_minus_scalar", "_rminus_scalar"),
    "broadcast_mul": ("_mul_scalar", "_mul_scalar"),
    "broadcast_div": ("_div_scalar", "_rdiv_scalar"),
    "broadcast_mod": ("_mod_scalar", "_rmod_scalar"),
    "broadcast_power": ("_power_scalar", "_rpower_scalar"),
    "broadcast_maximum": ("_maximum_scalar", "_maximum_scalar"),
    "broadcast_minimum": ("_minimum_scalar", "_minimum_scalar"),
    "broadcast_equal": ("_equal_scalar", "_equal_scalar"),
    "broadcast_not_equal": ("_not_equal_scalar", "_not_equal_scalar"),
    "broadcast_greater": ("_greater_scalar", "_lesser_scalar"),
    "broadcast_greater_equal": ("_greater_equal_scalar", "_lesser_equal_scalar"),
    "broadcast_lesser": ("_lesser_scalar", "_greater_scalar"),
    "broadcast_lesser_equal": ("_lesser_equal_scalar", "_greater_equal_scalar"),
    "broadcast_logical_and": ("_logical_and_scalar", "_logical_and_scalar"),
    "broadcast_logical_or": ("_logical_or_scalar", "_logical_or_scalar"),
    "broadcast_logical_xor": ("_logical_xor_scalar", "_logical_xor_scalar"),
}
"""For each broadcasting operator, the scalar operators with the number on the right and on the left."""

_ELEMENTWISE = {
    "broadcast_add": "elemwise_add",
    "broadcast_sub": "elemwise_sub",
    "broadcast_mul": "elemwise_mul",
    "broadcast_div": "elemwise_div",
}


def binary(name: str, lhs: Any, rhs: Any) -> Any:
    """A broadcasting operator on a sparse array and an array or number, in either order."""
    of_number, of_number_left = OF_NUMBERS[name]
    if isinstance(rhs, numeric_types):
        return invoke(operator_named(of_number), (lhs,), {"scalar": float(rhs)})
    if isinstance(lhs, numeric_types):
        return invoke(operator_named(of_number_left), (rhs,), {"scalar": float(lhs)})
    _check(lhs)
    _check(rhs)
    return invoke(operator_named(name), (lhs, rhs), {})


def matched(name: str, lhs: Any, rhs: Any) -> Any:
    """Same as `binary`, but arrays of equal shape use the element-wise operator, which keeps results sparse."""
    shapes = getattr(lhs, "_shape", None), getattr(rhs, "_shape", None)
    if name in _ELEMENTWISE and shapes[0] is not None and shapes[0] == shapes[1]:
        return invoke(operator_named(_ELEMENTWISE[name]), (lhs, rhs), {})
    return binary(name, lhs, rhs)


def _check(value: Any) -> None:
    if not isinstance(value, array_class()):
        raise TypeError(f"type {type(value)} not supported")


def _method(name: str, apply: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    def method(self: NDArray, other: Any) -> Any:
        return apply(name, self, other)

    return method


def _reflected(name: str) -> Callable[[Any, Any], Any]:
    def method(self: NDArray, other: Any) -> Any:
        return binary(name, other, self)

    return method


def _in_place(name: str, apply: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    def method(self: NDArray, other: Any) -> Any:
        write(self, apply(name, self, other))
        return self

    return method


def _unary(name: str) -> Callable[[Any], Any]:
    def method(self: NDArray) -> Any:
        return invoke(operator_named(name), (self,), {})

    return method


class SparseArithmetic:
    """Python's operators for the classes of sparse arrays."""

    __slots__ = ()

    __add__ = _method("broadcast_add", matched)
    __sub__ = _method("broadcast_sub", matched)
    __mul__ = _method("broadcast_mul", matched)
    __truediv__ = __div__ = _method("broadcast_div", binary)
    __mod__ = _method("broadcast_mod", binary)
    __pow__ = _method("broadcast_power", binary)
    __radd__ = _reflected("broadcast_add")
    __rsub__ = _reflected("broadcast_sub")
    __rmul__ = _reflected("broadcast_mul")
    __rtruediv__ = __rdiv__ = _reflected("broadcast_div")
    __rmod__ = _reflected("broadcast_mod")
    __rpow__ = _reflected("broadcast_power")
    __iadd__ = _in_place("broadcast_add", matched)
    __isub__ = _in_place("broadcast_sub", matched)
    __imul__ = _in_place("broadcast_mul", matched)
    __itruediv__ = __idiv__ = _in_place("broadcast_div", binary)
    __imod__ = _in_place("broadcast_mod", binary)
    if TYPE_CHECKING:

        def __eq__(self, other: Any) -> Any: ...  # type: ignore[override]
        def __ne__(self, other: Any) -> Any: ...  # type: ignore[override]

    else:
        __eq__ = _method("broadcast_equal", binary)
        __ne__ = _method("broadcast_not_equal", binary)
    __gt__ = _method("broadcast_greater", binary)
    __ge__ = _method("broadcast_greater_equal", binary)
    __lt__ = _method("broadcast_lesser", binary)
    __le__ = _method("broadcast_lesser_equal", binary)
    __hash__ = object.__hash__
    __neg__ = _unary("negative")
    __abs__ = _unary("abs")

    def __bool__(self) -> NoReturn:
        raise ValueError("The truth value of a sparse array is ambiguous.")
