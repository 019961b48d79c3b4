"""Makes the functions of `nd`: one for each name of each operator, from its declaration, when it is first asked for.

`nd.FullyConnected(data, weight, num_hidden=10)` takes arrays and then parameters, by position or by name, and `out`,
`name` and `ctx`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..base import MXNetError, _Null
from ..context import Context
from .eager import bind, bounded, invoke

if TYPE_CHECKING:
    from ...ir.dialects.mx.operator import Operator

NAMESPACES = ("contrib", "linalg", "sparse", "image", "random")
"""Submodules of `nd` that hold the operators whose names begin with `_contrib_`, `_linalg_`, ..."""

_CONTEXT = re.compile(r"(\w+)\((\d+)\)")
_CONTROL = ("out", "name", "ctx", "attr")


def full_name(namespace: str, name: str) -> str:
    """The operator's name in MXNet for a function of a namespace ("" is `nd` itself, "_internal" keeps the name)."""
    return f"_{namespace}_{name}" if namespace in NAMESPACES else name


def names_of(namespace: str) -> list[str]:
    """The names of operators that a namespace offers, sorted."""
    from ...ir.dialects.mx.operator import all_names

    if namespace in NAMESPACES:
        prefix = f"_{namespace}_"
        return sorted(n.removeprefix(prefix) for n in all_names() if n.startswith(prefix))
    return sorted(n for n in all_names() if n.startswith("_") == (namespace == "_internal"))


def find_function(namespace: str, name: str) -> Callable[..., Any]:
    """The function of a namespace. AttributeError when no operator of this name is declared."""
    hidden = name.startswith("__") or (namespace == "" and name.startswith("_"))
    found = None if hidden else _declared(full_name(namespace, name))
    if found is None:
        raise AttributeError(
            f"nd{'.' * bool(namespace)}{namespace} has no attribute {name!r}: no such operator is declared"
        )
    return make_function(found, name, f"mxforge.ndarray{'.' * bool(namespace)}{namespace}")


def _declared(name: str) -> type[Operator] | None:
    from ...ir.dialects.mx.operator import all_names

    return all_names().get(name)


def make_function(cls: type[Operator], name: str, module: str) -> Callable[..., Any]:
    """The function of an operator under one of its names."""
    from ...ir.dialects.mx.describe import arguments, docstring

    inputs = arguments(cls)
    split = _variadic(cls, name) if any(i.startswith("*") for i in inputs) else _by_name(cls, name, inputs)
    ready: dict[Any, Callable[..., Any]] = {}

    def function(*args: Any, **kwargs: Any) -> Any:
        if not kwargs and len(args) < 3:
            call = ready.get(_types(args)) or _prepare(cls, inputs, args, ready)
            if call is not None:
                return call(*args)
        arrays, params = split(args, kwargs)
        out, _, ctx, _ = (params.pop(key, None) for key in _CONTROL)
        return invoke(cls, arrays, params, out, None if ctx is None else as_context(ctx))

    function.__name__ = function.__qualname__ = name
    function.__module__ = module
    function.__doc__ = docstring(cls)
    function.__signature__ = signature(cls, inputs)  # type: ignore[attr-defined]
    return function


def _types(args: tuple[Any, ...]) -> Any:
    """What a call of arrays alone is found by; None with anything else among the arguments."""
    try:
        if len(args) == 1:
            return args[0]._dtype, args[0]._shape
        return args[0]._dtype, args[0]._shape, args[1]._dtype, args[1]._shape
    except (AttributeError, IndexError):
        return None


def _prepare(
    cls: type[Operator], inputs: Sequence[str], args: tuple[Any, ...], ready: dict[Any, Callable[..., Any]]
) -> Callable[..., Any] | None:
    """The call of an operator on exactly its one or two arrays, and no parameters; None for others, which take the
    long way."""
    types = _types(args)
    if types is None or len(args) != len(inputs) or inputs[-1].startswith("*"):
        return None
    call = bind(cls, {}).call_for(args).fast()
    bounded(ready)[types] = call
    return call


Split = Callable[[tuple[Any, ...], dict[str, Any]], tuple[list[Any], dict[str, Any]]]


def _by_name(cls: type[Operator], name: str, inputs: Sequence[str]) -> Split:
    """Splits a call into arrays and parameters: positional arguments are arrays first, then parameters, as in MXNet."""
    order = (*inputs, *(p for p in cls.parameters() if p not in inputs))
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
        for key in inputs[len(arrays) :]:
            arrays.append(params.pop(key, None))
        _check_arrays(name, inputs, arrays)
        return [a for a in arrays if a is not None], params

    return split


def _variadic(cls: type[Operator], name: str) -> Split:
    """All positional arguments are arrays; their number becomes the operator's parameter for it."""
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
    """Arrays given by name, taken out of the parameters in their order."""
    from .ndarray import NDArray

    named = [k for k, v in params.items() if k != "out" and isinstance(v, NDArray)]
    return [params.pop(k) for k in named]


def _check_arrays(name: str, inputs: Sequence[str], arrays: Sequence[Any]) -> None:
    from .ndarray import NDArray

    for argument, value in zip(inputs, arrays, strict=True):
        if value is not None and not isinstance(value, NDArray):
            raise TypeError(f"{name}: argument {argument} must have NDArray type, but got {value!r} of {type(value)}")


def as_context(ctx: Context | str) -> Context:
    """A context, or MXNet's text for one: "cpu(0)"."""
    if isinstance(ctx, Context):
        return ctx
    found = _CONTEXT.fullmatch(ctx)
    if found is None:
        raise MXNetError(f"{ctx!r} names no context: write it as cpu(0)")
    return Context(found[1], int(found[2]))


def signature(cls: type[Operator], inputs: Sequence[str]) -> inspect.Signature:
    """What `inspect.signature` and editors show for the function of an operator."""
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
    made += [kind(n, kind.KEYWORD_ONLY, default=None) for n in ("out", "name")]
    return inspect.Signature(made)


def attribute_finder(namespace: str, table: dict[str, Any]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a module that offers a namespace; functions that were made stay in `table`, its
    globals."""

    def find(name: str) -> Any:
        made = table[name] = find_function(namespace, name)
        return made

    def names() -> list[str]:
        return sorted({*table, *names_of(namespace)})

    return find, names
