"""Creates the functions of `sym`: one for each name of each operator, from its declaration.

`sym.FullyConnected(data, num_hidden=10)` takes inputs as symbols and parameters as Python values or strings.
`sym.contrib`, `sym.linalg`, ... hold the operators whose names start with `_contrib_`, `_linalg_`, ..., and
`sym._internal` all operators whose names start with `_`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...ir.dialects.mx.parameters import attribute_text
from ..base import _Null
from ..tracebacks import api_boundary
from .compose import create_node, dtype_text, resolved_attrs, resolved_name
from .symbol import Symbol

if TYPE_CHECKING:
    from ...ir.dialects.mx.operator import Operator

NAMESPACES = ("contrib", "linalg", "sparse", "image", "random")


def full_name(namespace: str, name: str) -> str:
    """MXNet's operator name for a function of a namespace ("" is `sym` itself; "_internal" keeps the name)."""
    return f"_{namespace}_{name}" if namespace in NAMESPACES else name


_converter: list[Callable[..., Symbol]] = []  # the registered function; see convert_calls


def convert_calls(converter: Callable[..., Symbol] | None) -> None:
    """Make symbols by `converter(operator, create, args, kwargs)` instead of `create(*args, **kwargs)`."""
    _converter[:] = [] if converter is None else [converter]


def find_function(namespace: str, name: str) -> Callable[..., Symbol] | None:
    """The function of an operator; None if no operator of this name is declared."""
    from ...ir.dialects.mx.operator import find

    if namespace == "" and name.startswith("_"):
        return None
    found = find(full_name(namespace, name))
    if found is None:
        return None
    made = make_function(found, full_name(namespace, name), name)
    made.__module__ = ".".join(filter(None, ("mxforge.symbol", namespace)))
    return made


def names_of(namespace: str) -> list[str]:
    """The sorted names of the operators in a namespace."""
    from ...ir.dialects.mx.operator import all_names

    if namespace in NAMESPACES:
        prefix = f"_{namespace}_"
        return sorted(n.removeprefix(prefix) for n in all_names() if n.startswith(prefix))
    return sorted(n for n in all_names() if n.startswith("_") == (namespace == "_internal"))


def make_function(op: type[Operator], op_name: str, name: str) -> Callable[..., Symbol]:
    """A function of symbols. `name` is its name and the prefix of automatic names."""
    from ...ir.dialects.mx.describe import arguments, docstring

    inputs = arguments(op)
    variadic = any(argument.startswith("*") for argument in inputs)
    bind = _variadic_binder(op) if variadic else _binder(op, inputs)
    hint = name.lower()

    @api_boundary
    def function(*args: Any, **kwargs: Any) -> Symbol:
        return _converter[0](op, create, args, kwargs) if _converter else create(*args, **kwargs)

    def create(*args: Any, **kwargs: Any) -> Symbol:
        given, symbols = bind(args, kwargs)
        given.pop("out", None)
        attr = given.pop("attr", None) or {}
        # only variables require strings
        params = resolved_attrs({key: attribute_text(value) for key, value in attr.items()})
        chosen = given.pop("name", None)
        for key, value in given.items():
            if isinstance(value, Symbol):
                symbols[key] = value
            elif value is not _Null:
                params[key] = dtype_text(value) if key == "dtype" else value
        positional = given_positional(symbols)
        return Symbol(create_node(op_name, params, positional, symbols, resolved_name(chosen, hint)))

    function.__name__ = function.__qualname__ = create.__name__ = name
    function.__doc__ = docstring(op, "Symbol")
    function.__signature__ = _signature(op, inputs)  # type: ignore[attr-defined]
    return function


def given_positional(symbols: dict[str, Any]) -> list[Any]:
    """The positional symbols that a variadic binder stored under the key "*"."""
    return symbols.pop("*", [])


Binder = Callable[[tuple[Any, ...], dict[str, Any]], tuple[dict[str, Any], dict[str, Any]]]


def _binder(op: type[Operator], inputs: tuple[str, ...]) -> Binder:
    """A function that splits a call into parameters and inputs. As in MXNet, positional arguments are first inputs,
    then parameters."""
    order = (*inputs, *op.parameters(), "name", "attr", "out")
    input_set = frozenset(inputs)

    def bind(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        if len(args) > len(order):
            raise TypeError(f"{op.mx_name()} takes at most {len(order)} positional arguments, {len(args)} were given")
        given = dict(zip(order, args, strict=False))
        for key, value in kwargs.items():
            if key in given:
                raise TypeError(f"{op.mx_name()} got multiple values for argument {key!r}")
            given[key] = value
        symbols = {key: given.pop(key) for key in order if key in given and key in input_set}
        return given, {key: _checked(key, value) for key, value in symbols.items() if value is not None}

    return bind


def _variadic_binder(op: type[Operator]) -> Binder:
    counter = op.variadic if op.variadic in op.parameters() else None

    def bind(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        given = dict(kwargs)
        inputs = [_checked(f"#{i}", value) for i, value in enumerate(args)]
        if counter is not None and counter not in given:
            given[counter] = len(inputs) + sum(isinstance(v, Symbol) for v in given.values())
        return given, {"*": inputs} if inputs else {}

    return bind


def _checked(argument: str, value: Any) -> Any:
    if not isinstance(value, Symbol):
        raise AssertionError(f"Argument {argument} must be Symbol instances, but got {value}")
    return value


def _signature(op: type[Operator], inputs: tuple[str, ...]) -> inspect.Signature:
    from ...ir.dialects.mx.describe import parameters

    kind = inspect.Parameter
    made = [
        kind(i[1:], kind.VAR_POSITIONAL) if i.startswith("*") else kind(i, kind.POSITIONAL_OR_KEYWORD, default=None)
        for i in inputs
    ]
    named = kind.KEYWORD_ONLY if any(i.startswith("*") for i in inputs) else kind.POSITIONAL_OR_KEYWORD
    for p in parameters(op):
        if p.name.isidentifier() and p.name not in inputs:
            made.append(kind(p.name, named, default=p.default))
    made += [kind(n, kind.KEYWORD_ONLY, default=None) for n in ("name", "attr", "out")]
    return inspect.Signature(made)


def attribute_finder(namespace: str, table: dict[str, Any]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of the module of a namespace. Functions are created on first access and added to
    `table`, the module's globals."""

    def find(name: str) -> Any:
        made = None if name.startswith("__") else find_function(namespace, name)
        if made is None:
            raise AttributeError(f"module {table['__name__']!r} has no attribute {name!r}", name=name)
        table[name] = made
        return made

    def names() -> list[str]:
        return sorted({*table, *names_of(namespace)})

    return find, names
