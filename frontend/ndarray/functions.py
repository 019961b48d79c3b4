"""Creates the functions of `nd`: one for each name of each operator, from its declaration, on first access.

`nd.FullyConnected(data, weight, num_hidden=10)` takes arrays and then parameters, by position or by name, and `out`,
`name` and `ctx`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import is_
from typing import TYPE_CHECKING, Any

from ...ir.caches import Cache
from ...runtime.device import DeviceError
from ...runtime.modes import hooks, modes
from ..context import as_context
from ..generated_functions import Arguments, Function, Package, Values
from ..tracebacks import shorten
from .array_classes import array_class, is_numpy, number_class
from .eager import about_storage, apply_bound, bind, kind_of
from .fast_paths import FastPath, as_path, remember
from .operator_function import OperatorSpecialization

if TYPE_CHECKING:
    from ...ir.dialects.mx.operator import Operator
    from .operator_function import BoundOperator

_CONTROL = ("out", "name", "ctx", "attr")


def make_function(cls: type[Operator], full_name: str, name: str, arguments: Arguments) -> Function:
    """The function of an operator under one of its names."""
    return function_of(cls, splitter(arguments), False)


def function_of(cls: type[Operator], split: Split, numpy: bool) -> Function:
    """The function of an operator on arrays, with `numpy` on those of `mx.np`. `split` divides its arguments."""
    if cls.scalars:
        from .scalar_calls import scalar_function

        return scalar_function(cls, split, numpy)
    calls = _Calls(cls, split, numpy)
    plain, by_mode, slow = calls.plain.recent, calls.by_mode.recent, calls.slow
    array = array_class("numpy" if numpy else "default")

    def function(*args: Any, **kwargs: Any) -> Any:
        call = None
        try:
            if kwargs or len(args) != 1:
                key = _signature_of(array, args, kwargs)
            else:
                key = (args[0]._dtype, args[0]._shape)
            if not hooks.watched:
                call = plain[key]
            elif not hooks.intercepted:
                mode = modes.recording, modes.training
                call = by_mode[mode, key] if True in mode else plain[key]
        except (AttributeError, KeyError, TypeError):
            pass
        if call is not None:
            try:
                return call(*args)
            except DeviceError:
                pass
        try:
            return slow(args, kwargs)
        except Exception as error:
            shorten(error)
            raise

    function.path_of = calls.path_of  # type: ignore[attr-defined]
    return function


PACKAGE = Package(
    "nd", "mxforge.ndarray", Values("NDArray", array_class, "must have NDArray type"), ("out", "name"), make_function
)


def find_function(namespace: str, name: str) -> Function:
    """A function of a namespace. AttributeError if no operator of this name is declared."""
    return PACKAGE.function(namespace, name)


def attribute_finder(namespace: str, table: dict[str, Any]) -> tuple[Function, Callable[[], list[str]]]:
    """See `Package.attributes`."""
    return PACKAGE.attributes(namespace, table)


def _apply_to(bound: BoundOperator, arrays: Sequence[Any], out: Any, context: Any) -> Any:
    """Apply an operator; with its parameter `init_output` False, a 0 in `out` is kept."""
    if out is None or getattr(bound.operator, "init_output", True):
        return apply_bound(bound, arrays, out, context)
    out *= apply_bound(bound, arrays, None, context)
    return out


def _key_of(array: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The cache key of a call; see `_signature_of`."""
    return _signature_of(array, args, kwargs) if kwargs or len(args) != 1 else (args[0]._dtype, args[0]._shape)


