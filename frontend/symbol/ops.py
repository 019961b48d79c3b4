"""Creates the functions of `sym`: one for each name of each operator, from its declaration.

`sym.FullyConnected(data, num_hidden=10)` takes inputs as symbols and parameters as Python values or strings.
`sym.contrib`, `sym.linalg`, ... hold the operators whose names start with `_contrib_`, `_linalg_`, ..., and
`sym._internal` all operators whose names start with `_`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...ir.dialects.mx.parameters import attribute_text
from ..generated_functions import Arguments, Function, Package, Values
from ..tracebacks import api_boundary
from .compose import create_node, dtype_text, resolved_attrs, resolved_name
from .symbol import Symbol

if TYPE_CHECKING:
    from ...ir.dialects.mx.operator import Operator

_converter: list[Callable[..., Symbol]] = []  # the registered function; see convert_calls


def convert_calls(converter: Callable[..., Symbol] | None) -> None:
    """Make symbols by `converter(operator, create, args, kwargs)` instead of `create(*args, **kwargs)`."""
    _converter[:] = [] if converter is None else [converter]


def make_function(op: type[Operator], op_name: str, name: str, arguments: Arguments) -> Function:
    """A function of symbols. `name` is its name and the prefix of automatic names."""
    return function_of(op, op_name, name, arguments)


def function_of(
    op: type[Operator], op_name: str, name: str, arguments: Arguments, cls: type[Symbol] = Symbol
) -> Function:
    """A function whose results are symbols of `cls`."""
    hint = name.lower()

    @api_boundary
    def function(*args: Any, **kwargs: Any) -> Symbol:
        return _converter[0](op, create, args, kwargs) if _converter else create(*args, **kwargs)

    def create(*args: Any, **kwargs: Any) -> Symbol:
        positional, symbols, others = arguments.divide(args, kwargs)
        others.pop("out", None)
        attr = others.pop("attr", None) or {}
        # only variables require strings
        params = resolved_attrs({key: attribute_text(value) for key, value in attr.items()})
        chosen = others.pop("name", None)
        for key, value in others.items():
            if isinstance(value, Symbol):
                symbols[key] = value
            else:
                params[key] = dtype_text(value) if key == "dtype" else value
        return cls(create_node(op_name, params, positional, symbols, resolved_name(chosen, hint)))

    create.__name__ = name
    return function


PACKAGE = Package(
    "sym",
    "mxforge.symbol",
    Values("Symbol", lambda: Symbol, "must be a Symbol"),
    ("name", "attr", "out"),
    make_function,
)


def find_function(namespace: str, name: str) -> Function:
    """A function of a namespace. AttributeError if no operator of this name is declared."""
    return PACKAGE.function(namespace, name)


def attribute_finder(namespace: str, table: dict[str, Any]) -> tuple[Function, Callable[[], list[str]]]:
    """See `Package.attributes`."""
    return PACKAGE.attributes(namespace, table)
