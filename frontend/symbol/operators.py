"""Python's operators on symbols (`a + b`), and operators as methods of Symbol (`a.reshape(...)`)."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Number
from typing import Any, NoReturn

import numpy as np

from ..base import NotImplementedForSymbol
from ..generated_functions import METHODS, method_help
from .ops import find_function
from .symbol import Symbol


def internal(op: str, *args: Any, **kwargs: Any) -> Symbol:
    """Use an operator by its full name, as `sym._internal` does."""
    return find_function("_internal", op)(*args, **kwargs)


def binary(elementwise: str, scalar: str, left: Symbol, right: Any) -> Symbol:
    """A binary operator on two symbols, or on a symbol and a number."""
    if isinstance(right, Symbol):
        return internal(elementwise, left, right)
    if isinstance(right, Number | np.number):
        return internal(scalar, left, scalar=right)
    raise TypeError(f"type {type(right)} not supported")


def _operator_method(elementwise: str, scalar: str) -> Callable[[Symbol, Any], Symbol]:
    return lambda self, other: binary(elementwise, scalar, self, other)


def _reflected_method(elementwise: str, scalar: str) -> Callable[[Symbol, Any], Symbol]:
    def method(self: Symbol, other: Any) -> Symbol:
        return internal(elementwise, other, self) if isinstance(other, Symbol) else binary("", scalar, self, other)

    return method


def _in_place_method(method: str, operator: str) -> Callable[[Symbol, Any], NoReturn]:
    def fail(self: Symbol, other: Any) -> NoReturn:
        raise NotImplementedForSymbol(method, operator, other)

    return fail


def _array_only(method: str) -> Callable[..., NoReturn]:
    def fail(self: Symbol, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedForSymbol(method, None)

    return fail


def _fluent(op: str) -> Callable[..., Symbol]:
    def method(self: Symbol, *args: Any, **kwargs: Any) -> Symbol:
        return internal(op, self, *args, **kwargs)

    method.__doc__ = method_help(op, "sym", "symbol")
    return method


# `inplace` has no effect on symbols; it is accepted for programs that also run on arrays.


def _expand_dims(self: Symbol, axis: int, inplace: bool = False, **kwargs: Any) -> Symbol:
    """Inserts an axis of extent 1 at position `axis`."""
    return internal("expand_dims", self, axis=axis, **kwargs)


def _flatten(self: Symbol, inplace: bool = False, **kwargs: Any) -> Symbol:
    """Merges all axes except the first: shape (n, ...) becomes (n, m)."""
    return internal("flatten", self, **kwargs)


def _squeeze(self: Symbol, axis: Any = None, inplace: bool = False, **kwargs: Any) -> Symbol:
    """Removes axes of extent 1: `axis`, one or a tuple, or by default all."""
    return internal("squeeze", self, axis=axis, **kwargs)


def _diag(self: Symbol, k: int = 0, **kwargs: Any) -> Symbol:
    """Extracts the k-th diagonal of a matrix, or builds a matrix with a vector as its k-th diagonal."""
    return internal("diag", self, k=k, **kwargs)


def _negative(self: Symbol) -> Symbol:
    return internal("_MulScalar", self, scalar=-1.0)


# By Python method: the operators for two symbols, symbol OP number, and number OP symbol.
_ARITHMETIC = {
    "add": ("_Plus", "_PlusScalar", "_PlusScalar"),
    "sub": ("_Minus", "_MinusScalar", "_RMinusScalar"),
    "mul": ("_Mul", "_MulScalar", "_MulScalar"),
    "truediv": ("_Div", "_DivScalar", "_RDivScalar"),
    "mod": ("_Mod", "_ModScalar", "_RModScalar"),
    "pow": ("_Power", "_PowerScalar", "_rpower_scalar"),
}
_COMPARISONS = {
    "eq": "equal",
    "ne": "not_equal",
    "gt": "greater",
    "ge": "greater_equal",
    "lt": "lesser",
    "le": "lesser_equal",
}
_IN_PLACE = {"__iadd__": "+=", "__isub__": "-=", "__imul__": "*=", "__itruediv__": "/=", "__idiv__": "/="}
_OF_PYTHON_2 = ("__div__", "__rdiv__")
_ARRAY_ONLY = "wait_to_read asnumpy asscalar copy as_in_context detach backward"
MORE_METHODS = ("broadcast_like", "broadcast_to", "reshape")  # those of arrays differ from the operators


def _install(cls: type[Symbol]) -> None:
    """Add all methods to a class of symbols."""
    for name, (pair, scalar, reflected) in _ARITHMETIC.items():
        setattr(cls, f"__{name}__", _operator_method(pair, scalar))
        setattr(cls, f"__r{name}__", _reflected_method(pair, reflected))
    for name, op in _COMPARISONS.items():
        setattr(cls, f"__{name}__", _operator_method(f"_{op}", f"_{op}_scalar"))
    for name, op in _IN_PLACE.items():
        setattr(cls, name, _in_place_method(name, op))
    for name in _OF_PYTHON_2:
        setattr(cls, name, getattr(cls, name.replace("div", "truediv")))
    for name in _ARRAY_ONLY.split():
        setattr(cls, name, _array_only(name))
    for name in (*METHODS, *MORE_METHODS):
        setattr(cls, name, _fluent(name))
    methods = {"__neg__": _negative, "diag": _diag, "expand_dims": _expand_dims}
    methods |= {"flatten": _flatten, "squeeze": _squeeze}
    for name, method in methods.items():
        setattr(cls, name, method)
    for name, op in {"__abs__": "abs", "astype": "cast"}.items():
        setattr(cls, name, _fluent(op))


_install(Symbol)
