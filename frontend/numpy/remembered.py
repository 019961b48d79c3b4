"""Functions of `mx.np` that choose an operator, with the fast path of the operator's call.

Such a function is Python code that converts arguments and calls one operator, or several. If a call called one operator
on the arrays among its arguments, in their order, and returned its result, later calls with such arguments take the
operator's fast path at once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from operator import is_
from typing import Any

from ...ir.caches import Cache
from ...runtime.device import DeviceError
from ...runtime.modes import hooks
from ..ndarray.eager import kind_of
from ..ndarray.fast_paths import FastPath
from ..ndarray.numpy_array import ndarray
from ..numpy_functions import bound

Operators = Callable[[str], Callable[..., Any]]

_ATTEMPTS = 3
"""After so many calls of one key without a fast path no further one looks for it: an operator has none before its
second call of new shapes."""


def remembered(name: str, F: Operators, module: str, namespace: str = "") -> Callable[..., Any] | None:
    """As `bound`, on arrays, with fast paths."""
    slow = bound(name, F, module, namespace)
    if slow is None:
        return None
    calls = _Calls(name, F, module, namespace)
    paths = calls.paths.recent

    @wraps(slow)
    def function(*args: Any, **kwargs: Any) -> Any:
        if hooks.watched:
            return slow(*args, **kwargs)
        try:
            if len(args) == 1 and args[0].__class__ is list and not kwargs:  # as of `stack`
                arrays = args[0]
                key = tuple([(x._dtype, x._shape, x.__class__) for x in arrays])
            else:
                key, arrays = _key_of(args, kwargs)
            path = paths.get(key)
        except (AttributeError, TypeError):  # other lists among the arguments, or arrays among the keywords
            return slow(*args, **kwargs)
        if path is None:
            return calls.first(key, arrays, args, kwargs)
        try:
            return path(*arrays)
        except DeviceError:
            return slow(*args, **kwargs)

    function.__signature__ = slow.__signature__  # type: ignore[attr-defined]
    return function


class _Calls:
    """The calls of a function: `paths` by their key. A call without a fast path has the function itself."""

    def __init__(self, name: str, F: Operators, module: str, namespace: str) -> None:
        self.paths: Cache[Any, Callable[..., Any]] = Cache("fast paths", ages=True)
        self._without: Cache[Any, int] = Cache("calls without fast paths")
        self._make = lambda F: bound(name, F, module, namespace)
        self._F, self._slow = F, self._make(F)

    def first(self, key: Any, arrays: list[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call whose key has no fast path, which gets one if that is possible."""
        assert self._slow is not None
        failed = self._without.recent.get(key, 0)
        if not arrays or failed == _ATTEMPTS:
            return self._slow(*args, **kwargs)
        seen = _Seen(self._F)
        function = self._make(seen)
        assert function is not None
        result = function(*args, **kwargs)
        path = seen.path(arrays, result)
        if path is not None:
            self.paths.add(key, path)
        else:
            self._without.replace(key, failed + 1)
        return result


class _Seen:
    """Finds the functions of operators, and sees how they are called."""

    def __init__(self, F: Operators) -> None:
        self._F = F
        self._calls: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any], Any]] = []

    def __call__(self, name: str) -> Callable[..., Any]:
        function = self._F(name)

        def call(*args: Any, **kwargs: Any) -> Any:
            result = function(*args, **kwargs)
            self._calls.append((function, args, kwargs, result))
            return result

        return call

    def path(self, arrays: list[Any], result: Any) -> FastPath | None:
        """The fast path of the call of the function that returned `result`; None if it has none."""
        if len(self._calls) != 1:
            return None
        function, args, kwargs, own = self._calls[0]
        path_of = getattr(function, "path_of", None)
        same = len(args) == len(arrays) and all(map(is_, args, arrays))
        if not same or path_of is None or not _is_result(own, result):
            return None
        return path_of(args, kwargs)


def _is_result(own: Any, result: Any) -> bool:
    """True if a function returned what its operator did, which can be a list."""
    if own is result:
        return True
    are_lists = own.__class__ is list and result.__class__ is list and len(own) == len(result)
    return are_lists and all(map(is_, own, result))


def _key_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, list[Any]]:
    """The key of a call, and its arrays in order: those among the arguments by position, and in lists there. TypeError
    for an array among the keywords, which the cache would keep alive."""
    key: list[Any] = []
    arrays: list[Any] = []
    for a in args:
        cls = a.__class__
        if cls is ndarray:
            key.append((a._dtype, a._shape))
            arrays.append(a)
        elif (cls is list or cls is tuple) and a and a[0].__class__ is ndarray:
            key.append(tuple([(x._dtype, x._shape) for x in a if x.__class__ is ndarray]))
            if len(key[-1]) != len(a):
                raise TypeError
            arrays += a
        else:
            key.append((kind_of(a), a))
    for name, value in kwargs.items():
        if value.__class__ is ndarray:
            raise TypeError
        key += (name, kind_of(value), value)
    return tuple(key), arrays
