"""Creates the functions of `mx.np` and `mx.npx` on arrays: those that are operators, when they are first accessed."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as onp

from ..base import numeric_types
from ..generated_functions import Arguments, Function, Package, Values
from ..ndarray.array_classes import array_class
from ..ndarray.functions import Answer, function_of, splitter
from ..ndarray.numpy_arithmetic import binary_function
from ..numpy_rows import BINARY, ROWS, UFUNCS
from ..util import check_ufunc_options

if TYPE_CHECKING:
    from ...ir.dialects.mx.operator import Operator

_OPTIONS = frozenset("where casting order dtype subok".split())
_BINARY = {name: own or name for name, _, own in (text.partition("=") for text in BINARY.split())}


def _make(cls: type[Operator], full_name: str, name: str, arguments: Arguments) -> Function:
    split = splitter(arguments)
    return _ufunc(cls, name, split) if name in UFUNCS else function_of(cls, split, True)


def _ufunc(cls: type[Operator], name: str, split: Callable[..., Any]) -> Function:
    """A function of one array, or of a number by NumPy, with the options of a ufunc."""

    def divide(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        options = {key: kwargs.pop(key) for key in tuple(kwargs) if key in _OPTIONS}
        check_ufunc_options(name, options)
        x = args[0] if args else kwargs.get("x")
        if isinstance(x, numeric_types):
            raise Answer(getattr(onp, "round" if name == "round_" else name)(*args, **kwargs))
        if not isinstance(x, array_class()):
            raise TypeError(f"type {type(x)} not supported")
        unknown = [key for key in kwargs if key not in known]
        if unknown:
            raise TypeError(f"{unknown[0]} is an invalid keyword to function '{name}'")
        return split(args, kwargs)

    known = {"x", "out", *cls.parameters()}
    function = function_of(cls, divide, True)
    function.__name__ = name
    return function


NP = Package("np", "mxforge.numpy", Values("ndarray", array_class, "must have NDArray type"), ("out",), _make)
NPX = Package(
    "npx",
    "mxforge.numpy_extension",
    Values("ndarray", array_class, "must have NDArray type"),
    ("out", "name"),
    _make,
)


@cache
def operator_named(name: str) -> Function:
    """The function of an operator, by the operator's name, on arrays of `mx.np`."""
    from ...ir.dialects.mx.operator import lookup

    cls = lookup(name)
    return function_of(cls, splitter(Arguments(cls, name, NP.values, ("out", "name"))), True)


def operator_function(name: str) -> Function | None:
    """The function of `mx.np` of this name, if it is an operator."""
    if name in _BINARY:
        return binary_function(name, _BINARY[name])
    return NP.listed(ROWS[name]) if name in ROWS else None


def names() -> set[str]:
    """The names of the functions of `mx.np` that are operators."""
    return {*_BINARY, *ROWS}
