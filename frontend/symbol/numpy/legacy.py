"""The operators of `mx.sym` on symbols of `mx.sym.np`: the `F` of blocks that are traced with such symbols."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ... import symbol
from ...generated_functions import NAMESPACES, Arguments, full_name
from ..numpy_symbol import _Symbol
from ..ops import PACKAGE, function_of
from ..symbol import Symbol


class _Operators:
    """The operators of a namespace of `mx.sym`, whose results are symbols of `mx.sym.np`."""

    def __init__(self, namespace: str, module: Any) -> None:
        self._namespace, self._module = namespace, module

    def __getattr__(self, name: str) -> Any:
        value = self._found(name)
        self.__dict__[name] = value
        return value

    def _found(self, name: str) -> Any:
        from ....ir.dialects.mx.operator import find

        if not self._namespace:
            if name == "np" or name == "npx":
                return import_module(f"..{'numpy' if name == 'np' else 'numpy_extension'}", __package__)
            if name in NAMESPACES or name == "_internal":
                return _Operators(name, getattr(self._module, name))
        op_name = full_name(self._namespace, name)
        cls = None if name.startswith("__") else find(op_name)
        if cls is None:
            return _converting(getattr(self._module, name))
        arguments = Arguments(cls, name, PACKAGE.values, PACKAGE.control)
        return function_of(cls, op_name, name, arguments, _Symbol)


def _converting(value: Any) -> Any:
    """A function of `mx.sym` written in Python, with symbols of `mx.sym.np`."""
    if not callable(value) or isinstance(value, type):
        return value

    def function(*args: Any, **kwargs: Any) -> Any:
        result = value(*map(_as_sym, args), **{key: _as_sym(v) for key, v in kwargs.items()})
        return _as_np(result)

    return function


def _as_sym(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return type(value)(map(_as_sym, value))
    return value.as_nd_ndarray() if isinstance(value, _Symbol) else value


def _as_np(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return type(value)(map(_as_np, value))
    return value.as_np_ndarray() if isinstance(value, Symbol) else value


OPERATORS = _Operators("", symbol)
