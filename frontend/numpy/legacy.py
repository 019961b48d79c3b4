"""The operators of `mx.nd` on arrays of `mx.np`: the `F` of blocks that are called with such arrays.

Gluon's layers are written with the operators of `mx.nd` and `mx.sym`. `F.FullyConnected` here is the same operator; its
operands and results are arrays of `mx.np`. `F.np` and `F.npx` are `mx.np` and `mx.npx`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from .. import ndarray
from ..generated_functions import NAMESPACES, Arguments, full_name
from ..ndarray.array_classes import is_numpy
from ..ndarray.functions import function_of, splitter
from ..ndarray.ndarray import NDArray
from .functions import NP


class _Operators:
    """The operators of a namespace of `mx.nd`, on arrays of `mx.np`."""

    def __init__(self, namespace: str, module: Any) -> None:
        self._namespace, self._module = namespace, module

    def __getattr__(self, name: str) -> Any:
        value = self._found(name)
        self.__dict__[name] = value
        return value

    def _found(self, name: str) -> Any:
        from ...ir.dialects.mx.operator import find

        if not self._namespace:
            if name == "np" or name == "npx":
                return import_module(f"..{'numpy' if name == 'np' else 'numpy_extension'}", __package__)
            if name in NAMESPACES or name == "_internal":
                return _Operators(name, getattr(self._module, name))
        cls = None if name.startswith("__") else find(full_name(self._namespace, name))
        if cls is None:
            return _converting(getattr(self._module, name))
        return function_of(cls, splitter(Arguments(cls, name, NP.values, ("out", "name"))), True)


def _converting(value: Any) -> Any:
    """A function of `mx.nd` written in Python, on arrays of `mx.np`: they share memory and the place on the tape."""
    if not callable(value) or isinstance(value, type):
        return value

    def function(*args: Any, **kwargs: Any) -> Any:
        result = value(*map(_as_nd, args), **{key: _as_nd(v) for key, v in kwargs.items()})
        return _as_np(result)

    return function


def _as_nd(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return type(value)(map(_as_nd, value))
    return value.as_nd_ndarray() if is_numpy(value) else value


def _as_np(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return type(value)(map(_as_np, value))
    return value.as_np_ndarray() if isinstance(value, NDArray) and not value._is_sparse else value


OPERATORS = _Operators("", ndarray)
