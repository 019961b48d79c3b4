"""Creates the functions of `nd`: one for each name of each operator, from its declaration, on first access.

`nd.FullyConnected(data, weight, num_hidden=10)` takes arrays and then parameters, by position or by name, and `out`,
`name` and `ctx`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from operator import is_
from typing import TYPE_CHECKING, Any

from ...ir.caches import Cache
from ...runtime.device import DeviceError
from ...runtime.modes import hooks, modes
from ..base import _Null
from ..context import as_context
from ..tracebacks import shorten
from .array_classes import array_class
from .eager import about_storage, apply_bound, bind, kind_of
from .fast_paths import FastPath, as_path, remember

if TYPE_CHECKING:
    from ...ir.dialects.mx.operator import Operator
    from .operator_function import BoundOperator, OperatorSpecialization

NAMESPACES = ("contrib", "linalg", "sparse", "image", "random")
"""Submodules of `nd` with the operators whose names start with `_contrib_`, `_linalg_`, ..."""

_CONTROL = ("out", "name", "ctx", "attr")


def full_name(namespace: str, name: str) -> str:
    """MXNet's operator name for a function of a namespace ("" is `nd` itself; "_internal" keeps the name)."""
    return f"_{namespace}_{name}" if namespace in NAMESPACES else name


def names_of(namespace: str) -> list[str]:
    """The sorted names of the operators in a namespace."""
    from ...ir.dialects.mx.operator import all_names

    if namespace in NAMESPACES:
        prefix = f"_{namespace}_"
        return sorted(n.removeprefix(prefix) for n in all_names() if n.startswith(prefix))
    return sorted(n for n in all_names() if n.startswith("_") == (namespace == "_internal"))


def find_function(namespace: str, name: str) -> Callable[..., Any]:
    """A function of a namespace. AttributeError if no operator of this name is declared."""
    hidden = name.startswith("__") or (namespace == "" and name.startswith("_"))
    found = None if hidden else _declared(full_name(namespace, name))
    if found is None:
        raise AttributeError(
            f"nd{'.' * bool(namespace)}{namespace} has no attribute {name!r}: no such operator is declared", name=name
        )
    return make_function(found, name, f"mxforge.ndarray{'.' * bool(namespace)}{namespace}")


def _declared(name: str) -> type[Operator] | None:
    from ...ir.dialects.mx.operator import find

    return find(name)


def make_function(cls: type[Operator], name: str, module: str) -> Callable[..., Any]:
    """The function of an operator under one of its names."""
    from ...ir.dialects.mx.describe import arguments

    inputs = arguments(cls)
    split = _splitter(cls, name, inputs)
    if cls.scalars:
        from .scalar_calls import scalar_function

        return _described(scalar_function(cls, split), cls, name, module, inputs)
    calls = _Calls(cls, split)
    plain, by_mode, slow = calls.plain.recent, calls.by_mode.recent, calls.slow

    def function(*args: Any, **kwargs: Any) -> Any:
        call = None
        try:
            key = _key_of(args, kwargs)
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

    return _described(function, cls, name, module, inputs)


def _apply_to(bound: BoundOperator, arrays: Sequence[Any], out: Any, context: Any) -> Any:
    """Apply an operator; with its parameter `init_output` False, a 0 in `out` is kept."""
    if out is None or getattr(bound.operator, "init_output", True):
        return apply_bound(bound, arrays, out, context)
    out *= apply_bound(bound, arrays, None, context)
    return out


def _described(
    function: Callable[..., Any], cls: type[Operator], name: str, module: str, inputs: Sequence[str]
) -> Callable[..., Any]:
    from ...ir.dialects.mx.describe import docstring

    function.__name__ = function.__qualname__ = name
    function.__module__ = module
    function.__doc__ = docstring(cls)
    function.__signature__ = signature(cls, inputs)  # type: ignore[attr-defined]
    return function


def _key_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The cache key of a call; see `_signature_of`."""
    return _signature_of(args, kwargs) if kwargs or len(args) != 1 else (args[0]._dtype, args[0]._shape)


def _signature_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The cache key of a call: dtypes and shapes of arrays, and parameters with their types, since 1, 1.0 and True are
    equal, in tuples too.

    TypeError for an array among the keywords, which the cache would keep alive. Hashing a key with lists raises
    TypeError too.
    """
    array = array_class()
    key: list[Any] = [(a._dtype, a._shape) if a.__class__ is array else (kind_of(a), a) for a in args]
    for name, value in kwargs.items():
        if isinstance(value, array):
            raise TypeError
        key += (name, kind_of(value), value)
    return tuple(key)


Split = Callable[[tuple[Any, ...], dict[str, Any]], tuple[list[Any], dict[str, Any]]]