def _signature_of(array: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The cache key of a call: dtypes and shapes of arrays, which are of the class `array`, and parameters with their
    types, since 1, 1.0 and True are equal, in tuples too.

    TypeError for an array among the keywords, which the cache would keep alive. Hashing a key with lists raises
    TypeError too.
    """
    key: list[Any] = [(a._dtype, a._shape) if a.__class__ is array else (kind_of(a), a) for a in args]
    for name, value in kwargs.items():
        if isinstance(value, array):
            raise TypeError
        key += (name, kind_of(value), value)
    return tuple(key)


class Answer(Exception):
    """Raised instead of dividing the arguments of a call whose result is known."""

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


Split = Callable[[tuple[Any, ...], dict[str, Any]], tuple[list[Any], dict[str, Any]]]


class _Calls:
    """The calls of an operator. Fast paths are functions of the positional arguments: `plain` ones by the key of the
    call, those of calls that are recorded or in training mode by the modes and the key."""

    def __init__(self, cls: type[Operator], split: Split, numpy: bool) -> None:
        self.cls, self.split, self.numpy = cls, split, numpy
        self.array = array_class("numpy" if numpy else "default")
        self.plain: Cache[Any, FastPath] = Cache("fast paths", ages=True)
        self.by_mode: Cache[Any, FastPath] = Cache("fast paths", ages=True)

    def slow(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call without a fast path, which gets one if that is possible."""
        try:
            arrays, params = self.split(args, kwargs)
        except Answer as answer:
            return answer.value
        if hooks.converter is not None:
            arrays, params = hooks.converter(self.cls, arrays, params)
        out, _, ctx, _ = (params.pop(key, None) for key in _CONTROL)
        require_arrays(self.cls.mx_name(), arrays, self.numpy)
        bound, context = bind(self.cls, params, self.numpy), None if ctx is None else as_context(ctx)
        if out is not None or about_storage(bound.operator, arrays):
            return _apply_to(bound, arrays, out, context)
        specialization = bound.caller(arrays, out, context)
        plain = ctx is None and bound.operator.with_legacy_shapes() is bound.operator  # keys lack the shape semantics
        is_known = isinstance(specialization, OperatorSpecialization)
        if is_known and plain and 0 < len(arrays) <= len(args) and all(map(is_, args, arrays)):
            self._remember(args, kwargs, len(arrays), specialization)
        return specialization.call(arrays, out, context)

    def path_of(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> FastPath | None:
        """The fast path of calls like this one that are neither recorded nor in training mode, if there is one."""
        try:
            return self.plain.recent.get(_key_of(self.array, args, kwargs))
        except (AttributeError, TypeError):
            return None

    def _remember(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], count: int, specialization: OperatorSpecialization
    ) -> None:
        """Cache the fast path of a call whose first `count` arguments are its arrays."""
        if hooks.intercepted:
            return
        try:
            key = _key_of(self.array, args, kwargs)
            mode = modes.recording, modes.training
            make = specialization.fast_recorded if modes.recording else specialization.fast
            paths, key = (self.by_mode, (mode, key)) if True in mode else (self.plain, key)
            remember(paths, key, specialization.device, lambda: _of_first(count, args, make()))
        except TypeError:  # lists
            return


def _of_first(count: int, args: tuple[Any, ...], path: FastPath) -> FastPath:
    """A fast path as a function of all arguments of a call, of which the first `count` are its arrays."""
    return path if count == len(args) else as_path(lambda *args: path(*args[:count]), path.owner)


def require_arrays(name: str, arrays: Sequence[Any], numpy: bool) -> None:
    """TypeError for an array of `mx.np` as operand of an operator of `mx.nd`, and the other way round."""
    for array in arrays:
        if is_numpy(array) is numpy or array.__class__ is number_class():
            continue
        if numpy:
            raise TypeError(
                f"Operator `{name}` is a numpy operator, which can only accept MXNet numpy ndarrays, while received a "
                "legacy ndarray. Please call `as_np_ndarray()` upon the legacy ndarray to convert it to an MXNet numpy "
                "ndarray, and then feed the converted array to this operator."
            )
        raise TypeError(
            f"Operator `{name}` is a legacy operator, which can only accept legacy ndarrays, while received an MXNet "
            "numpy ndarray. Please call `as_nd_ndarray()` upon the numpy ndarray to convert it to a legacy ndarray, "
            "and then feed the converted array to this operator."
        )


def splitter(arguments: Arguments) -> Split:
    """A function that splits a call into arrays and parameters. A list of arrays can replace a varying number."""

    def split(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        if arguments.is_variadic and len(args) == 1 and isinstance(args[0], list | tuple):
            args = tuple(args[0])
        divided = arguments.divide(args, kwargs)
        return [*divided.positional, *divided.named.values()], divided.others

    return split
