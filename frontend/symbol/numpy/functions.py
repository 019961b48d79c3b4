"""Creates the functions of `mx.sym.np` and `mx.sym.npx`: those of `mx.np`, on symbols."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as onp

from ...base import numeric_types
from ...generated_functions import NUMPY_PREFIXES, Arguments, Function, Package, Values
from ...numpy_functions import bound
from ...numpy_functions import names as shared_names
from ...numpy_rows import BINARY, ROWS, SWAPPED, UFUNCS, of_number
from ...util import check_ufunc_options
from ..numpy_symbol import _Symbol
from ..ops import function_of
from ..symbol import Symbol

if TYPE_CHECKING:
    from ....ir.dialects.mx.operator import Operator

_MODULE = "mxforge.symbol.numpy"
_OPTIONS = frozenset("where casting order dtype subok".split())
_BINARY = {name: own or name for name, _, own in (text.partition("=") for text in BINARY.split())}


def _hint(full_name: str) -> str:
    """The prefix of automatic names."""
    prefix = next((p for p in NUMPY_PREFIXES if full_name.startswith(p)), "")
    return full_name.removeprefix(prefix)


def _make(cls: type[Operator], full_name: str, name: str, arguments: Arguments) -> Function:
    function = function_of(cls, full_name, _hint(full_name), arguments, _Symbol)
    return _ufunc(name, function) if name in UFUNCS else function


def _ufunc(name: str, function: Function) -> Function:
    def of_any(x: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(x, numeric_types):
            return getattr(onp, name)(x, *args, **kwargs)
        if not isinstance(x, Symbol):
            raise TypeError(f"type {type(x)} not supported")
        check_ufunc_options(name, {key: kwargs.pop(key) for key in tuple(kwargs) if key in _OPTIONS})
        return function(x, *args, **kwargs)

    of_any.__name__ = name
    return of_any


_VALUES = Values("_Symbol", lambda: _Symbol, "must be a symbol of mx.sym.np")
NP = Package("sym.np", _MODULE, _VALUES, ("name", "attr", "out"), _make)
NPX = Package("sym.npx", "mxforge.symbol.numpy_extension", _VALUES, ("name", "attr", "out"), _make)


@cache
def internal(full_name: str) -> Function:
    """The function of an operator on symbols of `mx.sym.np`, by the operator's full name."""
    from ....ir.dialects.mx.operator import lookup

    cls = lookup(full_name)
    hint = _hint(full_name)
    return function_of(cls, full_name, hint, Arguments(cls, hint, _VALUES, ("name", "attr", "out")), _Symbol)


def _binary(public: str) -> Callable[..., Any]:
    """A function of two symbols, a symbol and a number in either order, or two numbers."""
    name = _BINARY[public]

    def function(x1: Any, x2: Any, out: Any = None, **kwargs: Any) -> Any:
        check_ufunc_options(public, {key: kwargs.pop(key) for key in tuple(kwargs) if key in _OPTIONS})
        if isinstance(x1, Symbol) and isinstance(x2, Symbol):
            return internal(f"_npi_{name}")(x1, x2, out=out, **kwargs)
        if isinstance(x1, numeric_types) and isinstance(x2, numeric_types):
            return getattr(onp, public)(x1, x2)
        return _with_number(name, x1, x2, kwargs)

    function.__name__ = function.__qualname__ = public
    function.__module__ = _MODULE
    return function


def _with_number(name: str, x1: Any, x2: Any, kwargs: dict[str, Any]) -> Any:
    symbol, number, right = (x1, x2, True) if isinstance(x1, Symbol) else (x2, x1, False)
    if not isinstance(number, numeric_types) or not isinstance(symbol, Symbol):
        raise TypeError(f"type {type(number)} not supported")
    operator = of_number(name, right)
    is_int = isinstance(number, int | onp.integer) and (right or name in SWAPPED)
    return internal(operator)(symbol, scalar=float(number), is_int=is_int, **kwargs)


def find(name: str) -> Callable[..., Any] | None:
    """The function of this name; None if `mx.sym.np` has none."""
    if name in _BINARY and _BINARY[name] != "matmul":
        return _binary(name)
    if name in ROWS:
        return NP.listed(ROWS[name])
    if name in MORE:
        return vars(import_module(".more", __package__))[name]
    return bound(name, internal, _MODULE) or bound(name, internal, _MODULE, "creation")


MORE = frozenset("delete histogram insert may_share_memory resize shares_memory unravel_index".split())
"""The functions of `more.py`."""


def names() -> set[str]:
    """The names of all functions."""
    return {*_BINARY, *ROWS, *MORE, *shared_names(), *shared_names("creation")}