class _Calls:
    """The calls of an operator. Fast paths are functions of the positional arguments: `plain` ones by the key of the
    call, those of calls that are recorded or in training mode by the modes and the key."""

    def __init__(self, cls: type[Operator], split: Split) -> None:
        self.cls, self.split = cls, split
        self.plain: Cache[Any, FastPath] = Cache("fast paths")
        self.by_mode: Cache[Any, FastPath] = Cache("fast paths")

    def slow(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call without a fast path, which gets one if that is possible."""
        arrays, params = self.split(args, kwargs.copy())
        if hooks.converter is not None:
            arrays, params = hooks.converter(self.cls, arrays, params)
        out, _, ctx, _ = (params.pop(key, None) for key in _CONTROL)
        bound, context = bind(self.cls, params), None if ctx is None else as_context(ctx)
        if out is not None or about_storage(bound.operator, arrays):
            return _apply_to(bound, arrays, out, context)
        found = bound.specialization(arrays, out, context)
        plain = ctx is None and bound.operator.with_legacy_shapes() is bound.operator  # keys lack the shape semantics
        if plain and 0 < len(arrays) <= len(args) and all(map(is_, args, arrays)):
            self._remember(args, kwargs, len(arrays), found)
        return found.call(arrays, out, context)

    def _remember(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], count: int, found: OperatorSpecialization
    ) -> None:
        """Cache the fast path of a call whose first `count` arguments are its arrays."""
        if hooks.intercepted:
            return
        try:
            key = _key_of(args, kwargs)
            mode = modes.recording, modes.training
            make = found.fast_recorded if modes.recording else found.fast
            paths, key = (self.by_mode, (mode, key)) if True in mode else (self.plain, key)
            remember(paths, key, found.device, lambda: _of_first(count, args, make()))
        except TypeError:  # lists
            return


def _of_first(count: int, args: tuple[Any, ...], path: FastPath) -> FastPath:
    """A fast path as a function of all arguments of a call, of which the first `count` are its arrays."""
    return path if count == len(args) else as_path(lambda *args: path(*args[:count]), path.owner)


def _splitter(cls: type[Operator], name: str, inputs: Sequence[str]) -> Split:
    """A function that splits a call into arrays and parameters."""
    return _variadic(cls, name) if any(i.startswith("*") for i in inputs) else _by_name(cls, name, inputs)


def _by_name(cls: type[Operator], name: str, inputs: Sequence[str]) -> Split:
    """As in MXNet, positional arguments are first arrays, then parameters, then `out` and `name`."""
    order = (*inputs, *(p for p in cls.parameters() if p not in inputs), "out", "name")
    count = len(inputs)

    def split(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        if len(args) > len(order):
            raise TypeError(f"{name} takes at most {len(order)} positional arguments, {len(args)} were given")
        params = {key: value for key, value in kwargs.items() if value is not _Null}
        arrays = list(args[:count])
        for key, value in zip(order[count:], args[count:], strict=False):
            if key in params:
                raise TypeError(f"{name} got multiple values for argument {key!r}")
            if value is not _Null:
                params[key] = value
        twice = params.keys() & inputs[: len(arrays)]
        if twice:
            raise TypeError(f"{name} got multiple values for argument {min(twice)!r}")
        for key in inputs[len(arrays) :]:
            arrays.append(params.pop(key, None))
        _check_arrays(name, inputs, arrays)
        return [a for a in arrays if a is not None], params

    return split


def _variadic(cls: type[Operator], name: str) -> Split:
    """Same as `_by_name`, but all positional arguments are arrays, whose number is passed as a parameter."""
    counter = cls.variadic if cls.variadic in cls.parameters() else None

    def split(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        if len(args) == 1 and isinstance(args[0], list | tuple):
            args = tuple(args[0])
        params = {key: value for key, value in kwargs.items() if value is not _Null}
        arrays = [*args, *_named_arrays(params)]
        _check_arrays(name, [f"#{i}" for i in range(len(arrays))], arrays)
        if counter is not None:
            params.setdefault(counter, len(arrays))
        return [a for a in arrays if a is not None], params

    return split


def _named_arrays(params: dict[str, Any]) -> list[Any]:
    """Arrays passed by name, removed from the parameters, in order."""
    named = [k for k, v in params.items() if k != "out" and isinstance(v, array_class())]
    return [params.pop(k) for k in named]


def _check_arrays(name: str, inputs: Sequence[str], arrays: Sequence[Any]) -> None:
    array = array_class()
    for argument, value in zip(inputs, arrays, strict=True):
        if value is not None and not isinstance(value, array):
            raise AssertionError(
                f"{name}: argument {argument} must have NDArray type, but got {value!r} of {type(value)}"
            )


def signature(cls: type[Operator], inputs: Sequence[str]) -> inspect.Signature:
    """The signature of an operator's function for `inspect.signature` and editors."""
    from ...ir.dialects.mx.describe import parameters

    kind = inspect.Parameter
    variadic = any(i.startswith("*") for i in inputs)
    named = kind.KEYWORD_ONLY if variadic else kind.POSITIONAL_OR_KEYWORD
    made = [
        kind(i[1:], kind.VAR_POSITIONAL) if i.startswith("*") else kind(i, kind.POSITIONAL_OR_KEYWORD, default=None)
        for i in sorted(inputs, key=lambda i: i.startswith("*"))
    ]
    if variadic:
        made = [p for p in made if p.kind is kind.VAR_POSITIONAL]
    for p in parameters(cls):
        if p.name.isidentifier() and p.name not in inputs:
            made.append(kind(p.name, named, default=_Null if p.required else p.default))
    made += [kind(n, named, default=None) for n in ("out", "name")]
    return inspect.Signature(made)


def attribute_finder(namespace: str, table: dict[str, Any]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of the module of a namespace. Functions are created on first access and added to
    `table`, the module's globals."""

    def find(name: str) -> Any:
        made = table[name] = find_function(namespace, name)
        return made

    def names() -> list[str]:
        return sorted({*table, *names_of(namespace)})

    return find, names
